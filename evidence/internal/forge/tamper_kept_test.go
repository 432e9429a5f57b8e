package forge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// TestKept: who holds entries of which the log has stubs, or has seen a set whole, finds out what
// the stubs alone do not show.
func TestKept(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	foreign := TakeApart(t, SmallLog(t, 1).Pack(evidence.Write)).Nodes[2]
	line := func(name string) func(*Model) []contracts.Entry {
		return func(m *Model) []contracts.Entry { return []contracts.Entry{m.The(name).Line} }
	}
	hash := func(n *Node) contracts.Digest { return contracts.Digest(bytesOf(n.hash)) }
	for name, x := range map[string]struct {
		cut     func(m *Model)
		kept    func(m *Model) []contracts.Entry
		seen    func(m *Model) []contracts.Digest
		want    error
		entry   string                               // where the fault is
		strange func(m *Model) []contracts.Digest    // if there is none
		is      func(t *testing.T, r evidence.Range) // of c
	}{
		"all of the set": {kept: func(m *Model) (list []contracts.Entry) {
			for _, n := range m.The("c").members {
				list = append(list, n.Line)
			}
			return list
		}},
		"one twice": {kept: func(m *Model) []contracts.Entry {
			return []contracts.Entry{m.The("n1").Line, m.The("n1").Line}
		}},
		"one that is whole":   {kept: line("e1")},
		"one of another kind": {kept: line("c")},
		"one of another log": {kept: func(*Model) []contracts.Entry { return []contracts.Entry{foreign.Line} },
			strange: func(*Model) []contracts.Digest { return []contracts.Digest{hash(foreign)} }},
		"one that was exchanged for nothing": {
			cut:     stubbed("b2", func(_ *Model, s Object) { s["entry"] = ones64 }),
			kept:    line("b2"),
			strange: func(m *Model) []contracts.Digest { return []contracts.Digest{bytesOf(leafOf(m.The("b2").Line))} }},
		"one that a stranger signed": {cut: func(m *Model) { m.The("n1").by = SeedX }, kept: line("n1"),
			strange: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(m.The("n1"))} }},
		"one by a kernel key that did not count yet": {cut: func(m *Model) { m.The("n1").by = seedK2 }, kept: line("n1"),
			strange: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(m.The("n1"))} }},
		"one whose signature does not verify": {
			cut:     func(m *Model) { m.The("n1").message = func([]byte) []byte { return []byte("another") } },
			kept:    line("n1"),
			strange: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(m.The("n1"))} }},
		"an honest one": {kept: line("n1"), is: func(t *testing.T, r evidence.Range) { assert.False(t, r.Seen) }},

		"a call of high risk": {cut: both(asIs, lowered), kept: line("n1"), want: errGap, entry: "n1"},
		"a call of another session": {cut: signs("n1", `"session":"main"`, `"session":"other"`, `"id":"main/`,
			`"id":"other/`), kept: line("n1"), want: errGap, entry: "n1"},
		"a call of another time": {cut: both(asIs, func(m *Model) {
			at := m.The("n1").Text("time")
			aged(m, "n1", 3_600_000)
			setS("n1", "time", at)(m)
		}), kept: line("n1"), want: errGap, entry: "n1"},
		"a call that was charged": {cut: both(asIs, func(m *Model) {
			m.The("n1").D()["charges"] = []any{Object{"amount": 1, "before": 0, "budget": "P0:years:never", "limit": 2,
				"window": "total"}}
		}, withoutS("n1", "charges")), kept: line("n1"), want: errGap, entry: "n1"},
		"a call with a key": {cut: both(asIs, setD("n1", "idempotency", "more"), withoutS("n1", "idempotency")),
			kept: line("n1"), want: errGap, entry: "n1"},
		"a call under another policy": {cut: both(asIs, func(m *Model) {
			m.The("n1").D()["policyHash"] = m.The("p2").Text("policy")
		}, setS("n1", "policy", 1)), kept: line("n1"), want: errGap, entry: "n1"},
		"a call with an approval": {cut: both(asIs, approvedN1), kept: line("n1"), want: errGap, entry: "n1"},
		"a call with a signal": {cut: both(asIs, setD("n1", "signals", []any{"hidden-tag"})), kept: line("n1"),
			want: errGap, entry: "n1"},
		"a receipt with a signal": {cut: both(asIs, setP("m2", "signals", []any{"hidden-tag"})), kept: line("m2"),
			want: errGap, entry: "m2"},
		"a receipt of what was withheld": {cut: both(asIs, func(m *Model) {
			p := m.The("b2").P()
			p["outcome"], p["reason"], p["verdict"] = "WITHHELD", "ERR_CONNECTOR_CONTRACT_DRIFT", "DENY"
		}, setS("b2", "outcome", "EXECUTED")), kept: line("b2"), want: errGap, entry: "b2"},
		"a receipt of what panicked": {cut: both(asIs, func(m *Model) {
			p := m.The("f2").P()
			p["reason"], p["verdict"] = "TOOL_PANIC", "DENY"
		}), kept: line("f2"), want: errGap, entry: "f2"},
		"a receipt of what failed": {cut: both(asIs, func(m *Model) {
			m.The("f2").stubbed = func(s Object) { s["outcome"] = "EXECUTED" }
		}), kept: line("f2"), want: errGap, entry: "f2"},
		"a receipt of another call": {cut: func(m *Model) {
			signs("m1", m.The("n1").hash, m.The("n2").hash)(m)
		}, kept: line("m1"), want: errGap, entry: "m1"},
		"a denial": {cut: both(asIs, func(m *Model) {
			d := m.copy(m.The("none"))
			m.The("n1").sealed = func([]byte) []byte { return m.seal(canonical(d.st), SeedK1, nil) }
		}), kept: line("n1"), want: errGap, entry: "n1"},

		"not JSON": {kept: func(*Model) []contracts.Entry { return []contracts.Entry{contracts.Entry("no")} },
			want: errInput},
		"nothing": {kept: func(*Model) []contracts.Entry { return []contracts.Entry{nil} }, want: errInput},
		"no envelope": {kept: func(*Model) []contracts.Entry { return []contracts.Entry{contracts.Entry("{}")} },
			want: errInput},
		"a stub": {kept: func(m *Model) []contracts.Entry { return []contracts.Entry{m.The("n1").stub} },
			want: errInput},
		"no record": {kept: func(m *Model) []contracts.Entry {
			o := m.copy(m.The("o"))
			delete(o.P(), "session")
			return []contracts.Entry{m.seal(canonical(o.st), seedK2, nil)}
		}, want: errInput},
		"a manifest": {kept: func(m *Model) []contracts.Entry {
			return []contracts.Entry{Untar(m, m.Build())[ManifestAt].Body}
		}, want: errInput},

		"seen": {seen: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(m.The("c"))} },
			is: func(t *testing.T, r evidence.Range) { assert.True(t, r.Seen) }},
		"seen, of another log": {seen: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(foreign)} },
			strange: func(*Model) []contracts.Digest { return []contracts.Digest{hash(foreign)} },
			is:      func(t *testing.T, r evidence.Range) { assert.False(t, r.Seen) }},
		"seen, another entry of this log": {
			seen: func(m *Model) []contracts.Digest { return []contracts.Digest{hash(m.The("b2"))} },
			is:   func(t *testing.T, r evidence.Range) { assert.False(t, r.Seen) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := w.apart(t)
			o := w.o
			if x.cut != nil {
				x.cut(m)
			}
			pack := m.Build()
			fresh(m, &o)
			r, err := verifyBytes(t, pack, o)
			require.True(t, err == nil && r.Success(0) && len(r.Strange) == 0 && len(r.Condensed) == 1,
				"given nothing: %+v, %v", r, err)
			if x.kept != nil {
				o.Kept = x.kept(m)
			}
			if x.seen != nil {
				o.Seen = x.seen(m)
			}
			r, err = verifyBytes(t, pack, o)
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
				if f := r.Fault; f != nil && x.entry != "" {
					assert.Equal(t, int64(indexIn(x.entry)), f.Entry, "%v", f)
				}
				return
			}
			require.True(t, err == nil && r.Success(0), "%+v, %v", r, err)
			var strange []contracts.Digest
			if x.strange != nil {
				strange = x.strange(m)
			}
			assert.Equal(t, strange, r.Strange)
			if x.is != nil {
				x.is(t, r.Condensed[0])
			}
		})
	}
}

