package main

import (
	"crypto/ed25519"
	"errors"
	"runtime"

	"github.com/helmkernel/helm/bench/peers"
)

const many = 64 // callers

// The names of the rows that others are compared with.
const (
	signName = "Ed25519 signature of 256 bytes"
	rawName  = "write + fdatasync, zero-filled file"
)

// stores are the stores that a user might take instead, each with the usual ways to share it.
var stores = []struct {
	name string
	open func(path string) (peers.Store, error)
	ways []way
}{
	{"append + fsync", peers.Appended, []way{alone, oneByOne}},
	{rawName, peers.Zeroed, []way{alone, oneByOne, grouped}},
	{"bbolt, Update", peers.Bolt, []way{alone, oneByOne, grouped}},
	{"bbolt, Batch", peers.BoltBatched, []way{oneByOne}},
	{"SQLite, WAL, synchronous FULL", peers.SQLite, []way{alone, oneByOne, grouped}},
	{"HELM filestore, Append", helmAlone, []way{alone, oneByOne, grouped}}, // of receipts; the others have its kernel
}

// A way is how callers share a store.
type way int

const (
	alone    way = iota // one caller
	oneByOne            // many callers: a transaction each, or what the store itself makes of them
	grouped             // many callers: one transaction for all who wait
)

// rowsOf returns the rows of a work's table: signatures, peers, and HELM as a whole.
func rowsOf(h *host, w work) []row {
	rows := []row{{signName, 1, openSigner}, {signName, runtime.GOMAXPROCS(0), openSigner}}
	for _, p := range stores {
		if w.signs && p.name == "HELM filestore, Append" {
			continue
		}
		for _, way := range p.ways {
			r := row{p.name, many, func(path string) (subject, error) {
				s, err := p.open(path)
				if err != nil {
					return nil, err
				}
				if way == grouped {
					s = &peers.Group{Store: s}
				}
				return &peer{work: w, host: h, store: s}, nil
			}}
			switch way {
			case alone:
				r.callers = 1
			case grouped:
				r.name += ", grouped"
			}
			rows = append(rows, r)
		}
	}
	if !w.signs {
		return rows
	}
	for _, x := range []struct {
		name    string
		callers int
		shared  bool
	}{{"HELM Guard on filestore", 1, false}, {"HELM Guard on filestore, 64 sessions", many, false},
		{"HELM Guard on filestore, one session", many, true}} {
		rows = append(rows, row{x.name, x.callers, func(dir string) (subject, error) {
			return h.guarded(dir, x.callers, w.name == "ALLOW", x.shared)
		}})
	}
	return rows
}

// A signer signs and writes nothing.
type signer struct {
	key ed25519.PrivateKey
	msg []byte
}

func openSigner(string) (subject, error) {
	return signer{ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), make([]byte, 256)}, nil
}

func (s signer) do(int) error {
	if len(ed25519.Sign(s.key, s.msg)) != ed25519.SignatureSize {
		return errors.New("no signature")
	}
	return nil
}

func (s signer) check() error {
	if !ed25519.Verify(s.key.Public().(ed25519.PublicKey), s.msg, ed25519.Sign(s.key, s.msg)) {
		return errors.New("a signature does not verify")
	}
	return nil
}
