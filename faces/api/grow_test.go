package api

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// A growing log has messages and denials in many sessions. Nothing of it is signed: readers of a
// log do not verify it, and a long one takes a moment.
type growing struct {
	t        *testing.T
	store    *proofgraph.Memory
	envelope map[string]any
	header   contracts.Header
	denial   *contracts.Receipt
	seq      map[string]uint64
	every    int // so many entries have one denial; the others are messages
	n        int
}

func grow(t *testing.T, w *kerneltest.World) *growing {
	t.Helper()
	_, r := w.Call("closed", `{}`)
	g := &growing{t: t, store: proofgraph.NewMemory(), every: 10, denial: &r.Record, seq: map[string]uint64{}}
	require.NoError(t, json.Unmarshal(r.Entry, &g.envelope))
	for i, st := range w.Statements() {
		if i == r.Index {
			g.header = st.Header
		}
	}
	require.NoError(t, g.store.Append(t.Context(), proofgraph.Batch{Entries: []contracts.Entry{w.Entry(0)}}))
	return g
}

// add adds entries.
func (g *growing) add(entries int) {
	var list []contracts.Entry
	for range entries {
		st := &contracts.Statement{Header: g.header, Message: &contracts.Message{}}
		st.Session = fmt.Sprintf("anonymous/%d", g.n%97)
		st.Seq = g.seq[st.Session]
		g.seq[st.Session]++
		if g.n++; g.n%g.every == 0 {
			d, r := *g.denial.Decision, *g.denial
			d.Seal(st.Session, st.Seq, d.InputsHash)
			r.Decision = &d
			st.Message, st.Receipt = nil, &r
		}
		g.envelope["payload"] = st.Append(nil)
		e, err := json.Marshal(g.envelope)
		assert.NoError(g.t, err)
		list = append(list, e)
	}
	at, err := g.store.Size(g.t.Context())
	assert.NoError(g.t, err)
	assert.NoError(g.t, g.store.Append(g.t.Context(), proofgraph.Batch{At: at, Entries: list}))
}

// TestPagesOfAGrowingLog: pages of a log of 10^5 entries, which grows by a tenth while it is read,
// have no gap and no repeat.
func TestPagesOfAGrowingLog(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t)
	g := grow(t, w)
	entries, more := 100_000, 10_000
	if race.Enabled {
		entries = 10_000
	}
	g.add(entries)
	f := faceOf(t, w)
	f.over(g.store)
	f.unchecked = true // of so many answers each is as the others are
	var grown atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range more / 100 {
			g.add(100)
			runtime.Gosched()
		}
		grown.Store(true)
	}()
	for _, target := range []string{"/helm/proofgraph", "/helm/receipts"} {
		var last uint64
		begun, n := false, uint64(0)
		for {
			final := grown.Load()
			query := "?limit=1000"
			if begun {
				query += fmt.Sprintf("&after=%d", last)
			}
			var p page[struct{ Index uint64 }]
			require.NoError(t, json.Unmarshal([]byte(f.get("", target+query).body), &p))
			for _, x := range p.Items {
				switch {
				case target == "/helm/proofgraph":
					require.Equal(t, n, x.Index)
				case begun:
					require.EqualValues(t, last+10, x.Index)
				}
				last, begun = x.Index, true
				n++
			}
			require.GreaterOrEqual(t, p.Size, n)
			if p.Next == nil && final {
				require.Equal(t, p.Size, n)
				break
			}
		}
		if target == "/helm/receipts" {
			assert.EqualValues(t, (entries+more)/10, n)
		} else {
			assert.EqualValues(t, entries+more+1, n) // and the genesis
		}
	}
	<-done
	sessions, size := pages[session](f, "", "/api/v1/proofgraph/sessions", 50, false)
	assert.EqualValues(t, 98, size)
	var sum uint64
	for _, s := range sessions {
		sum += s.Entries
	}
	assert.EqualValues(t, entries+more+1, sum)
}

// TestLongEntries: a part ends when it is long, and nothing is lost by it.
func TestLongEntries(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := kerneltest.New(t)
	var roles []string
	for i := range contracts.MaxRoles {
		roles = append(roles, strings.Repeat("r", contracts.MaxRole-3)+fmt.Sprint(i+100))
	}
	_, r := w.Call("closed", `{}`, func(in *helm.Intent) {
		in.Caller = helm.Caller{ID: strings.Repeat("i", 256), Tenant: strings.Repeat("t", 256), Roles: roles}
	})
	g := grow(t, w)
	g.denial, g.every = &r.Record, 1
	g.add(900)
	f := faceOf(t, w)
	f.over(g.store)
	f.unchecked = true
	for _, target := range []string{"/helm/receipts?since=2020-01-01T00:00:00Z", "/helm/proofgraph?entry=1"} {
		for _, down := range []string{"asc", "desc"} {
			a := f.get("", target+"&limit=1000&order="+down)
			var p page[item]
			require.NoError(t, json.Unmarshal([]byte(a.body), &p))
			require.NotNil(t, p.Next, target)
			assert.Equal(t, p.Items[len(p.Items)-1].Index, *p.Next)
			assert.Less(t, len(a.body), 4*mostBytes)
		}
		items, size := pages[item](f, "", target, 1000, true)
		assert.EqualValues(t, size, len(items))
		for i, x := range items {
			if x.Kind == contracts.KindReceipt {
				assert.EqualValues(t, 900-i, x.Index)
			}
		}
	}
}

// TestIndexIsSmall: the index takes 8 bytes an entry.
func TestIndexIsSmall(t *testing.T) {
	race.Alone(t)
	w := kerneltest.New(t)
	g := grow(t, w)
	g.add(20_000)
	x := newIndex(g.store)
	v, err := x.catchUp(t.Context())
	require.NoError(t, err)
	assert.Len(t, v.entries, 20_001)
	assert.Less(t, cap(v.entries), 2*len(v.entries))
	assert.LessOrEqual(t, len(v.slots)+len(v.sessions), 3*98)
	assert.Empty(t, x.open)
}
