package api

import (
	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

// reading is the part of the API that reads the log.
type reading struct {
	kernel   *helm.Kernel
	store    proofgraph.Store
	key      crypto.Signer
	log      *index
	drawer   drawer
	verifier verifier
	packs    chan struct{} // has a place for each that is written
}

func newReading(o *Options) reading {
	return reading{
		kernel: o.Kernel, store: o.Store, key: o.Key, log: newIndex(o.Store), packs: make(chan struct{}, packs),
		drawer: drawer{turn: make(chan struct{}, 1)}, verifier: verifier{turn: make(chan struct{}, 1)},
	}
}

// unreadable says that something is wrong, and not what.
const unreadable = "the log cannot be read now"
