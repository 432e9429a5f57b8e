//go:build unix

package postgres

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
)

// A load is a batch of 64 entries of 1.2 KB: a decision and a receipt in each of 32 sessions of a
// writer, and an inputs blob of each decision. It settles the decisions of the load before it.
func (m *memory) load(writer, round int) (proofgraph.State, proofgraph.Change) {
	const sessions = 32
	g := proofgraph.State{Kernel: m.ends[""].Next, Sessions: make(map[string]proofgraph.End, sessions)}
	c := proofgraph.Change{Sessions: make(map[string]proofgraph.End, sessions)}
	for i := range sessions {
		name := fmt.Sprintf("session %d of %d", i, writer)
		end := m.ends[name]
		g.Sessions[name] = end
		for range 2 {
			e := contracts.Entry(fmt.Appendf(nil, "%d %s %s", end.Next, name, bytes.Repeat([]byte("x"), 1180)))
			end.Next, end.Last = end.Next+1, e.Hash()
			c.Entries, c.Of = append(c.Entries, e), append(c.Of, name)
		}
		c.Sessions[name] = end
		c.Opened = append(c.Opened, 2*i)
		if round > 0 {
			c.Settled = append(c.Settled, m.at+uint64(2*i))
		}
		c.Blobs = append(c.Blobs, fmt.Appendf(nil, "%d %d %d %s", writer, round, i, bytes.Repeat([]byte("y"), 800)))
	}
	return g, c
}

// ticks returns the processor time of a process, in hundredths of a second, or 0 if it is unknown.
func ticks(pid int32) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var user, system float64
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	fmt.Sscan(fields[11], &user)
	fmt.Sscan(fields[12], &system)
	return user + system
}

func BenchmarkPut(b *testing.B) {
	base := newBase(b, server(b))
	w, m := base.join(base.store()), remember()
	round := 0
	const lsn = "SELECT (pg_current_wal_lsn() - '0/0')::bigint"
	const bytes = `SELECT sum(pg_total_relation_size(oid))::bigint FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'helm'::regnamespace`
	wal := one[int64](base, lsn)
	began := ticks(w.link.pid)
	defer func() { b.ReportMetric((ticks(w.link.pid)-began)*10_000/float64(b.N)/32, "server-µs/call") }()
	for b.Loop() {
		b.StopTimer()
		g, c := m.load(0, round)
		round++
		b.StartTimer()
		at, err := w.Put(context.Background(), g, c)
		if err != nil {
			b.Fatal(err)
		}
		m.at = at
		m.wrote(c)
	}
	b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(one[int64](base, lsn)-wal)/float64(b.N)/32, "wal-B/call")
	b.ReportMetric(float64(one[int64](base, bytes))/float64(b.N)/32, "table-B/call")
}

// BenchmarkPutOne is one entry at a time.
func BenchmarkPutOne(b *testing.B) {
	base := newBase(b, server(b))
	w, m := base.join(base.store()), remember()
	for b.Loop() {
		g, c := m.batch("a", 1)
		if _, err := w.Put(context.Background(), g, c); err != nil {
			b.Fatal(err)
		}
		m.wrote(c)
	}
}

func BenchmarkPutByFour(b *testing.B) {
	base := newBase(b, server(b))
	var all sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(b.N))
	writers := make([]*writer, 4)
	for i := range writers {
		writers[i] = base.join(base.store())
	}
	b.ResetTimer()
	for i, w := range writers {
		all.Go(func() {
			m := remember()
			for round := 0; left.Add(-1) >= 0; round++ {
				g, c := m.load(i, round)
				at, err := w.Put(context.Background(), g, c)
				if err != nil {
					b.Error(err)
					return
				}
				m.at = at
				m.wrote(c)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(64*b.N)/b.Elapsed().Seconds(), "entries/s")
}

func BenchmarkTurn(b *testing.B) {
	base := newBase(b, server(b))
	w, m := base.join(base.store()), remember()
	ask := proofgraph.Ask{Sessions: []string{"a"}, Balances: []contracts.Balance{{Budget: "b"}}}
	for b.Loop() {
		state, err := w.Turn(context.Background(), ask)
		if err != nil {
			b.Fatal(err)
		}
		_, c := m.batch("a", 1)
		c.Spent = state.Spent
		c.Spent[0].Spent++
		if err := w.End(context.Background(), c); err != nil {
			b.Fatal(err)
		}
		m.wrote(c)
	}
}

func BenchmarkTurnEmpty(b *testing.B) {
	base := newBase(b, server(b))
	w := base.join(base.store())
	for b.Loop() {
		if _, err := w.Turn(context.Background(), proofgraph.Ask{Sessions: []string{"a"}}); err != nil {
			b.Fatal(err)
		}
		if err := w.End(context.Background(), proofgraph.Change{}); err != nil {
			b.Fatal(err)
		}
	}
}
