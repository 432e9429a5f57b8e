package forge

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/receipts"
)

// factsPolicy has a tool with facts of each kind, one that declares that it has none, and one that
// declares nothing.
const factsPolicy = `{"bundle":{"name":"shop","version":1},"helm":"policy/v1","layer":"P1",
"rules":[{"allow":["order","ping","note"],"id":"all"}],
"tools":{
 "order":{"effect":"read","input":{"type":"object"},
  "facts":{"card":"/cards/*/id","class":"/class","bags":{"count":"/cards"},"note":{"at":"/note","text":true}},
  "output":{"properties":{"cards":{"items":{"properties":{"id":{"type":"string"},"n":{"type":"number"}},
   "required":["id"],"type":"object"},"type":"array"},"class":{"type":"string"},"note":{"type":["string","null"]}},
   "required":["cards","class"],"type":"object"}},
 "ping":{"effect":"read","facts":{},"input":{"type":"object"},"output":{"type":"object"}},
 "note":{"effect":"read","input":{"type":"object"},"output":{"type":"object"}}}}`

// factsLog has calls of these tools that ended in each way that matters.
func factsLog(t testing.TB) *Maker {
	m := NewMaker(t)
	m.Use(factsPolicy)
	call := func(tool string) *Called { return m.Allowed(Ask{Session: "s", Tool: tool, Args: `{}`}) }
	call("order").Ran(`{"cards":[{"id":"b"},{"id":"a","n":1}],"class":"business"}`)
	call("ping").Ran(`{"a":1}`)
	call("note").Ran(`{"a":2}`)
	call("order").Failed(contracts.ReasonToolError)
	call("order").End(receipts.Result{Reason: contracts.ReasonContractDrift, Output: []byte(`{"txt":"c"}`),
		Form: "jcs"}, true)
	call("order").End(receipts.Result{Reason: contracts.ReasonToolError, Output: []byte(`{"no":"w"}`), Form: "jcs"},
		true)
	call("order").Failed(contracts.ReasonToolTimeout)
	m.Checkpoint()
	return m
}

