package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
)

// An item is a record as a store gets it, under a number of its own.
type item struct {
	key           uint64
	entry, inputs []byte
}

// A store keeps items. This is all that is asked of a peer, and it is asked by many goroutines at
// once.
type store interface {
	put(items ...item) error            // all of them are on stable storage when it returns nil
	reopen(each func(item) error) error // closes the store, opens it anew and reads everything, in any order
}

// A peer makes the calls of a work with a store.
type peer struct {
	work  work
	host  *host
	store store
	next  atomic.Uint64 // calls
}

func (p *peer) do(int) error {
	n := p.next.Add(1) - 1
	call := p.work.calls[n%uint64(len(p.work.calls))]
	for i, r := range call {
		entry := r.entry
		if p.work.signs {
			var err error
			if entry, err = p.host.sign(r.payload); err != nil {
				return err
			}
			if !bytes.Equal(entry, r.entry) { // Ed25519 has one signature for each message
				return errors.New("a signature is not that of the kernel")
			}
		}
		if err := p.store.put(item{n*uint64(len(call)) + uint64(i), entry, r.inputs}); err != nil {
			return err
		}
	}
	return nil
}

// check opens the store anew: everything that was acknowledged is there, once, byte for byte, and
// nothing else.
func (p *peer) check() error {
	calls := p.next.Load()
	per := uint64(len(p.work.calls[0]))
	seen := make([]bool, calls*per)
	found := uint64(0)
	err := p.store.reopen(func(it item) error {
		if it.key >= uint64(len(seen)) || seen[it.key] {
			return fmt.Errorf("record %d was not written, or is there twice", it.key)
		}
		seen[it.key] = true
		found++
		want := p.work.calls[it.key/per%uint64(len(p.work.calls))][it.key%per]
		if !bytes.Equal(it.entry, want.entry) || !bytes.Equal(it.inputs, want.inputs) {
			return fmt.Errorf("record %d has other bytes", it.key)
		}
		return nil
	})
	if err == nil && (found == 0 || found != calls*per) {
		err = fmt.Errorf("%d records are there of %d that were acknowledged", found, calls*per)
	}
	return err
}
