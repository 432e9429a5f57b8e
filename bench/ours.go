package main

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/bench/peers"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/receipts"
)

// A helmStore is HELM's file store without a log over it: each put is one Append. It is for entries
// without inputs.
type helmStore struct {
	dir  string
	s    *filestore.Store
	mu   sync.Mutex // held across one put; protects keys
	keys []uint64   // of the entries, in order
}

func helmAlone(dir string) (peers.Store, error) {
	s, err := filestore.Open(dir, filestore.Options{})
	return &helmStore{dir: dir, s: s}, err
}

func (h *helmStore) Put(items ...peers.Item) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := proofgraph.Batch{At: uint64(len(h.keys))}
	for _, it := range items {
		if it.Inputs != nil {
			return errors.New("inputs are measured with the whole kernel")
		}
		b.Entries = append(b.Entries, it.Entry)
		h.keys = append(h.keys, it.Key)
	}
	return h.s.Append(context.Background(), b)
}

func (h *helmStore) Reopen(each func(peers.Item) error) error {
	if err := h.s.Close(); err != nil {
		return err
	}
	s, err := filestore.OpenReadOnly(h.dir)
	if err != nil {
		return err
	}
	defer s.Close()
	size, err := s.Size(context.Background())
	if err != nil {
		return err
	}
	if size != uint64(len(h.keys)) {
		return fmt.Errorf("%d entries are there of %d", size, len(h.keys))
	}
	i := 0
	for e, err := range s.Entries(context.Background(), 0, size) {
		if err != nil {
			return err
		}
		if err := each(peers.Item{Key: h.keys[i], Entry: e}); err != nil {
			return err
		}
		i++
	}
	return nil
}

// A guarded is the whole of HELM: calls of Kernel.Guard over a file store.
type guarded struct {
	host   *host
	dir    string
	allow  bool
	shared bool // all callers have one session, else each its own
	store  *filestore.Store
	kernel *helm.Kernel
	seed   maphash.Seed
	mine   [][]receipt // by caller
}

// A receipt is one that was acknowledged.
type receipt struct{ index, sum uint64 }

func (h *host) guarded(dir string, callers int, allow, shared bool) (subject, error) {
	s, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		return nil, err
	}
	k, err := h.Kernel(s)
	return &guarded{h, dir, allow, shared, s, k, maphash.MakeSeed(), make([][]receipt, callers)}, err
}

func (g *guarded) do(caller int) error {
	session := "bench"
	if !g.shared {
		session = fmt.Sprint("bench-", caller)
	}
	r, err := g.host.Guard(g.kernel, caller, session, g.allow)
	if err != nil {
		return err
	}
	g.mine[caller] = append(g.mine[caller], receipt{r.Index, maphash.Bytes(g.seed, r.Entry)})
	return nil
}

// check opens the log again: its chains hold, every receipt that was acknowledged is at its index,
// and there is no other; the signature of one in 50 is verified.
func (g *guarded) check() error {
	trust := g.kernel.Trust()
	if err := errors.Join(g.kernel.Close(), g.store.Close()); err != nil {
		return err
	}
	want := make(map[uint64]uint64)
	for _, receipts := range g.mine {
		for _, r := range receipts {
			want[r.index] = r.sum
		}
	}
	acknowledged := len(want)
	if acknowledged == 0 {
		return errors.New("nothing was acknowledged")
	}
	s, err := filestore.OpenReadOnly(g.dir)
	if err != nil {
		return err
	}
	defer s.Close()
	o := proofgraph.Options{Origin: "helm/" + g.host.keyID.String()[:16], Key: g.host.Key,
		LogKey: crypto.DeriveLogKey(g.host.Key), Trust: trust.Canonical()}
	allowed := 0
	_, err = proofgraph.Open(context.Background(), s, o,
		func(l proofgraph.Line) error {
			switch st := l.Statement; {
			case st.Decision != nil:
				allowed++
			case st.Receipt != nil:
				if sum, ok := want[l.Index]; !ok || sum != maphash.Bytes(g.seed, l.Bytes) {
					return fmt.Errorf("receipt %d was not acknowledged, or is another", l.Index)
				}
				if delete(want, l.Index); len(want)%50 == 0 {
					if _, err := receipts.Open(l.Bytes, trust, l.Index); err != nil {
						return err
					}
				}
			}
			return nil
		})
	switch {
	case err != nil:
		return err
	case len(want) != 0:
		return fmt.Errorf("%d receipts that were acknowledged are not there", len(want))
	case g.allow && allowed != acknowledged || !g.allow && allowed != 0:
		return fmt.Errorf("%d decisions for %d calls", allowed, acknowledged)
	}
	return nil
}