// TestFacts: facts are those of the output as the tool declares them. That is REPLAY, what a
// document shows by itself BLOB, and what the receipt shows RECORD.
func TestFacts(t *testing.T) {
	t.Parallel()
	made := factsLog(t)
	pack := made.Pack(evidence.Write)
	o := evidence.Options{Trust: made.Trust, Origin: Origin}
	r, err := verifyBytes(t, pack, o)
	require.True(t, err == nil && r.Success(0) && r.Erased == nil && r.Replay.Replayed == 7, "%+v, %v", r, err)
	const facts = `{"/cards/*/id":["b","a"],"/class":["business"],"/note":[],"count:/cards":[2]}`
	const order, ping, note, failed, drift, said, late = 3, 5, 7, 9, 11, 13, 15 // receipts
	p := func(m *Model, at int) Object { return m.Nodes[at].P() }
	drop := func(at int, hash string) func(m *Model) {
		return func(m *Model) { delete(m.Blobs, p(m, at)[hash].(string)) }
	}
	document := func(at int, text string) func(m *Model) {
		return func(m *Model) {
			if was, ok := p(m, at)["factsHash"]; ok {
				delete(m.Blobs, was.(string))
			}
			p(m, at)["factsHash"] = m.blob([]byte(text))
		}
	}
	// with has facts of order: cards, class, note and count.
	with := func(values ...string) func(m *Model) {
		text := `{"/cards/*/id":` + values[0] + `,"/class":` + values[1] + `,"/note":` + values[2]
		return document(order, text+`,"count:/cards":`+values[3]+`}`)
	}
	none := func(at int) func(m *Model) {
		return func(m *Model) {
			drop(at, "factsHash")(m)
			delete(p(m, at), "factsHash")
		}
	}
	long := strings.Repeat("x", 256)
	erased := func(m *Model) {
		drop(order, "outputHash")(m)
		delete(m.Blobs, m.Nodes[order-1].D()["inputsHash"].(string))
	}
	for name, x := range map[string]struct {
		row  string // of the catalogue
		cut  func(m *Model)
		want error
		gone int
	}{
		"those of the output, written again": {cut: both(document(order, facts), drop(note, "outputHash")), gone: 1},
		"not kept":                           {cut: drop(order, "factsHash"), gone: 1},
		"without the output":                 {cut: drop(order, "outputHash"), gone: 1},
		"without anything":                   {cut: both(erased, drop(order, "factsHash")), gone: 3},

		"another value": {row: "R08", cut: with(`["b","c"]`, `["business"]`, `[]`, `[2]`), want: errReplay},
		"another order": {row: "R08", cut: with(`["a","b"]`, `["business"]`, `[]`, `[2]`), want: errReplay},
		"one more":      {cut: with(`["b","a","a"]`, `["business"]`, `[]`, `[2]`), want: errReplay},
		"one less":      {cut: with(`["b"]`, `["business"]`, `[]`, `[2]`), want: errReplay},
		"another count": {cut: with(`["b","a"]`, `["business"]`, `[]`, `[3]`), want: errReplay},
		"null":          {cut: with(`null`, `["business"]`, `[]`, `[2]`), want: errReplay},
		"a value of another, not kept": {cut: both(with(`["b"]`, `["business"]`, `[]`, `[2]`),
			func(m *Model) { drop(order, "factsHash")(m) }), want: errReplay},
		"a value, without the output": {cut: both(erased,
			with(`["b","z"]`, `["business"]`, `[]`, `[2]`)), gone: 2},
		"a fact less, without the output": {cut: both(erased,
			document(order, `{"/cards/*/id":["b"],"/class":["business"],"/note":[]}`)),
			want: errReplay},
		"a fact more, without the output": {cut: both(erased,
			with(`["b"]`, `["business"],"/more":[]`, `[]`, `[2]`)), want: errReplay},
		"another fact, without the output": {cut: both(erased,
			document(order, `{"/cards/*/id":["b"],"/klass":["business"],"/note":[],"count:/cards":[2]}`)),
			want: errReplay},
		"a type, without the output": {cut: both(erased, with(`[1]`, `["business"]`, `[]`, `[2]`)),
			want: errReplay},
		"a required one, without the output": {cut: both(erased, with(`[]`, `[]`, `[]`, `[2]`)),
			want: errReplay},
		"a long plain value, without the output": {cut: both(erased, with(`["`+long+`0"]`, `["b"]`, `[]`, `[2]`)),
			want: errReplay},
		"a long text, without the output": {cut: both(erased, with(`["`+long+`"]`, `["b"]`, `["`+long+`0"]`, `[2]`)),
			gone: 2},
		"none":                       {cut: none(order), want: errReplay},
		"none, all erased":           {cut: both(erased, none(order)), want: errReplay},
		"none where {} is due":       {cut: none(ping), want: errReplay},
		"one where {} is due":        {cut: document(ping, `{"/a":[1]}`), want: errReplay},
		"{} where none is due":       {cut: document(note, `{}`), want: errReplay},
		"of a failure":               {row: "R15", cut: document(failed, facts), want: errRecord},
		"of a withheld output":       {row: "R15", cut: document(drift, facts), want: errRecord},
		"of what a failed tool said": {cut: document(said, facts), want: errRecord},
		"of an unknown outcome":      {cut: document(late, facts), want: errRecord},
		"signals of a tool that nothing scans, all erased": {cut: both(erased, drop(order, "factsHash"),
			func(m *Model) { p(m, order)["signals"] = []any{"hidden-tag"} }), want: errReplay},
		"not canonical": {cut: document(order, facts+" "), want: errBlob},
		"no pointer":    {cut: document(order, `{"class":["business"]}`), want: errBlob},
		"another under its name": {cut: func(m *Model) {
			m.Blobs[p(m, order)["factsHash"].(string)] = []byte(facts + "\n")
		}, want: errBlob},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if x.row != "" {
				ranRow(t, x.row)
			}
			m := TakeApart(t, pack)
			x.cut(m)
			r, err := verifyBytes(t, m.Build(), o)
			if x.want != nil {
				mustRefuse(t, r, err, x.want)
				return
			}
			assert.True(t, err == nil && r.Success(0) && len(r.Erased) == x.gone, "%+v, %v", r, err)
		})
	}
}
