package helmtest

import (
	"errors"
	"reflect"
	"slices"

	"github.com/helmkernel/helm/crypto"
)

// A log reuses its slices as soon as Append returns. The store neither keeps them nor writes to
// them.
func given(t *trial) {
	for _, refused := range []bool{false, true} {
		b := t.batch("entry one", "entry two", "entry three")
		b.Blobs, b.Checkpoint = texts("blob one", "blob two", "a blob"), []byte("note")
		room := []byte("entry two, and what follows it") // the capacity after an entry is not the store's either
		b.Entries[1] = room[:9]
		if refused {
			b.At++
		}
		before := clone(b)
		if refused {
			t.conflict(b)
		} else {
			t.append(b)
		}
		if !reflect.DeepEqual(b, before) || string(room) != "entry two, and what follows it" {
			t.Errorf("Append changes what it is given")
		}
		for _, list := range [][][]byte{{b.Entries[0], room, b.Entries[2]}, b.Blobs, {b.Checkpoint}} {
			for _, b := range list {
				fill(b, 'X')
			}
		}
		clear(b.Entries)
		clear(b.Blobs)
		t.same()
	}
	t.reopen()
	t.same()
}

// The caller may write to bytes that the store returned, and append to them. They stay as they are
// while more is read.
func got(t *trial) {
	for range 2 {
		b := t.batch("entry one", "entry two, longer", "entry 3")
		b.Blobs, b.Checkpoint = texts("blob one", "blob two"), []byte("note")
		t.append(b)
	}
	for range 2 {
		t.same()
		all := t.all()
		for i, b := range all {
			fill(b, byte(i))
		}
		for _, b := range all {
			fill(b[len(b):cap(b)], 0xff) // where append writes
		}
		for i, b := range all {
			if slices.ContainsFunc(b, func(c byte) bool { return c != byte(i) }) {
				t.Errorf("bytes that it gave share memory with others that it gave")
				break
			}
		}
		t.same()
		i := 0
		for e, err := range t.store.Entries(t.ctx, 0, 6) {
			if err != nil || string(e) != t.twin.entries[i] {
				t.Fatalf("entry %d is %s (%v), after those before it were written to", i, brief(e), err)
			}
			fill(e[:cap(e)], 0xff)
			i++
		}
		t.same()
		t.reopen()
	}
	t.same()
}

// all returns everything that the store returns.
func (t *trial) all() [][]byte {
	t.Helper()
	list, failed := read(t.ctx, t.store, 0, uint64(len(t.twin.entries)))
	var all [][]byte
	for _, e := range list {
		all = append(all, e)
	}
	for _, blob := range t.twin.blobs {
		b, err := t.store.Blob(t.ctx, crypto.Sum([]byte(blob)))
		all, failed = append(all, b), errors.Join(failed, err)
	}
	b, err := t.store.Checkpoint(t.ctx)
	if failed = errors.Join(failed, err); failed != nil {
		t.Fatalf("reading what is there: %v", failed)
	}
	return append(all, b)
}

func fill(b []byte, with byte) {
	for i := range b {
		b[i] = with
	}
}