// signs has the kernel have signed another text than the stub is of.
func signs(name string, changes ...string) func(*Model) {
	return func(m *Model) {
		m.The(name).Payload = func(b []byte) []byte {
			return []byte(strings.NewReplacer(changes...).Replace(string(b)))
		}
	}
}

// TestCondensedClock: a condense entry's time is held to that of the witness who makes the quorum.
func TestCondensedClock(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	made := w.apart(t)
	ms := clock(made, made.The("c").Text("time")).UnixMilli()
	require.NotZero(t, ms%1000, "the time of c is a whole second")
	c := uint64(ms / 1000)
	late, edge, soon := c-301, c-300, c-299 // edge is more than 300 s before it by some milliseconds
	for i, x := range []struct {
		first, second uint64 // of W1 and W2 in the member; 0: none
		later         uint64 // of W1 in Options.Cosigned
		quorum        int
		want          error
		level         evidence.Level
	}{
		{soon, soon, 0, 2, nil, evidence.Witnessed},
		{edge, soon, 0, 2, errCosign, 0},
		{soon, edge, 0, 2, errCosign, 0},
		{late, late, 0, 2, errCosign, 0},
		{late, soon, 0, 1, nil, evidence.Witnessed},
		{late, late, 0, 1, errCosign, 0},
		{late, soon, soon, 2, nil, evidence.Witnessed},
		{late, late, soon, 2, errCosign, 0},
		{late, 0, soon, 1, nil, evidence.Witnessed},
		{late, 0, 0, 2, nil, evidence.Logged}, // WITNESSED is not reached
		{late, late, 0, 0, nil, evidence.Logged},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m := w.apart(t)
			cosigned(func(m *Model, text string) (lines string) {
				if x.first > 0 {
					lines += cosignature(m, text, SeedW1, x.first)
				}
				if x.second > 0 {
					lines += cosignature(m, text, seedW2, x.second)
				}
				return lines
			})(m)
			pack, o := m.Build(), w.o
			if o.Quorum = x.quorum; x.quorum == 0 {
				o.Witnesses = nil
			}
			if x.later > 0 {
				text := textOf(m, len(m.Nodes))
				o.Cosigned = []byte(text + "\n" + cosignature(m, text, SeedW1, x.later))
			}
			r, err := verifyBytes(t, pack, o)
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
				if f := r.Fault; f != nil {
					assert.Equal(t, int64(indexIn("c")), f.Entry, "%v", f)
				}
				return
			}
			assert.True(t, err == nil && r.Level == x.level, "%s, %v", r.Level, err)
		})
	}
}
