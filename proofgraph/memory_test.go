package proofgraph

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func entriesOf(t testing.TB, s Store, from, to uint64) (list []string, err error) {
	t.Helper()
	for e, err := range s.Entries(context.Background(), from, to) {
		if err != nil {
			return list, err
		}
		list = append(list, string(e))
	}
	return list, nil
}

func mustAppend(t testing.TB, s Store, b Batch) {
	t.Helper()
	if err := s.Append(context.Background(), b); err != nil {
		t.Fatal(err)
	}
}

func TestMemoryKeepsWhatItIsGiven(t *testing.T) {
	ctx := context.Background()
	for name, m := range map[string]*Memory{"NewMemory": NewMemory(), "the zero value": new(Memory)} {
		if n, err := m.Size(ctx); n != 0 || err != nil {
			t.Error(name, n, err)
		}
		if c, err := m.Checkpoint(ctx); c != nil || err != nil {
			t.Error(name, c, err)
		}
		large := bytes.Repeat([]byte("large "), 50_000)
		mustAppend(t, m, Batch{Entries: []contracts.Entry{[]byte("a"), []byte("b")}, Blobs: [][]byte{[]byte("x"), {}, large}})
		mustAppend(t, m, Batch{At: 2, Checkpoint: []byte("first")})
		mustAppend(t, m, Batch{At: 2, Entries: []contracts.Entry{[]byte("c"), large}, Blobs: [][]byte{[]byte("x")}, Checkpoint: []byte("second")})
		mustAppend(t, m, Batch{At: 4, Entries: []contracts.Entry{[]byte("d")}})
		if n, err := m.Size(ctx); n != 5 || err != nil {
			t.Error(name, n, err)
		}
		if list, err := entriesOf(t, m, 0, 5); err != nil || !slices.Equal(list, []string{"a", "b", "c", string(large), "d"}) {
			t.Error(name, len(list), err)
		}
		if list, err := entriesOf(t, m, 1, 3); err != nil || !slices.Equal(list, []string{"b", "c"}) {
			t.Error(name, list, err)
		}
		if list, err := entriesOf(t, m, 5, 5); err != nil || list != nil {
			t.Error(name, list, err)
		}
		for _, blob := range [][]byte{[]byte("x"), {}, large} {
			if b, err := m.Blob(ctx, crypto.Sum(blob)); err != nil || b == nil || !bytes.Equal(b, blob) {
				t.Error(name, len(b), err)
			}
		}
		if c, err := m.Checkpoint(ctx); string(c) != "second" || err != nil {
			t.Error(name, string(c), err)
		}
	}
}

func TestMemoryRefuses(t *testing.T) {
	ctx := context.Background()
	m := NewMemory()
	mustAppend(t, m, Batch{Entries: []contracts.Entry{[]byte("a")}, Checkpoint: []byte("kept")})
	for _, at := range []uint64{0, 2, 1 << 63} {
		err := m.Append(ctx, Batch{At: at, Entries: []contracts.Entry{[]byte("b")}, Blobs: [][]byte{[]byte("blob")}, Checkpoint: []byte("lost")})
		if !errors.Is(err, ErrConflict) {
			t.Errorf("at %d: %v", at, err)
		}
	}
	if _, err := m.Blob(ctx, crypto.Sum([]byte("blob"))); !errors.Is(err, ErrNoBlob) {
		t.Error("a refused batch left a blob:", err)
	}
	if c, _ := m.Checkpoint(ctx); string(c) != "kept" {
		t.Error("a refused batch left a checkpoint")
	}
	for _, r := range [][2]uint64{{0, 2}, {2, 2}, {1, 0}, {1 << 63, 1<<63 + 1}} {
		if list, err := entriesOf(t, m, r[0], r[1]); err == nil || list != nil {
			t.Errorf("entries %d to %d of 1: %v %v", r[0], r[1], list, err)
		}
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, sizeErr := m.Size(over)
	_, blobErr := m.Blob(over, crypto.Digest{})
	_, checkpointErr := m.Checkpoint(over)
	entryErr := error(nil)
	for _, err := range m.Entries(over, 0, 1) {
		entryErr = err
	}
	for i, err := range []error{m.Append(over, Batch{At: 1}), sizeErr, blobErr, checkpointErr, entryErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("method %d does not honour its context: %v", i, err)
		}
	}
}

func TestMemorySharesNoBytes(t *testing.T) {
	ctx := context.Background()
	m := NewMemory()
	text := []byte("text")
	mustAppend(t, m, Batch{Entries: []contracts.Entry{text}, Blobs: [][]byte{text}, Checkpoint: text})
	name := crypto.Sum(text)
	get := func() [][]byte {
		blob, err1 := m.Blob(ctx, name)
		note, err2 := m.Checkpoint(ctx)
		list := [][]byte{blob, note}
		for e, err := range m.Entries(ctx, 0, 1) {
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, e)
		}
		if err1 != nil || err2 != nil || len(list) != 3 {
			t.Fatal(err1, err2)
		}
		return list
	}
	text[0] = 'X' // what was given
	for _, b := range get() {
		if string(b) != "text" {
			t.Error("shares what it was given")
		}
		b[0] = 'Y' // what was got
		if cap(b) > len(b) {
			_ = append(b, "spill"...)
		}
	}
	for _, b := range get() {
		if string(b) != "text" {
			t.Error("shares what it gave")
		}
	}
}

// A reader sees the entries as they are when it begins, whole and in order, while others are added.
func TestMemoryReadersAndAWriter(t *testing.T) {
	ctx := context.Background()
	m := NewMemory()
	const n = 3000
	var all sync.WaitGroup
	all.Go(func() {
		for i := range uint64(n) {
			mustAppend(t, m, Batch{At: i, Entries: []contracts.Entry{fmt.Appendf(nil, "entry %d", i)}, Blobs: [][]byte{fmt.Appendf(nil, "blob %d", i)}})
		}
	})
	for range 4 {
		all.Go(func() {
			for size := uint64(0); size < n; {
				size, _ = m.Size(ctx)
				i := size - min(size, 50)
				for e, err := range m.Entries(ctx, i, size) {
					if err != nil || string(e) != fmt.Sprintf("entry %d", i) {
						t.Errorf("entry %d: %q %v", i, e, err)
						return
					}
					if _, err := m.Blob(ctx, crypto.Sum(fmt.Appendf(nil, "blob %d", i))); err != nil {
						t.Errorf("blob %d is not there with its entry: %v", i, err)
						return
					}
					i++
				}
			}
		})
	}
	all.Wait()
	seen := 0
	for range m.Entries(ctx, 0, n) {
		if seen++; seen == 10 {
			break
		}
	}
	if seen != 10 {
		t.Error("an iteration cannot be left")
	}
}
