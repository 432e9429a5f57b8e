package proofgraph

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
)

// The hashes of a log in memory are those of package tlog, however often they were asked for while
// it grew, and whether stubs stand in it or not.
func TestMemoryHashes(t *testing.T) {
	t.Parallel()
	for _, condensed := range []bool{false, true} {
		var m Memory
		var want reference
		list, err := m.ReadHashes(nil)
		require.True(t, err == nil && len(list) == 0, "%v %v", list, err)
		for n := range uint64(700) {
			e := fmt.Appendf(nil, "entry %d", n)
			mustAppend(t, &m, Batch{At: n, Entries: []contracts.Entry{e}})
			want.add(t, n, e)
			if condensed && n%2 == 0 {
				require.NoError(t, m.Condense(t.Context(), func(yield func(uint64, []byte) bool) { yield(n, stubOf(e)) },
					func(func(contracts.Digest) bool) {}))
			}
			if n%7 > 0 {
				continue
			}
			all := make([]int64, len(want.hashes))
			for i := range all {
				all[i] = int64(i)
			}
			list, err := m.ReadHashes(all)
			require.NoError(t, err)
			require.Equal(t, want.hashes, list)
		}
		for _, x := range []int64{-1, tlog.StoredHashIndex(0, 700)} {
			_, err := m.ReadHashes([]int64{0, x})
			assert.ErrorContains(t, err, "memory store: hash ")
		}
	}
}

// Nobody says what the hash of an entry is whose line is said to be a stub and is none.
func TestMemoryHashesOfNoStub(t *testing.T) {
	t.Parallel()
	var m Memory
	mustAppend(t, &m, Batch{Entries: []contracts.Entry{[]byte("e"), []byte(`{"stub":{}}`)}})
	_, err := m.ReadHashes([]int64{0})
	require.ErrorContains(t, err, "entry 1: ")
}

func TestMemoryHashesWhileItIsWritten(t *testing.T) {
	t.Parallel()
	m := NewMemory()
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for n := uint64(0); n < 2000; {
				n, _ = m.Size(context.Background())
				if n == 0 {
					continue
				}
				list, err := m.ReadHashes([]int64{tlog.StoredHashIndex(0, int64(n-1))})
				if err != nil || contracts.Digest(list[0]) != contracts.Entry(strconv.FormatUint(n-1, 10)).Hash() {
					t.Errorf("the hash of entry %d: %v", n-1, err)
					return
				}
			}
		})
	}
	for n := range uint64(2000) {
		mustAppend(t, m, Batch{At: n, Entries: []contracts.Entry{contracts.Entry(strconv.FormatUint(n, 10))}})
	}
	readers.Wait()
}
