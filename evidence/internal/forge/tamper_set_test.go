package forge

import (
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/internal/race"
)

// unjudged has another engine have judged under the policy p, so that its documents need be none.
func unjudged(m *Model) {
	newest(m.The("p").P())
	m.repolicy("p", func(documents []any) []any { return documents })
}

// terms has the floor say something else of what may go.
func terms(value any) func(*Model) {
	return both(unjudged, func(m *Model) {
		m.redocument("p", "years", func(d Object) { d["condense"] = value })
	})
}

// tool has a document say something else of a tool.
func tool(document, name string, value any) func(*Model) {
	return both(unjudged, func(m *Model) {
		m.redocument("p", document, func(d Object) { sub(d, "tools")[name] = value })
	})
}

// floored adds a floor that says something else of what may go.
func floored(condense string) func(*Model) {
	return both(unjudged, func(m *Model) {
		m.another("p", `{"condense":`+condense+`,"helm":"policy/v1","layer":"P0","name":"zz","version":1}`)
	})
}

// until sets the time of c until which entries go.
func until(name string, by int64) func(*Model) {
	return func(m *Model) { m.The("c").P()["until"] = timeAfter(m, name, by) }
}

// inSet are under what the set of c is as it was.
var inSet = map[string]func(*Model){
	"a day after the latest decision":          until("n2", int64(day)),
	"a size below which the session is closed": ranged(Object{"size": indexIn("k") + 1}),
	"a size that is its own index":             ranged(Object{"size": indexIn("c")}),
	"a range from the first entry on":          ranged(Object{"from": 0}),
	"a range from the first of the set on":     ranged(Object{"from": indexIn("b1")}),
	"a range with more at its end":             ranged(Object{"to": indexIn("j") + 1}),
	"a condense entry that names one of its set": func(m *Model) {
		m.The("c").parents = []*Node{m.The("b2"), m.The("m1")}
	},
	"another engine": unjudged,
	"a second floor": floored(`{"after":"24h","kept":"medium"}`),
	"a second floor that waits as long as it can": floored(`{"after":"2d","kept":"high"}`),
	"1,440 minutes":  terms(Object{"after": "1440m", "kept": "high"}),
	"86,400 seconds": terms(Object{"after": "86400s", "kept": "medium"}),
	"a risk that is left out": tool("files", "fs.list",
		Object{"effect": "read", "input": Object{"type": "object"}}),
	"a risk of medium": tool("files", "fs.list",
		Object{"effect": "read", "input": Object{"type": "object"}, "risk": "medium"}),
	"a tool that is declared twice": tool("mail", "fs.list",
		Object{"effect": "read", "input": Object{"type": "object"}, "risk": "medium"}),
}

// notInSet are under what not all of it may go.
var notInSet = map[string]func(*Model){
	"a day after the latest decision, but for a millisecond": until("n2", int64(day)-1),
	"a range that begins between two halves":                 ranged(Object{"from": indexIn("f1")}),
	"a range that ends with the last of main":                ranged(Object{"to": indexIn("k")}),
	"a second floor that keeps all":                          floored(`{"after":"24h","kept":"low"}`),
	"a second floor that waits longer":                       floored(`{"after":"49h","kept":"high"}`),
	"a second floor whose terms are malformed":               floored(`{"after":"24h"}`),
	"terms that are null":                                    terms(nil),
	"terms that are text":                                    terms("high"),
	"terms of nothing":                                       terms(Object{}),
	"terms with a key more":                                  terms(Object{"after": "24h", "kept": "high", "to": 1}),
	"terms without after":                                    terms(Object{"kept": "high"}),
	"terms of low":                                           terms(Object{"after": "24h", "kept": "low"}),
	"terms of no risk":                                       terms(Object{"after": "24h", "kept": "most"}),
	"23 hours":                                               terms(Object{"after": "23h", "kept": "high"}),
	"86,399 seconds":                                         terms(Object{"after": "86399s", "kept": "high"}),
	"two units":                                              terms(Object{"after": "24h0m", "kept": "high"}),
	"a duration that begins with zero":                       terms(Object{"after": "048h", "kept": "high"}),
	"a fraction":                                             terms(Object{"after": "1.5d", "kept": "high"}),
	"a week":                                                 terms(Object{"after": "1w", "kept": "high"}),
	"a number":                                               terms(Object{"after": 86400, "kept": "high"}),
	"a duration without a number":                            terms(Object{"after": "d", "kept": "high"}),
	"a duration after a space":                               terms(Object{"after": " 24h", "kept": "high"}),
	"a century":                                              terms(Object{"after": "36500d", "kept": "high"}),
	"a duration beyond all time":                             terms(Object{"after": strings.Repeat("9", 30) + "d", "kept": "high"}),
	"a tool of no risk that there is": tool("files", "fs.list",
		Object{"effect": "read", "input": Object{"type": "object"}, "risk": "none"}),
	"a tool of a risk that is a number": tool("files", "fs.list",
		Object{"effect": "read", "input": Object{"type": "object"}, "risk": 0}),
	"a tool that is destructive": tool("files", "fs.list",
		Object{"effect": "destructive", "input": Object{"type": "object"}}),
	"a tool of no effect that there is": tool("files", "fs.list",
		Object{"effect": "none", "input": Object{"type": "object"}}),
	"a tool that is declared twice, once of high risk": tool("mail", "fs.list",
		Object{"effect": "write", "input": Object{"type": "object"}, "risk": "high"}),
	"a bundle without tools": both(unjudged, func(m *Model) {
		m.redocument("p", "mail", func(d Object) { delete(d, "tools") })
	}),
	"a bundle whose tools are a list": both(unjudged, func(m *Model) {
		m.redocument("p", "mail", func(d Object) { d["tools"] = []any{} })
	}),
	"a floor that is a bundle's": func(m *Model) {
		unjudged(m)
		m.redocument("p", "years", func(d Object) { delete(d, "condense") })
		m.redocument("p", "files", func(d Object) { d["condense"] = Object{"after": "24h", "kept": "high"} })
	},
}

