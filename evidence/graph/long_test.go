package graph

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A long is a log in a file, of which no more is in memory than where each entry begins. Its
// signatures are not valid: a graph verifies none.
type long struct {
	file    *os.File
	offsets []int64
}

// newLong makes one of so many entries: calls in turn in so many sessions, that are after so many
// random entries each, one in eight denied.
func newLong(t testing.TB, n, sessions, parents int) *long {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	l := &long{file: f, offsets: make([]int64, 0, n+1)}
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(7, 7))
	chains := make([]contracts.Header, sessions)
	hashes := make([]contracts.Digest, 0, n)
	at := int64(0)
	put := func(h *contracts.Header, st *contracts.Statement) {
		if len(hashes) > 0 && h.Seq == 0 {
			h.Prev = hashes[0]
		}
		h.Time = contracts.Time(1790000000000 + len(hashes))
		st.Header = *h
		if d := st.Judgement(); d != nil {
			d.Seal(h.Session, h.Seq, crypto.Sum(nil))
			if d.Verdict {
				d.Expires = h.Time
			}
		}
		e := contracts.Entry(crypto.AppendEnvelope(nil, contracts.PayloadType, st.Append(nil), h.Key, make([]byte, 64)))
		l.offsets = append(l.offsets, at)
		at += int64(len(e))
		w.Write(e)
		hashes = append(hashes, e.Hash())
		h.Prev, h.Seq, h.Parents = e.Hash(), h.Seq+1, nil
	}
	put(&contracts.Header{},
		&contracts.Statement{Genesis: &contracts.Genesis{Nonce: fmt.Sprintf("%032d", 0), Origin: "long", Version: 1}})
	for i := 0; len(hashes) < n; i++ {
		h := &chains[i%sessions]
		h.Session = fmt.Sprint("chat-", i%sessions)
		if sessions > 1_000 { // the longest name
			h.Session = fmt.Sprintf("%0128d", i%sessions)
		}
		for range parents {
			if p := hashes[r.IntN(len(hashes))]; p != h.Prev && h.Seq > 0 {
				h.Parents = append(h.Parents, p)
			}
		}
		slices.SortFunc(h.Parents, func(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) })
		h.Parents = slices.Compact(h.Parents)
		d := &contracts.DecisionRecord{Caller: contracts.Caller{ID: "ada", Roles: []string{"reader", "writer"}},
			Condition: 8, EffectType: contracts.Write,
			Idempotency: fmt.Sprint("order-", i), Reason: contracts.ReasonAllow, Risk: "high", Rule: "P1:code:all",
			Tool: "edit", Verdict: contracts.Allow}
		if i%8 == 0 {
			d.Condition, d.Reason, d.Verdict = 5, contracts.ReasonPolicyViolation, contracts.Deny
			put(h, &contracts.Statement{Receipt: &contracts.Receipt{Decision: d, Outcome: contracts.Denied}})
			continue
		}
		put(h, &contracts.Statement{Decision: d})
		if len(hashes) == n {
			break
		}
		out := crypto.Sum([]byte("output"))
		x := &contracts.Receipt{DecisionHash: h.Prev, EffectType: contracts.Write, Outcome: contracts.Executed,
			OutputForm: "jcs", OutputHash: &out,
			Reason: contracts.ReasonAllow, Tool: "edit", Verdict: contracts.Allow}
		e := x.Effect()
		x.EffectHash = e.Hash()
		put(h, &contracts.Statement{Receipt: x})
	}
	require.NoError(t, w.Flush())
	l.offsets = append(l.offsets, at)
	return l
}

func (l *long) Size(context.Context) (uint64, error) { return uint64(len(l.offsets) - 1), nil }

func (l *long) Entries(_ context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		r := bufio.NewReaderSize(io.NewSectionReader(l.file, l.offsets[from], l.offsets[to]-l.offsets[from]), 64<<10)
		for i := from; i < to; i++ {
			e := make(contracts.Entry, l.offsets[i+1]-l.offsets[i])
			_, err := io.ReadFull(r, e)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
