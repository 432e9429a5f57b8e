package evidence

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/condense"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// floor lets go of calls that are a day old and not of high risk.
const floor = `{"condense":{"after":"24h","kept":"high"},"helm":"policy/v1","layer":"P0","name":"floor","version":1}`

const day = contracts.Time(86_400_000)

// A letGoer writes condense entries into the log of a maker, and knows their sets.
type letGoer struct {
	testing.TB
	m         *forge.Maker
	reader    contracts.Reader
	lines     []contracts.Entry
	tree      proofgraph.Tree
	roots     []contracts.Digest // by size
	latest    []contracts.Time   // of the entries below an index
	closed    map[string]uint64  // sizes from which on sessions are
	policies  map[contracts.Digest]uint64
	decisions map[contracts.Digest]uint64
	terms     map[uint64]*condense.Terms
	stubs     map[uint64][]byte // of all sets
	latest0   bool              // lie: the entries below a range have no times
}

func newLetGoer(t testing.TB, m *forge.Maker) *letGoer {
	return &letGoer{TB: t, m: m, roots: []contracts.Digest{{}}, latest: []contracts.Time{0},
		closed: map[string]uint64{}, policies: map[contracts.Digest]uint64{}, decisions: map[contracts.Digest]uint64{},
		terms: map[uint64]*condense.Terms{},
		stubs: map[uint64][]byte{}}
}

// read takes in what was written meanwhile.
func (x *letGoer) read() uint64 {
	x.Helper()
	size, err := x.m.Store.Size(x.m.Context())
	require.NoError(x, err)
	for e, err := range x.m.Store.Entries(x.m.Context(), uint64(len(x.lines)), size) {
		require.NoError(x, err)
		st, err := entry.Open(&x.reader, e)
		require.NoError(x, err)
		index := uint64(len(x.lines))
		switch {
		case st.Close != nil:
			x.closed[st.Session] = index + 1
		case st.Decision != nil:
			x.decisions[e.Hash()] = index
		case st.Policy != nil:
			var docs []condense.Document
			for _, d := range st.Policy.Documents {
				b, err := x.m.Store.Blob(x.m.Context(), d.Digest)
				require.NoError(x, err)
				docs = append(docs, condense.Document{Layer: d.Layer, Canonical: b})
			}
			x.policies[st.Policy.Policy], x.terms[index] = index, condense.ReadTerms(docs)
		}
		x.lines = append(x.lines, e)
		x.tree.Append(e.Hash())
		x.roots = append(x.roots, x.tree.Root())
		x.latest = append(x.latest, max(x.latest[index], st.Time))
	}
	return size
}

// letGo writes a condense entry over a range, with the log's size and the present time, and returns
// its hash.
func (x *letGoer) letGo(from, to uint64) contracts.Digest {
	x.Helper()
	size := x.read()
	c := x.m.Proofs.Chain(contracts.SessionKernel)
	x.m.Now++
	now := max(x.m.Now, c.Time())
	how := condense.Log{
		Gone: func(index uint64) bool { return x.stubs[index] != nil },
		Closed: func(session string, size uint64) bool {
			at := x.closed[session]
			return at > 0 && at <= size
		},
		Policy: func(hash contracts.Digest) (uint64, bool) { at, ok := x.policies[hash]; return at, ok },
		Terms:  func(policy uint64) (*condense.Terms, error) { return x.terms[policy], nil },
		Latest: x.latest[from],
	}
	if x.latest0 {
		how.Latest = 0
	}
	r := condense.NewRange(from, to, size, now, how)
	for _, e := range x.lines[from:to] {
		require.NoError(x, r.Add(e))
	}
	set := r.Set()
	require.NotZero(x, set.Dropped)
	for i := range set.Members() {
		st, err := entry.Open(&x.reader, x.lines[i])
		require.NoError(x, err)
		var names uint64
		if st.Decision != nil {
			names = x.policies[st.Decision.PolicyHash]
		} else {
			names = x.decisions[st.Receipt.DecisionHash]
		}
		x.stubs[i] = contracts.NewStub(st, x.lines[i].Hash(), names).Append(nil)
	}
	st := &contracts.Statement{Condense: &contracts.Condense{Dropped: set.Dropped, From: from,
		Root: x.roots[to], Size: size, Stubs: set.Stubs, To: to, Until: now}}
	s, err := x.m.Proofs.Place(proofgraph.Draft{Chain: c, Time: now,
		Write: func(proofgraph.Place) (*contracts.Statement, error) { return st, nil }})
	require.NoError(x, err)
	require.NoError(x, s.Wait())
	return s.Hash()
}

// store returns the log under its checkpoint, with stubs in the place of those entries of the sets
// that go, and without the blobs that only these name.
func (x *letGoer) store(goes func(index uint64) bool) *forge.Shelf {
	x.Helper()
	x.read()
	note, err := x.m.Store.Checkpoint(x.m.Context())
	require.NoError(x, err)
	s := &forge.Shelf{Note: note, Blobs: map[contracts.Digest][]byte{}}
	for i, e := range x.lines {
		if stub := x.stubs[uint64(i)]; stub != nil && goes(uint64(i)) {
			s.Lines = append(s.Lines, stub)
			continue
		}
		s.Lines = append(s.Lines, e)
		st, err := entry.Open(&x.reader, e)
		require.NoError(x, err)
		entry.Blobs(st, func(d contracts.Digest, _ entry.Role) {
			if b, err := x.m.Store.Blob(x.m.Context(), d); err == nil {
				s.Blobs[d] = b
			}
		})
	}
	return s
}

func everything(uint64) bool { return true }
func nothing(uint64) bool    { return false }

// packOf writes the pack of a store.
func packOf(t testing.TB, s proofgraph.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(t.Context(), &b, s, forge.Key(t, forge.SeedK1)))
	return b.Bytes()
}

// filesLog is a log of calls that may go, in so many sessions that are closed, two days before now.
func filesLog(t testing.TB, sessions int) *forge.Maker {
	t.Helper()
	m := forge.NewMaker(t)
	m.Use(floor, forge.FilesPolicy(1))
	for i := range sessions {
		s := fmt.Sprintf("s%d", i)
		ask := func(tool, args string) forge.Ask {
			return forge.Ask{Session: s, Tool: tool, Args: args, Who: forge.Reader}
		}
		a, b := m.Allowed(ask("fs.list", `{}`)), m.Allowed(ask("fs.read", `{"path":"/srv/a"}`))
		b.Ran(`{"text":"t"}`)
		a.Ran(`["` + s + `"]`)
		m.Denied(contracts.ReasonDestinationNotAllowed, ask("fs.read", `{"path":"/etc"}`))
		m.Allowed(ask("fs.list", `{"depth":1}`)).Failed(contracts.ReasonToolError)
		m.Close(s)
	}
	m.Now += 2 * day
	return m
}

// stubOf returns a line as a stub.
func stubOf(t testing.TB, line contracts.Entry) *contracts.Stub {
	t.Helper()
	s, err := new(contracts.Reader).Stub(line)
	require.NoError(t, err)
	return s
}
