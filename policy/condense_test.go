package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/condense"
)

const readable = bundleHead + "tools:\n  t: {effect: read, input: {type: object}}\nrules:\n  - {id: a, allow: t}\n"

// terms reads the terms of compiled documents as those do who let go.
func terms(p *guardian.Policy) *condense.Terms {
	var list []condense.Document
	record, documents := p.Record(), p.Documents()
	for i, d := range record.Documents {
		list = append(list, condense.Document{Layer: d.Layer, Canonical: documents[i].Canonical})
	}
	return condense.ReadTerms(list)
}

// TestCondenseAgrees: what the loader takes has terms, and what it refuses lets nothing go.
func TestCondenseAgrees(t *testing.T) {
	t.Parallel()
	const at, last = contracts.Time(1767225600000), contracts.Time(253402300799999)
	valid := valid(t)
	taken := 0
	for _, kept := range []string{`"high"`, `"medium"`, `"low"`, `"High"`, `""`, `null`, `1`, `["high"]`, ``} {
		for _, after := range []string{`"24h"`, `"1d"`, `"1440m"`, `"86400s"`, `"36525d"`, `"86399s"`, `"23h"`, `"0d"`, `"024h"`,
			`"24"`, `"h"`, `""`, `"1w"`, `" 1d"`, `"1d "`, `"-1d"`, `"+1d"`, `"1.5d"`, `"٣d"`, `24`, `null`, `["24h"]`, ``} {
			for _, more := range []string{``, `"size":1`} {
				var members []string
				for key, v := range map[string]string{`"kept":`: kept, `"after":`: after, ``: more} {
					if v != "" {
						members = append(members, key+v)
					}
				}
				text := `{"helm":"policy/v1","layer":"P0","name":"f","version":1,"condense":{` + strings.Join(members, ",") + `}}`
				doc, err := Parse("f.json", []byte(text))
				require.NoError(t, err, text)
				bundle, err := Parse("b.yaml", []byte(readable))
				require.NoError(t, err)
				x := condense.ReadTerms([]condense.Document{{Layer: "P0", Canonical: doc.Canonical}, {Layer: "P1", Canonical: bundle.Canonical}})
				p, err := guardian.Compile(bundle, doc)
				require.Equal(t, err == nil, x.Goes("t", 0, last), "%s: %v", text, err)
				if err != nil {
					continue
				}
				taken++
				require.NoError(t, valid(doc.Canonical), "the schema for editors refuses %s", text)
				require.Equal(t, x, terms(p), text)
				require.False(t, x.Goes("t", at, at+86399999), text)
			}
		}
	}
	assert.Equal(t, 2*5, taken)
}

// TestCondenseNoVerdict: the key is in the hash of the policy, and changes no verdict.
func TestCondenseNoVerdict(t *testing.T) {
	t.Parallel()
	with := compiled(t, strings.TrimPrefix(readable, bundleHead), "condense: {kept: medium, after: 7d}\n")
	without := compiled(t, strings.TrimPrefix(readable, bundleHead), "labels: [x]\n")
	assert.NotEqual(t, with.Record().Policy, without.Record().Policy)
	assert.Equal(t, with.Record().Engine, without.Record().Engine)
	for _, tool := range []string{"t", "u"} {
		for _, args := range []string{`{}`, `{"a":1}`} {
			same := func(*contracts.Inputs) {}
			a, b := judged(t, with, tool, args, same), judged(t, without, tool, args, same)
			assert.Equal(t, b.Reason, a.Reason)
			assert.Equal(t, b.Rule, a.Rule)
		}
	}
}

// TestCondenseFloors: of two floors the least kept and the longest after count, and a floor without
// the key keeps all. Lint says so.
func TestCondenseFloors(t *testing.T) {
	t.Parallel()
	const day = contracts.Time(86400e3)
	for _, test := range []struct {
		floors            []string
		low, medium       bool
		after             contracts.Time
		idle              []string // documents
		otherwise, remedy string
	}{
		{[]string{"condense: {kept: high, after: 2d}", "condense: {kept: high, after: 72h}"}, true, true, 3 * day, nil, "", ""},
		{[]string{"condense: {kept: medium, after: 2d}", "condense: {kept: high, after: 1d}"}, true, false, 2 * day, nil, "", ""},
		{[]string{"condense: {kept: high, after: 2d}", "labels: [x]"}, false, false, 0, []string{"f0.yaml"}, "P0:f1 has no condense", "add it there"},
		{[]string{"labels: [x]", "condense: {kept: high, after: 2d}", "condense: {kept: high, after: 2d}"}, false, false, 0,
			[]string{"f1.yaml", "f2.yaml"}, "P0:f0 has no condense", "add it there"},
		{[]string{"labels: [x]"}, false, false, 0, nil, "", ""},
	} {
		text := bundleHead + "tools:\n  t: {effect: read, input: {type: object}}\n  u: {effect: write, input: {type: object}}\n" +
			"  v: {effect: destructive, input: {type: object}}\nrules:\n  - {id: a, allow: [t, u, v]}\n"
		doc, err := Parse("b.yaml", []byte(text))
		require.NoError(t, err)
		docs := []contracts.Document{doc}
		for i, floor := range test.floors {
			name := fmt.Sprintf("f%d", i)
			doc, err := Parse(name+".yaml", []byte("helm: policy/v1\nlayer: P0\nversion: 1\nname: "+name+"\n"+floor+"\n"))
			require.NoError(t, err)
			docs = append(docs, doc)
		}
		p, err := guardian.Compile(docs...)
		require.NoError(t, err)
		x := terms(p)
		assert.Equal(t, test.low, x.Goes("t", 0, test.after), test.floors)
		assert.Equal(t, test.medium, x.Goes("u", 0, test.after), test.floors)
		assert.False(t, x.Goes("v", 0, test.after+1000*day), test.floors)
		assert.False(t, x.Goes("t", 1, test.after), test.floors)
		found := of(Lint(p), "condense-idle")
		require.Len(t, found, len(test.idle), test.floors)
		for i, f := range found {
			assert.Equal(t, test.idle[i], f.Document)
			assert.Equal(t, "/condense", f.Pointer)
			assert.Contains(t, f.What, test.otherwise)
			assert.Contains(t, f.Remedy, test.remedy)
		}
	}
}
