package main

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/helmkernel/helm/bench/peers"
)

// A peer makes the calls of a work with a store.
type peer struct {
	work  work
	host  *host
	store peers.Store
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
		key := n*uint64(len(call)) + uint64(i)
		if err := p.store.Put(peers.Item{Key: key, Entry: entry, Inputs: r.inputs}); err != nil {
			return err
		}
	}
	return nil
}

// check opens the store again: everything that was acknowledged is there, once, byte for byte, and
// nothing else.
func (p *peer) check() error {
	calls := p.next.Load()
	per := uint64(len(p.work.calls[0]))
	seen := make([]bool, calls*per)
	found := uint64(0)
	err := p.store.Reopen(func(it peers.Item) error {
		if it.Key >= uint64(len(seen)) || seen[it.Key] {
			return fmt.Errorf("record %d was not written, or is there twice", it.Key)
		}
		seen[it.Key] = true
		found++
		want := p.work.calls[it.Key/per%uint64(len(p.work.calls))][it.Key%per]
		if !bytes.Equal(it.Entry, want.entry) || !bytes.Equal(it.Inputs, want.inputs) {
			return fmt.Errorf("record %d has other bytes", it.Key)
		}
		return nil
	})
	if err == nil && (found == 0 || found != calls*per) {
		err = fmt.Errorf("%d records are there of %d that were acknowledged", found, calls*per)
	}
	return err
}
