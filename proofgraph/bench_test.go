package proofgraph

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// ratio times fn and one raw signature of 256 bytes by turns, one P, and reports the medians'
// ratio.
func ratio(b *testing.B, fn func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	key, msg := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
	var fns, signs []time.Duration
	for b.Loop() {
		t0 := time.Now()
		fn()
		t1 := time.Now()
		ed25519.Sign(key, msg)
		signs = append(signs, time.Since(t1))
		fns = append(fns, t1.Sub(t0))
	}
	slices.Sort(fns)
	slices.Sort(signs)
	b.ReportMetric(float64(fns[len(fns)/2])/float64(signs[len(signs)/2]), "x/sign")
	b.ReportMetric(float64(fns[0])/float64(signs[0]), "min-x/sign")
}

// record is a receipt with a payload of about 1,000 bytes, a typical entry.
func record() *contracts.Receipt {
	out := crypto.Sum([]byte("output"))
	r := &contracts.Receipt{Outcome: contracts.Executed, Verdict: contracts.Allow, Reason: contracts.ReasonAllow,
		Tool:       "code.run",
		EffectType: contracts.Write, OutputForm: "jcs", OutputHash: &out}
	e := r.Effect()
	r.EffectHash = e.Hash()
	return r
}

func BenchmarkEntry(b *testing.B) {
	w := opened(b)
	c := w.log.Chain("main")
	st := &contracts.Statement{Receipt: record()}
	var parents [1]contracts.Digest
	parents[0] = w.log.genesis
	write := says(st)
	one := func() {
		s, err := w.log.Place(Draft{Chain: c, Time: c.Time(), Parents: parents[:], Write: write})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.Run("place+sign+wait", func(b *testing.B) { b.ReportAllocs(); ratio(b, one) })
	b.Run("raw sign of the same PAE", func(b *testing.B) {
		pae := crypto.AppendPAE(nil, contracts.PayloadType, st.Append(nil))
		key := ed25519.NewKeyFromSeed(make([]byte, 32))
		b.ReportMetric(float64(len(pae)), "PAE-bytes")
		ratio(b, func() { ed25519.Sign(key, pae) })
	})
}

func BenchmarkEntries64(b *testing.B) {
	for _, sessions := range []int{1, 64} {
		b.Run(map[int]string{1: "one session", 64: "64 sessions"}[sessions], func(b *testing.B) {
			w := opened(b)
			h := newHosts(w, sessions)
			per := b.N/64 + 1
			b.ReportAllocs()
			b.ResetTimer()
			h.run(64, per, nil)
		})
	}
}

func hashOf(i uint64) contracts.Digest {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], i)
	return sha256.Sum256(b[:])
}

func BenchmarkIndex(b *testing.B) {
	for _, n := range []uint64{1_000, 1_000_000} {
		var x Index
		hashes := make([]contracts.Digest, n)
		slowest, start := time.Duration(0), time.Now()
		for i := range n {
			hashes[i] = hashOf(i)
			t0 := time.Now()
			if err := x.Add(hashes[i], i); err != nil {
				b.Fatal(err)
			}
			slowest = max(slowest, time.Since(t0))
		}
		total := time.Since(start)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(hashes), func(i, j int) { hashes[i], hashes[j] = hashes[j], hashes[i] })
		b.Run(map[uint64]string{1_000: "1000", 1_000_000: "1000000"}[n], func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, _, ok := x.Lookup(hashes[i]); !ok {
					b.Fatal("not found")
				}
				if i++; i == len(hashes) {
					i = 0
				}
			}
			b.ReportMetric(float64(total)/float64(n), "ns/add+hash")
			b.ReportMetric(float64(slowest)/1e3, "slowest-add-µs")
		})
	}
}

func BenchmarkTree(b *testing.B) {
	var t Tree
	h := hashOf(1)
	b.ReportAllocs()
	for b.Loop() {
		t.Append(h)
	}
}

// A log of 10,000 typical entries, opened again.
func BenchmarkOpen(b *testing.B) {
	w := opened(b)
	c := w.log.Chain("main")
	for range 10_000 {
		s := w.place(c)
		if err := sign(s, &contracts.Statement{Decision: allow(Place{s}.Header())}); err != nil {
			b.Fatal(err)
		}
		if err := s.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	b.ReportAllocs()
	last, over := w.log, errors.New("another log is opened over the store")
	for b.Loop() {
		last.Seal(over)
		l, err := Open(context.Background(), w.memory, w.options,
			func(Line) error {
				n++
				return nil
			})
		if err != nil {
			b.Fatal(err)
		}
		last = l
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/entry")
}
