package filestore

import (
	"context"
	"fmt"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

func TestSmoke(t *testing.T) {
	dir := t.TempDir() + "/log"
	ctx := context.Background()
	n := uint64(0)
	for range 5 {
		s, err := open(osDisk{}, dir, Options{}, sizes{8192, 4096})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); err == nil {
			t.Fatal("twice")
		} else {
			t.Log(err)
		}
		if got, _ := s.Size(ctx); got != n {
			t.Fatal(got, n)
		}
		for range 40 {
			b := proofgraph.Batch{At: n, Entries: []contracts.Entry{fmt.Appendf(nil, "entry %d", n), fmt.Appendf(nil, "entry %d", n+1)}, Blobs: [][]byte{fmt.Appendf(nil, "blob %d %01000d", n, 1)}}
			if n%3 == 0 {
				b.Checkpoint = fmt.Appendf(nil, "note %d", n)
			}
			if err := s.Append(ctx, b); err != nil {
				t.Fatal(err)
			}
			n += 2
		}
		check := func(s *Store) {
			i := 0
			for e, err := range s.Entries(ctx, 0, n) {
				if err != nil || string(e) != fmt.Sprintf("entry %d", i) {
					t.Fatal(i, string(e), err)
				}
				i++
			}
			for i := uint64(0); i < n; i += 2 {
				if b, err := s.Blob(ctx, crypto.Sum(fmt.Appendf(nil, "blob %d %01000d", i, 1))); err != nil {
					t.Fatal(i, b, err)
				}
			}
			c, _ := s.Checkpoint(ctx)
			t.Log(i, string(c), len(s.segments))
		}
		check(s)
		r, err := openReadOnly(osDisk{}, dir)
		if err != nil {
			t.Fatal(err)
		}
		check(r)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