// setRows are what is in a set, and what is not.
var setRows = func() (rows []tampering) {
	for _, name := range slices.Sorted(maps.Keys(inSet)) {
		rows = append(rows, tampering{id: "own", name: name, cut: both(asIs, inSet[name]), o: fresh, then: witnessed,
			passes: true})
	}
	for _, name := range slices.Sorted(maps.Keys(notInSet)) {
		rows = append(rows, tampering{id: "own", name: name, cut: both(asIs, notInSet[name]), want: errGap})
	}
	return rows
}()

// TestCondenseFields: what of a condense entry is compared first, and where a fault is.
func TestCondenseFields(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	wrong := func(fields ...string) func(*Model) {
		return left("c", func(p Object) {
			for _, k := range fields {
				p[k] = map[string]any{"size": indexIn("c") + 1, "root": ones64, "dropped": 7, "stubs": ones64}[k]
			}
		})
	}
	for name, x := range map[string]struct {
		cut   func(*Model)
		entry string
		field string
	}{
		"all":            {wrong("size", "root", "dropped", "stubs"), "c", "predicate.size"},
		"but the size":   {wrong("root", "dropped", "stubs"), "c", "predicate.root"},
		"but the root":   {wrong("dropped", "stubs"), "c", "predicate.dropped"},
		"the stubs":      {wrong("stubs"), "c", "predicate.stubs"},
		"too many":       {both(whole("n2", "m2"), also("a1", "a2")), "c", "predicate.dropped"},
		"of no set":      {func(m *Model) { m.letGo(m.The("e2"), m.The("a2")) }, "a2", "stub"},
		"and c is wrong": {both(wrong("stubs"), func(m *Model) { m.letGo(m.The("a2")) }), "c", "predicate.stubs"},
	} {
		m := w.apart(t)
		x.cut(m)
		m.The("c").linked = rooted(m.The("c").linked)
		r, err := verifyBytes(t, m.Build(), w.o)
		mustRefuse(t, r, err, errGap)
		if f := r.Fault; f != nil {
			assert.True(t, f.Entry == int64(indexIn(x.entry)) && f.Field == x.field, "%s: %v, entry %d, want entry %d, %s",
				name, f, f.Entry, indexIn(x.entry), x.field)
		}
	}
}

// rooted has the subject of a condense entry follow its root.
func rooted(change func(Object)) func(Object) {
	return func(st Object) {
		if change != nil {
			change(st)
		}
		setSubject(st, "condense", st["predicate"].(Object)["root"])
	}
}

// TestStubFields deletes each required field of a stub, and adds one to each object of it, with
// everything else made right.
func TestStubFields(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	optional := map[string]bool{"charges": true, "idempotency": true, "parents": true, "factsHash": true, "settled": true,
		"of": true}
	tried := 0
	for _, name := range []string{"b1", "b2"} {
		s := parseObject(t, w.apart(t).The(name).stub)["stub"].(Object)
		for _, c := range spoiled(t, s, optional) {
			m := w.apart(t)
			m.The(name).spelt = func([]byte) []byte { return canonical(Object{"stub": c.object}) }
			r, err := verifyBytes(t, m.Build(), w.o)
			mustRefuse(t, r, err, errRecord)
			tried++
		}
	}
	assert.GreaterOrEqual(t, tried, 25, "were tried")
}

// freeInStubs are the values of the stubs of CondensedLog that the holder of every key may choose:
// what was in a call that is gone, and that no later entry depends on.
const freeInStubs = `(n1|n2|b1|f1) tool|(b1|f1) charges\.0\.limit|(m1|m2|b2|f2) outcome`

// TestNoStubValueIsFree sets every value in every stub another one, and makes all that depends on
// it right again and signs it. Whatever is not listed is refused.
func TestNoStubValueIsFree(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	isFree := regexp.MustCompile("^(" + freeInStubs + ")$")
	o := w.o
	o.Last = nil
	tried, passed := 0, map[string]bool{}
	for _, name := range condensedSet {
		stub := parseObject(t, w.apart(t).The(name).stub)["stub"].(Object)
		for i, s := range spots("", stub, nil) {
			for _, other := range append(others(s.is), "fs.stat", "FAILED") {
				if s.path == ".entry" || s.set == nil && s.path == "" {
					continue // a leaf that never was an entry: a limit
				}
				m := w.apart(t)
				m.The(name).stubbed = func(o Object) { spots("", o, nil)[i].set(other) }
				pack := rebuilt(m)
				if pack == nil || bytes.Equal(pack, w.pack) {
					continue
				}
				tried++
				_, err := verifyBytes(t, pack, o)
				at := name + " " + strings.TrimPrefix(s.path, ".")
				if err == nil {
					passed[at] = true
					assert.True(t, isFree.MatchString(at), "%s: %v instead of %v passes", at, other, s.is)
				}
			}
		}
	}
	assert.Greater(t, tried, 300)
	assert.Len(t, passed, 10)
	t.Logf("%d tried", tried)
}
