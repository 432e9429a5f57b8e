package helmtest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/proofgraph"
)

// model compares random operations with a model. Their seed is constant, so every run is the same.
func model(t *trial) {
	random := rand.New(rand.NewPCG(20, 26))
	text := func() string {
		size := random.IntN(100)
		if random.IntN(20) == 0 {
			size = random.IntN(20_000)
		}
		b := make([]byte, 1+size)
		for i := range b {
			b[i] = byte(random.IntN(256))
		}
		return string(b)
	}
	pool := []string{""}
	for range 40 {
		pool = append(pool, text())
	}
	batch := func() (b proofgraph.Batch) {
		b = t.batch()
		for range random.IntN(5) {
			b.Entries = append(b.Entries, []byte(text()))
		}
		for range random.IntN(4) {
			b.Blobs = append(b.Blobs, []byte(pool[random.IntN(len(pool))]))
		}
		if random.IntN(4) == 0 {
			b.Checkpoint = []byte(text())
		}
		return b
	}
	over, cancel := context.WithCancel(t.ctx)
	cancel()
	steps := t.some(800)
	for step := range steps {
		t.step = fmt.Sprintf("step %d of %d: ", step, steps)
		n := uint64(len(t.twin.entries))
		switch random.IntN(20) {
		default:
			t.append(batch())
		case 1, 2, 3:
			b := batch()
			if b.At += random.Uint64N(2*n + 8); b.At == n {
				b.At++
			}
			t.conflict(b)
		case 4:
			b := batch()
			if err := t.store.Append(over, b); err == nil {
				t.Fatalf("Append under a context that had ended stores")
			}
			t.twin.refuse(b)
		case 5, 6, 7, 8:
			from := random.Uint64N(n + 1)
			t.sameRange(from, from+random.Uint64N(n-from+1))
		case 9, 10, 11:
			t.sameBlob(pool[random.IntN(len(pool))])
		case 12:
			t.same()
			if _, ok := as[proofgraph.Rememberer](t.store); ok {
				remember(t, []byte(text()))
			}
			if _, ok := as[tlog.HashReader](t.store); ok && random.IntN(4) == 0 {
				sameHashes(t)
			}
		case 13:
			t.reopen()
		case 14:
			if _, ok := as[proofgraph.Eraser](t.store); ok {
				t.erase(pool[random.IntN(len(pool))])
			}
		case 15:
			if _, ok := as[proofgraph.Condenser](t.store); !ok || random.IntN(3) > 0 {
				break
			}
			var indexes []uint64
			for i := range n {
				if random.IntN(4) == 0 {
					indexes = append(indexes, i)
				}
			}
			t.condense(indexes, pool[random.IntN(len(pool))], pool[random.IntN(len(pool))])
		}
	}
	t.step = "at the end: "
	t.same()
	t.reopen()
	t.same()
}
