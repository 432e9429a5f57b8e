package graph

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A hand writes a log entry by entry.
type hand struct {
	list []contracts.Entry
	next map[string]contracts.Header
}

func (w *hand) put(session string, st contracts.Statement, parents ...uint64) uint64 {
	i := uint64(len(w.list))
	h, ok := w.next[session]
	if !ok {
		h = contracts.Header{Session: session, Prev: w.list[0].Hash()}
	}
	for _, p := range parents {
		h.Parents = append(h.Parents, w.list[p].Hash())
	}
	slices.SortFunc(h.Parents, func(a, b contracts.Digest) int { return slices.Compare(a[:], b[:]) })
	st.Header = h
	if st.Close != nil {
		st.Close.Count, st.Close.Last = h.Seq, h.Prev
	}
	w.list = append(w.list, sealed(&st))
	w.next[session] = contracts.Header{Session: session, Seq: h.Seq + 1, Prev: w.list[i].Hash()}
	return i
}

func (w *hand) call(session string, after ...uint64) uint64 {
	return w.put(session,
		contracts.Statement{Decision: &contracts.DecisionRecord{Condition: 8, EffectType: "read", Expires: 1,
			Reason: "ALLOW",
			Risk:   "low", Rule: "P1:a:b", Tool: "t", Verdict: true}}, after...)
}

func (w *hand) deny(session string, after ...uint64) uint64 {
	d := &contracts.DecisionRecord{Condition: 1, Reason: "DENY_TOOL_NOT_FOUND", Tool: "t"}
	return w.put(session, contracts.Statement{Receipt: &contracts.Receipt{Outcome: contracts.Denied, Decision: d}}, after...)
}

func (w *hand) end(session string, of uint64) uint64 {
	r := &contracts.Receipt{DecisionHash: w.list[of].Hash(), EffectType: "read",
		Outcome: contracts.Failed, Reason: "TOOL_ERROR", Tool: "t", Verdict: true}
	e := r.Effect()
	r.EffectHash = e.Hash()
	if w.next[session].Prev == r.DecisionHash {
		return w.put(session, contracts.Statement{Receipt: r})
	}
	return w.put(session, contracts.Statement{Receipt: r}, of)
}

// What counts as a cause, and what does not: the package comment, case by case.
func TestCauses(t *testing.T) {
	t.Parallel()
	w := &hand{entries(t, newWorld(t, 3).store)[:1], map[string]contracts.Header{}}
	want := map[uint64][]uint64{}
	a := w.call("a")
	want[a] = nil
	inside := w.call("a") // by prev alone
	want[inside] = []uint64{a}
	refused := w.deny("a") // inside that
	want[refused] = []uint64{inside}
	second := w.deny("a", a) // inside the first again, after the end of a call
	want[second] = []uint64{a}
	elsewhere := w.call("b", a) // inside the first, in a session of its own
	want[elsewhere] = []uint64{a}
	said := w.put("b", contracts.Statement{Message: new(contracts.Message)}) // which no call made
	want[said] = nil
	endElsewhere := w.end("b", elsewhere)
	want[endElsewhere] = []uint64{elsewhere}
	meanwhile := w.call("a")
	want[meanwhile] = nil
	endInside := w.end("a", inside) // its prev is another's decision
	want[endInside] = []uint64{inside}
	endA := w.end("a", a)
	want[endA] = []uint64{a}
	endMeanwhile := w.end("a", meanwhile)
	want[endMeanwhile] = []uint64{meanwhile}
	after := w.call("c", endA, endElsewhere)
	want[after] = []uint64{endElsewhere, endA}
	endAfter := w.end("c", after) // its prev is its own decision
	want[endAfter] = []uint64{after}
	next := w.call("c", a)
	want[next] = []uint64{a}
	w.end("c", next)
	closed := w.put("c", contracts.Statement{Close: new(contracts.Close)})
	want[closed] = nil

	g, err := Read(t.Context(), having(uint64(len(w.list)), w.list...))
	require.NoError(t, err)
	for i, to := range want {
		var got []uint64
		for _, e := range g.edges(nil, i) {
			if e.cause {
				got = append(got, uint64(e.to))
			}
		}
		assert.True(t, slices.Equal(got, to), "entry %d has the causes %d, want %d", i, got, to)
	}
	led := []uint64{a, elsewhere, endElsewhere, endA, after, endAfter}
	got := slices.Collect(g.Ancestors(endAfter, Causes).All())
	assert.True(t, slices.Equal(got, led), "%d led to what came last, want %d", got, led)
	x, y := w.deny("x", endAfter), w.deny("y", endAfter)
	z := w.deny("z", x, y) // from which two paths are as short
	g, err = Read(t.Context(), having(uint64(len(w.list)), w.list...))
	require.NoError(t, err)
	if got, want := slices.Collect(g.Path(z, endAfter, Causes).All()), []uint64{endAfter, y, z}; !slices.Equal(got, want) {
		t.Errorf("the path is %d, want %d", got, want)
	}
}
