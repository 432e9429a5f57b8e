package helmtest

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
)

func readsSession(t *sharedTrial) {
	check := func() {
		t.Helper()
		for name, indexes := range t.log.indexes {
			n := uint64(len(indexes))
			for from := range n + 2 {
				t.sameSession(name, from)
			}
			for _, from := range []uint64{1 << 31, 1 << 32, 1 << 63, 1<<63 + n, math.MaxUint64} {
				t.sameSession(name, from)
			}
		}
		for _, name := range []string{"", "a", "A", "aa", "a:", "a/b", "b-", "b.b", "b", "never-begun"} {
			t.sameSession(name, 0)
			t.sameSession(name, 1)
		}
	}
	check()
	for i := range 4 {
		guess, c := t.draft(fmt.Sprintf("a: %d", i), fmt.Sprintf("B.b: %d", i), fmt.Sprintf(": %d", i), "a: too")
		t.put(t.watch, guess, c)
		_, c = t.draft(fmt.Sprintf("B.b: in a turn %d", i), fmt.Sprintf("b-%d: the only one", i))
		t.write(t.watch, c)
		check()
	}
	t.reopen()
	check()

	// An iteration that is left leaves nothing locked, and the store can be used during it.
	i := 0
	for p, err := range t.shared.Session(t.ctx, "a", 0) {
		if err != nil || i >= len(t.log.indexes["a"]) || p.Index != t.log.indexes["a"][i] {
			t.Fatalf("entry %d of a session with puts in its loop is at %d (%v)", i, p.Index, err)
		}
		guess, c := t.draft(fmt.Sprintf("b: while entry %d is read", i))
		t.put(t.watch, guess, c)
		t.holds()
		if i++; i == 5 {
			break
		}
	}
	guess, c := t.draft("a: after it")
	t.put(t.watch, guess, c)
	t.holds()
}

// One writer puts, and others read: each sees the entries that were acknowledged before, and
// perhaps more, without a hole.
func readsSessionBeside(t *sharedTrial) {
	var (
		all     sync.WaitGroup
		written atomic.Uint64 // entries of the session that were acknowledged
		over    atomic.Bool
	)
	other := t.another()
	defer all.Wait()
	for _, s := range []proofgraph.Shared{other, t.shared} {
		all.Go(func() {
			for last := false; !last; {
				last = over.Load()
				before := written.Load()
				from := before - min(before, 20)
				list, err := placed(t.ctx, s, "s", from)
				right := err == nil && uint64(len(list)) >= before-from
				for i, p := range list {
					right = right && string(p.Entry) == fmt.Sprintf("s: %d", from+uint64(i)) && p.Index%3 < 2 &&
						(i == 0 || p.Index > list[i-1].Index)
				}
				if !right {
					t.Errorf("while others append, Session from %d returns the entries %d (%v) after %d were "+
						"acknowledged", from, indexesOf(list), err, before)
					return
				}
			}
		})
	}
	func() {
		defer over.Store(true)
		for i := range t.some(200) {
			guess, c := t.draft(fmt.Sprintf("s: %d", 2*i), fmt.Sprintf("s: %d", 2*i+1), fmt.Sprintf("other: %d", i))
			t.put(t.watch, guess, c)
			written.Store(uint64(2*i) + 2)
		}
	}()
	all.Wait()
	t.holds()
}

// checkpointOf returns a signed checkpoint of that size.
func (t *sharedTrial) checkpointOf(size uint64, root string) []byte {
	t.Helper()
	key, err := crypto.NewKeyFromSeed(make([]byte, 32))
	if err != nil {
		panic(err) // the seed has 32 bytes
	}
	c, err := proofgraph.SignCheckpoint(key, proofgraph.Checkpoint{Origin: sharedOrigin, Size: size,
		Root: contracts.Digest(crypto.Sum([]byte(root)))})
	if err != nil {
		panic(err) // the key is in memory
	}
	return c.Note
}

// Of one size the later checkpoint stays. Bytes that are no checkpoint are as one of size 0.
func largerStays(t *sharedTrial) {
	w := t.join(t.another())
	for i, checkpoint := range [][]byte{
		[]byte("no checkpoint"), []byte("nor this"), {}, t.checkpointOf(0, "none"), []byte("nor that"),
		t.checkpointOf(9, "a"), t.checkpointOf(8, "b"), t.checkpointOf(10, "c"), t.checkpointOf(9, "d"),
		append(t.checkpointOf(10, "c"), "— w.example AAAAAAAA\n"...), t.checkpointOf(10, "c"),
		[]byte("no checkpoint"), t.checkpointOf(0, "none"), t.checkpointOf(10, "e"), nil, t.checkpointOf(2, "f"),
		t.checkpointOf(1<<33, "g"), t.checkpointOf(10, "h"), {},
	} {
		guess, c := t.draft()
		if i%2 == 0 {
			guess, c = t.draft(fmt.Sprintf("a: %d", i))
		}
		c.Checkpoint = checkpoint
		if i%3 == 0 {
			t.write(w, c)
		} else {
			t.put(t.watch, guess, c)
		}
		t.holds()
	}
	t.reopen()
	t.holds()
}
