package forge

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// A hidden is a row of SECURITY.md's table of what condensation hides.
type hidden struct {
	told
	do     func(m *Model)
	pack   func(m *Model, pack []byte) []byte     // falsifies bytes
	o      func(m *Model, o *evidence.Options)    // changes what the auditor has
	kept   string                                 // the entry that a caller kept; found begins with what it shows
	shows  func(t *testing.T, r *evidence.Report) // the report of the stubs shows it
	unkept bool                                   // the checkpoint that the auditor kept is of the honest log
}

// told is what the page says, in its order: who can or cannot do what, what the verifier says of
// the entries and of their stubs, and what finds it.
type told struct{ who, can, deed, whole, stubs, found string }

const (
	bothKeys = "the kernel key and the log key"
	can      = "can"
	cannot   = "cannot"

	keptFinds = "`Options.Kept`: INVALID: GAP"
	noEntry   = "no entry has that hash"
)

var hiddenRows = []hidden{
	{told: told{bothKeys, can, "show a call of high risk as one of low risk",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do: both(asIs, lowered, func(m *Model) {
			for _, k := range []string{"argsHash", "effectType", "tool"} {
				m.The("m1").P()[k] = m.The("n1").D()[k]
			}
		}),
		kept: "n1"},
	{told: told{bothKeys, can, "show a call with an approval as one without",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do:   both(asIs, approvedN1),
		kept: "n1"},
	{told: told{bothKeys, can, "show a call with a threat signal as one without",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do:   both(asIs, setD("n1", "signals", []any{"hidden-tag"})),
		kept: "n1"},
	{told: told{bothKeys, can, "show a call of `main` with an idempotency key as one without",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do:   both(asIs, setD("n1", "idempotency", "more"), withoutS("n1", "idempotency")),
		kept: "n1"},
	{told: told{bothKeys, can, "show a call that was withheld as one that ran",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do: both(asIs, func(m *Model) {
			p := m.The("b2").P()
			p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
		}, setS("b2", "outcome", "EXECUTED")),
		kept: "b2"},
	{told: told{bothKeys, can, "show an earlier time of a call, not before its neighbour's, and let go of it so much sooner",
		"INVALID: CHAIN", "WITNESSED, FRESH", keptFinds},
		do: both(asIs, until("n2", int64(day)), func(m *Model) {
			at := m.The("n1").Text("time")
			aged(m, "n1", 3_600_000)
			setS("n1", "time", at)(m)
		}),
		kept: "n1"},
	{told: told{bothKeys, can, "put a hash there that never was an entry's",
		noEntry, "WITNESSED, FRESH", "`Options.Kept` of the entry that it replaces: `Report.Strange`"},
		do:   stubbed("b2", func(_ *Model, s Object) { s["entry"] = ones64 }),
		kept: "b2"},
	{told: told{bothKeys, can, "hide a verdict that no policy returns",
		"INVALID: REPLAY", "WITNESSED, FRESH", "no check once the inputs are gone: `Options.Kept` of the entry passes"},
		do:   setD("n1", "rule", "P1:files:writers"),
		kept: "n1"},
	{told: told{bothKeys, can, "leave out a charge, if nothing is charged to that balance later",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do: both(asIs, func(m *Model) {
			m.The("n1").D()["charges"], m.The("m1").P()["settled"] = never(1)
		}, withoutS("n1", "charges"), withoutS("m1", "settled")),
		kept: "n1"},
	{told: told{bothKeys, can, "lessen a charge, if nothing is charged to that balance later",
		"INVALID: GAP", "WITNESSED, FRESH", keptFinds},
		do: both(asIs, func(m *Model) {
			m.The("n1").D()["charges"], m.The("m1").P()["settled"] = never(2)
		}, stubbed("n1", func(_ *Model, s Object) { s["charges"], _ = never(1) }),
			stubbed("m1", func(_ *Model, s Object) { _, s["settled"] = never(1) })),
		kept: "n1"},
	{told: told{bothKeys, can, "use an approval twice, and let go of the first call as one without",
		"INVALID: REFERENCE", "WITNESSED, FRESH", keptFinds + "; so the approver's side keeps it"},
		do:   both(asIs, func(m *Model) { m.The("n1").D()["approvals"] = m.The("e1").D()["approvals"] }),
		kept: "n1"},
	{told: told{bothKeys, can, "use an idempotency key of `main` twice, and let go of one of the calls as one without",
		"INVALID: REFERENCE", "WITNESSED, FRESH", keptFinds},
		do:   both(asIs, setD("n1", "idempotency", "once"), withoutS("n1", "idempotency")),
		kept: "n1"},
	{told: told{bothKeys, can, "choose the range and the times, so that one pair goes and its neighbours stay",
		"WITNESSED, FRESH", "WITNESSED, FRESH", "`Report.Condensed` shows the range"},
		do: func(m *Model) {
			whole("b1", "b2", "f1", "f2")(m)
			ranged(Object{"from": indexIn("n1")})(m)
		},
		shows: func(t *testing.T, r *evidence.Report) {
			x := r.Condensed[0]
			assert.True(t, x.From == uint64(indexIn("n1")) && x.Dropped == 4 && x.Stubs == 4, "%+v", x)
		}},
	{told: told{bothKeys, can, "let go before `after`, by a clock set ahead",
		"LOGGED, FRESH", "LOGGED, FRESH", "witnesses, whose times are their own: INVALID: COSIGN"},
		do: func(m *Model) { m.cosignedAt -= 3600 },
		o:  func(_ *Model, o *evidence.Options) { o.Witnesses, o.Quorum = nil, 0 }},
	{told: told{bothKeys, can, "let go before `after`, by a clock that was slow when the calls were made",
		"WITNESSED, FRESH", "WITNESSED, FRESH", "no check; times of cosignatures that are later show it"},
		do: func(m *Model) { m.cosignedAt += 30 * 86400 }},
	{told: told{bothKeys, cannot, "keep back what of a range may go",
		"INVALID: GAP", "INVALID: GAP", "GAP"},
		do: both(whole("n2", "m2"), chosen(func(m *Model, set []*Node) []*Node {
			return slices.DeleteFunc(set, func(n *Node) bool { return n == m.The("n2") || n == m.The("m2") })
		}))},
	{told: told{bothKeys, cannot, "let go of what the call's own policy keeps, by another policy later",
		"INVALID: GAP", "INVALID: GAP", "GAP"},
		do: both(asIs, func(m *Model) {
			m.redocument("p", "years", func(d Object) { delete(d, "condense") })
			m.redocument("p2", "years", func(d Object) { sub(d, "condense")["after"] = "25h" })
		})},
	{told: told{bothKeys, cannot, "let go before `after`, by the times in the log",
		"INVALID: GAP", "INVALID: GAP", "GAP"},
		do: func(m *Model) {
			asIs(m)
			m.The("c").P()["until"] = timeAfter(m, "n2", int64(day)-1)
		}},
	{told: told{bothKeys, cannot, "let go of a session that is open",
		"INVALID: GAP", "INVALID: GAP", "GAP"},
		do: func(m *Model) {
			asIs(m)
			m.remove(m.The("x"))
		}},
	{told: told{bothKeys, cannot, "let go of what no condense entry covers",
		"WITNESSED, FRESH", "INVALID: GAP", "GAP"},
		do: func(m *Model) { m.letGo(m.The("e1"), m.The("e2")) }},
	{told: told{bothKeys, cannot, "name what went in a later entry",
		"INVALID: GRAPH", "INVALID: GRAPH", "GRAPH"},
		do: func(m *Model) { m.The("o").parents = []*Node{m.The("b2")} }},
	{told: told{bothKeys, cannot, "leave out a charge, if anything is charged to that balance later",
		"INVALID: GAP", "INVALID: BUDGET", "BUDGET"},
		do: withoutS("b1", "charges")},
	{told: told{bothKeys, cannot, "lessen a charge, if anything is charged to that balance later",
		"INVALID: GAP", "INVALID: BUDGET", "BUDGET"},
		do: both(stubbed("b1", func(_ *Model, s Object) { listOf(s, "charges")[0]["amount"] = 0 }),
			stubbed("b2", func(_ *Model, s Object) { listOf(s, "settled")[0]["amount"] = 0 }))},
	{told: told{bothKeys, cannot, "show a time of a call outside those of its neighbours in its session",
		"INVALID: GAP", "INVALID: CHAIN", "CHAIN"},
		do: stubbed("f1", func(m *Model, s Object) { s["time"] = timeAfter(m, "d1", -1) })},
	{told: told{bothKeys, cannot, "change how many entries there are",
		"INVALID: CHAIN", "INVALID: CHAIN", "CHAIN"},
		do: lines(func(_ *Model, l [][]byte) [][]byte { return slices.Delete(l, indexIn("n2"), indexIn("n2")+1) })},
	{told: told{bothKeys, cannot, "change their order",
		"INVALID: CHAIN", "INVALID: CHAIN", "CHAIN"},
		do: lines(func(_ *Model, l [][]byte) [][]byte {
			l[indexIn("n1")], l[indexIn("n2")] = l[indexIn("n2")], l[indexIn("n1")]
			return l
		})},
	{told: told{bothKeys, cannot, "put a call into another session, or change the length of one that its close has",
		"INVALID: GAP", "INVALID: CHAIN", "CHAIN"},
		do: setS("b2", "session", "main")},
	{told: told{bothKeys, cannot, "exchange a hash below a checkpoint that was kept",
		noEntry, "WITNESSED, DIVERGED", "the kept checkpoint"},
		do:     stubbed("b2", func(_ *Model, s Object) { s["entry"] = ones64 }),
		unkept: true},
	{told: told{bothKeys, cannot, "show other stubs than they condensed, once a checkpoint above the condense entry was kept",
		"INVALID: GAP", "WITNESSED, DIVERGED", "the kept checkpoint"},
		do:     setS("n1", "tool", "fs.stat"),
		o:      func(_ *Model, o *evidence.Options) { o.Last = nil },
		unkept: true},
	{told: told{"the kernel key alone", cannot, "pass such a log off as LOGGED or WITNESSED",
		"INTACT, FRESH", "INTACT, FRESH", "the log key"},
		do: func(m *Model) { m.logBy = SeedX }},
	{told: told{"the log key alone", cannot, "write a condense entry",
		"INVALID: KEY", "INVALID: KEY", "KEY"},
		do: func(m *Model) { m.The("c").by = SeedL }},
	{told: told{"the store or a pack", cannot, "change a stub",
		"WITNESSED, FRESH", "INVALID: GAP", "GAP"},
		pack: replaced("b1", otherEntry)},
	{told: told{"the store or a pack", cannot, "put a stub in the place of an entry of no set",
		"WITNESSED, FRESH", "INVALID: GAP", "GAP"},
		pack: func(m *Model, pack []byte) []byte {
			stub := m.stubOf(m.The("e2"))
			return replaced("e2", func(string) string { return string(stub) + "\n" })(m, pack)
		}},
}

// never is a charge to a balance that no other call is charged to, and what settles it.
func never(amount int) (charges, settled any) {
	const budget = "P0:years:never"
	return []any{Object{"amount": amount, "before": 0, "budget": budget, "limit": 2, "window": "total"}},
		[]any{Object{"amount": amount, "budget": budget}}
}

// TestPowersOverStubs has the holders of keys do what SECURITY.md says that condensation hides, and
// try what it says that they cannot: shown with the entries, with their stubs, and to those who
// have kept something. The page has the same rows, word for word, so that neither can be changed
// alone.
func TestPowersOverStubs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	honest := w.apart(t)
	seen := contracts.Digest(bytesOf(honest.The("c").hash))
	var want []string
	for _, x := range hiddenRows {
		t.Run(strings.Join([]string{x.who, x.can, x.deed}, "/"), func(t *testing.T) { w.hides(t, x, seen) })
		want = append(want, "| "+strings.Join([]string{x.who, x.can, x.deed, x.whole, x.stubs, x.found}, " | ")+" |")
	}
	text, err := os.ReadFile("../../../SECURITY.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## What condensation hides from whom\n")
	section, _, _ = strings.Cut(section, "\n## ")
	require.True(t, ok, "SECURITY.md has no such section")
	var rows []string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	require.NotEmpty(t, rows)
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(rows[1:], "\n"), "the rows of SECURITY.md")
}

// hides does what a row says. seen is the condense entry of the honest log.
func (w *tampered) hides(t *testing.T, x hidden, seen contracts.Digest) {
	m := w.apart(t)
	if x.do != nil {
		x.do(m)
	}
	pack := m.Build()
	if x.pack != nil {
		pack = x.pack(m, pack)
	}
	require.NotEqual(t, w.pack, pack, "nothing was done")
	o := w.o
	if !x.unkept {
		fresh(m, &o)
	}
	if x.o != nil {
		x.o(m, &o)
	}
	if x.unkept && o.Last == nil { // of the honest log, its condense entry included
		made := w.apart(t)
		o.Last = LastOf(made, indexIn("c")+1, rootOf(made, indexIn("c")+1), Origin)
	}
	says := func(pack []byte, o evidence.Options) (string, *evidence.Report) {
		r, err := verifyBytes(t, pack, o)
		if err != nil {
			mustRefuse(t, r, err, r.Fault.Check)
			return "INVALID: " + r.Fault.Check.Error(), &r
		}
		return r.Level.String() + ", " + r.History.String(), &r
	}
	stubs, r := says(pack, o)
	assert.Equal(t, x.stubs, stubs, "with stubs: %v", r.Fault)
	if x.shows != nil {
		x.shows(t, r)
	}
	if strings.Contains(x.found, "INVALID: COSIGN") {
		with := o
		with.Witnesses, with.Quorum = w.o.Witnesses, w.o.Quorum
		got, _ := says(pack, with)
		assert.Equal(t, "INVALID: COSIGN", got, "with witnesses")
	}
	if x.whole != noEntry {
		got, r := says(w.unhidden(t, x, m), o)
		assert.Equal(t, x.whole, got, "with the entries: %v", r.Fault)
	}
	assert.False(t, x.can == cannot && x.found != "the log key" && !strings.HasPrefix(x.stubs, "INVALID") &&
		!strings.HasSuffix(x.stubs, "DIVERGED"), "%s is no refusal", x.stubs)
	if x.kept != "" {
		with := o
		with.Kept = []contracts.Entry{m.The(x.kept).Line}
		if x.whole == noEntry {
			with.Kept[0] = w.apart(t).The(x.kept).Line
		}
		got, r := says(pack, with)
		switch {
		case len(r.Strange) > 0:
			got = "`Options.Kept` of the entry that it replaces: `Report.Strange`"
		case r.Fault == nil:
			got = "no check"
		default:
			got = "`Options.Kept`: " + got
		}
		assert.True(t, strings.HasPrefix(x.found, got), "found by: %s, %v", got, r.Fault)
	}
	if x.can != can || x.shows != nil || m.The("c").hash == seen.String() {
		return
	}
	// An auditor who came between Condense and Drop saw another set, or refused this one.
	with := o
	with.Seen = []contracts.Digest{seen}
	_, r = says(pack, with)
	assert.True(t, !r.Condensed[0].Seen && slices.Equal(r.Strange, with.Seen), "it is seen: %+v", r.Condensed)
	assert.Contains(t, r.String(), "the kernel's word")
}

// unhidden is what a row made, with the entries in the place of the stubs: the condense entry says
// what it says.
func (w *tampered) unhidden(t *testing.T, x hidden, made *Model) []byte {
	m := w.apart(t)
	if x.do != nil {
		x.do(m)
	}
	for _, n := range m.Nodes {
		if n.gone {
			m.whole(n)
		}
	}
	c := func(m *Model) *Node {
		return m.Nodes[slices.IndexFunc(m.Nodes, func(n *Node) bool { return n.Kind() == "condense" })]
	}
	c(m).linked = func(st Object) {
		for _, k := range []string{"dropped", "stubs"} {
			st["predicate"].(Object)[k] = c(made).P()[k]
		}
	}
	return m.Build()
}
