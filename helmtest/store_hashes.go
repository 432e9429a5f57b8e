package helmtest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// hashReader returns the store as a [tlog.HashReader].
func hashReader(t *trial) tlog.HashReader {
	t.Helper()
	r, ok := as[tlog.HashReader](t.store)
	if !ok {
		t.Skipf("it has no method ReadHashes")
	}
	return r
}

// stored returns the hashes of a log's tree, in the order of package tlog.
func stored(leaves []contracts.Digest) (list []tlog.Hash) {
	reader := tlog.HashReaderFunc(func(indexes []int64) (got []tlog.Hash, err error) {
		for _, i := range indexes {
			got = append(got, list[i])
		}
		return got, nil
	})
	for i, leaf := range leaves {
		more, err := tlog.StoredHashesForRecordHash(int64(i), tlog.Hash(leaf), reader)
		if err != nil {
			panic(err) // the reader returns none
		}
		list = append(list, more...)
	}
	return list
}

// areAt reports whether a list is the hashes with these indexes.
func areAt(indexes []int64, list, all []tlog.Hash) bool {
	return slices.EqualFunc(indexes, list, func(i int64, h tlog.Hash) bool { return h == all[i] })
}

// sameHashes compares all hashes, read together in two orders and one by one, and reads beyond.
func sameHashes(t *trial) {
	t.Helper()
	want := stored(t.twin.leaves)
	indexes := make([]int64, len(want))
	for i := range indexes {
		indexes[i] = int64(i)
	}
	ask := func(indexes ...int64) {
		t.Helper()
		list, err := hashReader(t).ReadHashes(indexes)
		if err != nil || !areAt(indexes, list, want) {
			t.Errorf("ReadHashes of %d hashes of %d returns %d (%v), or others", len(indexes), len(want), len(list),
				err)
			return
		}
		clear(list) // they are the caller's
	}
	ask()
	ask(indexes...)
	slices.Reverse(indexes)
	ask(append(indexes, indexes...)...)
	for _, i := range indexes[:min(len(indexes), 40)] {
		ask(i)
	}
	for _, i := range []int64{int64(len(want)), int64(len(want)) + 1, 1 << 40, 1<<63 - 1, -1, -1 << 63} {
		for _, list := range [][]int64{{i}, append(slices.Clone(indexes[:min(len(indexes), 1)]), i)} {
			if got, err := hashReader(t).ReadHashes(list); err == nil {
				t.Errorf("ReadHashes of hash %d of %d returns %d and no error", i, len(want), len(got))
			}
		}
	}
}

// The hashes are those of the entries, however these came, and of an entry when its stub is left.
func readsHashes(t *trial) {
	hashReader(t)
	sameHashes(t)
	for i := range t.some(24) {
		var entries []string
		for j := range 1 + i*7%40 {
			entries = append(entries, fmt.Sprintf("entry %d of %d %s", j, i, strings.Repeat("long", i*j%300)))
		}
		b := t.batch(entries...)
		b.Blobs = texts(fmt.Sprintf("blob %d", i))
		t.append(b)
		if i%3 != 1 {
			sameHashes(t)
		}
		if i%4 == 3 {
			t.reopen()
			sameHashes(t)
		}
	}
	if _, ok := as[proofgraph.Condenser](t.store); ok {
		t.condense([]uint64{0, 1, 3, 40, 41, uint64(len(t.twin.entries)) - 1})
		sameHashes(t)
		t.reopen()
		sameHashes(t)
	}
	t.append(t.batch("the last"))
	sameHashes(t)
	t.same()
	if c, ok := as[io.Closer](t.store); ok {
		if err := c.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
		if list, err := hashReader(t).ReadHashes([]int64{0}); err == nil {
			t.Errorf("closed: ReadHashes returns %d and no error", len(list))
		}
		t.use(t.open())
		sameHashes(t)
	}
}

// One goroutine appends, others ask for hashes of all that is there.
func readsHashesBeside(t *trial) {
	r := hashReader(t)
	rounds := t.some(120)
	var leaves []contracts.Digest
	for i := range rounds {
		for _, e := range numbered(i * perBatch).Entries {
			leaves = append(leaves, e.Hash())
		}
	}
	want := stored(leaves)
	var (
		all     sync.WaitGroup
		written atomic.Int64 // entries that were acknowledged
		over    atomic.Bool
	)
	for range 2 {
		all.Go(func() {
			for last := false; !last; {
				last = over.Load()
				n := tlog.StoredHashCount(written.Load())
				var indexes []int64
				for i := n % 7; i < n; i += 7 {
					indexes = append(indexes, i)
				}
				list, err := r.ReadHashes(indexes)
				if err != nil || !areAt(indexes, list, want) {
					t.Errorf("while others append, ReadHashes of %d hashes of %d returns %d (%v), or others",
						len(indexes), n, len(list), err)
					return
				}
			}
		})
	}
	func() {
		defer over.Store(true)
		for i := range rounds {
			t.append(numbered(i * perBatch))
			written.Store(int64(len(t.twin.entries)))
		}
	}()
	all.Wait()
	sameHashes(t)
	t.reopen()
	sameHashes(t)
}
