package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// scalars are plain ones; without JSON they are refused.
var scalars = []struct{ text, json string }{
	{"true", "true"}, {"false", "false"}, {"null", "null"},
	{"0", "0"}, {"-0", "0"}, {"10", "10"}, {"-1.50", "-1.5"}, {"1.0", "1"}, {"1e2", "100"}, {"1E+2", "100"},
	{"25e-1", "2.5"}, {"9007199254740992", "9007199254740992"},

	{"read", `"read"`}, {"policy/v1", `"policy/v1"`}, {"/srv/data", `"/srv/data"`}, {"/*/to", `"/*/to"`},
	{"10s", `"10s"`}, {"64KiB", `"64KiB"`},
	{"GB29NWBK60161331926819", `"GB29NWBK60161331926819"`}, {"10.0.0.0/8", `"10.0.0.0/8"`}, {"::1", `"::1"`},
	{"a:b", `"a:b"`},
	{"https://a.example/x?y", `"https://a.example/x?y"`}, {"a b  c", `"a b  c"`}, {"yes sir", `"yes sir"`},
	{"nope", `"nope"`}, {"-", ""},
	{"1-2", `"1-2"`}, {"1st", `"1st"`}, {"08:00-18:00", `"08:00-18:00"`}, {"0xZZ", `"0xZZ"`},
	{"2026-01-31x", `"2026-01-31x"`}, {"1e", `"1e"`},
	{"v1.2.3", `"v1.2.3"`}, {"-x", `"-x"`}, {"+x", `"+x"`}, {"+", `"+"`}, {".hidden", `".hidden"`},
	{"infinity", `"infinity"`}, {"1 000", `"1 000"`},
	{"café", `"café"`}, {"١٢", `"١٢"`}, {"...x", `"...x"`}, {"x\n  y", `"x y"`}, {"x#y", `"x#y"`}, {"x #y", `"x"`},

	{"yes", ""}, {"Yes", ""}, {"YES", ""}, {"no", ""}, {"No", ""}, {"NO", ""}, {"on", ""}, {"On", ""}, {"off", ""},
	{"OFF", ""},
	{"y", ""}, {"Y", ""}, {"n", ""}, {"N", ""}, {"yEs", ""}, {"True", ""}, {"TRUE", ""}, {"False", ""}, {"FALSE", ""},
	{"Null", ""}, {"NULL", ""},
	{"~", ""}, {"", ""}, {"# only a comment", ""}, {"=", ""}, {"<<", ""},
	{"007", ""}, {"-01", ""}, {"00", ""}, {"0777", ""}, {"1_000", ""}, {"1_0.5", ""}, {"0x1F", ""}, {"-0x1f", ""},
	{"0o17", ""}, {"0b101", ""}, {"0X1_f", ""},
	{".inf", ""}, {"-.Inf", ""}, {"+.INF", ""}, {".nan", ""}, {".NaN", ""}, {".NAN", ""},
	{"1:30", ""}, {"12:30:45", ""}, {"190:20:30.15", ""}, {"-1:30", ""}, {"22:00", ""},
	{"2026-01-31", ""}, {"2026-1-1", ""}, {"2026-01-31T12:00:00Z", ""}, {"2026-01-31t12:00:00.5-05:00", ""},
	{"2026-01-31 12:00:00", ""}, {"2026-01-31\n  12:00:00", ""},
	{"+1", ""}, {"+1.5", ""}, {".5", ""}, {"-.5", ""}, {"1.", ""}, {"1.e5", ""}, {".5e3", ""}, {"+1e5", ""},
	{"1.5.2", ""}, {"10.0.0.1", ""}, {"1,000", ""}, {".", ""}, {"..", ""},
	{"9007199254740993", ""}, {"0.10000000000000001", ""}, {"1e400", ""}, {"1e-400", ""},
}

func TestPlainScalars(t *testing.T) {
	t.Parallel()
	for _, c := range scalars {
		doc, err := Parse("a.yaml", []byte("a: "+c.text))
		switch {
		case c.json == "" && err == nil:
			t.Errorf("%q is read as %s", c.text, doc.Canonical)
		case c.json != "" && err != nil:
			t.Errorf("%q is refused: %v", c.text, err)
		case c.json != "" && string(doc.Canonical) != `{"a":`+c.json+`}`:
			t.Errorf("%q is read as %s", c.text, doc.Canonical)
		}
	}
}

// A remedy must help: every text that is refused plain is a string in quotes.
func TestQuotedScalars(t *testing.T) {
	t.Parallel()
	for _, c := range scalars {
		for _, quote := range []string{"'", `"`} {
			doc, err := Parse("a.yaml", []byte("a: "+quote+c.text+quote))
			if err != nil || string(doc.Canonical[:6]) != `{"a":"` {
				t.Errorf("%s in quotes is %s, error %v", c.text, doc.Canonical, err)
			}
		}
	}
	doc := mustParse(t, "a.yaml", "a: |\n  on\nb: >-\n  1\n  2\n")
	assert.Equal(t, `{"a":"on\n","b":"1 2"}`, string(doc.Canonical), "block scalars are %s", doc.Canonical)
}

func TestKeysAreStrings(t *testing.T) {
	t.Parallel()
	doc := mustParse(t, "a.yaml",
		"yes: 1\n~: 2\n0x1f: 3\n1: 4\nnull: 5\n2026-01-31: 6\n.5: 7\ntrue: {on: 8, n: 9}\n'': 10\n=: 11\n")
	assert.Equal(t, `{"":10,".5":7,"0x1f":3,"1":4,"2026-01-31":6,"=":11,"null":5,"true":{"n":9,"on":8},"yes":1,"~":2}`,
		string(doc.Canonical), "keys are read as %s", doc.Canonical)
}
