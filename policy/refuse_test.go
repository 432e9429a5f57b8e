package policy

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm/internal/race"
)

const (
	quoteIt = "; quote it to mean the string, or write true, false, null or a JSON number"
	jsonIs  = "; expected one JSON object of at most 4 MiB, nested at most 128 deep, without duplicate keys"
	lookAt  = "; check indentation, quotes and brackets"
)

var refusals = []struct{ name, text, want string }{
	{"a.yaml", "a: b\nc: yes\n",
		"a.yaml:2:4: the plain scalar yes means different things to different readers of YAML" + quoteIt},
	{"a.yaml", "a: [b, {c: ~}]",
		"a.yaml:1:12: the plain scalar ~ means different things to different readers of YAML" + quoteIt},
	{"a.yaml", "a: b\n\nc:\n", "a.yaml:3:3: a value that is not there; write null, \"\" or a value"},
	{"a.yaml", "a:\n- b\n-\n- c\n", "a.yaml:3:2: a value that is not there; write null, \"\" or a value"},
	{"a.yaml", "{a, b: c}", "a.yaml:1:3: a value that is not there; write null, \"\" or a value"},
	{"a.yaml", "a: 9007199254740993",
		"a.yaml:1:4: a number that changes when it is read: a double cannot hold it; quote it to mean the string, or " +
			"write one of fewer digits"},
	{"a.yaml", "a: !!str b", "a.yaml:1:4: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "a: ! 12", "a.yaml:1:4: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "a: !", "a.yaml:1:4: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "a: !<tag:yaml.org,2002:str> b", "a.yaml:1:4: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "! {a: b}", "a.yaml:1:1: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "a: !x [b]", "a.yaml:1:4: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "!!str a: b", "a.yaml:1:1: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "--- !!map\na: b", "a.yaml:1:5: a tag; take it out; quote the value to mean a string"},
	{"a.yaml", "a: &x b", "a.yaml:1:4: an anchor; take it out, and write the value out where it is needed"},
	{"a.yaml", "a: b\n&x c: d", "a.yaml:2:1: an anchor; take it out, and write the value out where it is needed"},
	{"a.yaml", "&x {a: b}", "a.yaml:1:1: an anchor; take it out, and write the value out where it is needed"},
	{"a.yaml", "a: *x", "a.yaml:1:4: not YAML: unknown anchor 'x' referenced" + lookAt},
	{"a.yaml", "a: &x [1]\nb: *x", "a.yaml:1:4: an anchor; take it out, and write the value out where it is needed"},
	{"a.yaml", "a: {b: c}\n<<: {d: e}", "a.yaml:2:1: a merge key; write the members out"},
	{"a.yaml", "a: {'<<': c}", "a.yaml:1:5: a merge key; write the members out"},
	{"a.yaml", "a: 1\nb: 2\na: 3", "a.yaml:3:1: duplicate key; the first is on line 1; keep one"},
	{"a.yaml", "a: {\"b\": 1, 'b': 1}", "a.yaml:1:13: duplicate key; the first is on line 1; keep one"},
	{"a.yaml", `{"a": 1, "\x61": 2}`, "a.yaml:1:10: duplicate key; the first is on line 1; keep one"},
	{"a.yaml", "1: a\n'1': b", "a.yaml:2:1: duplicate key; the first is on line 1; keep one"},
	{"a.yaml", "? [a]\n: b", "a.yaml:1:3: a key that is a mapping or a sequence; expected a string"},
	{"a.yaml", "{a: b, {c: d}: e}", "a.yaml:1:8: a key that is a mapping or a sequence; expected a string"},
	{"a.yaml", ": a", `a.yaml:1:1: a key that is not there; write a key, or "" to mean the empty one`},
	{"a.yaml", "a: b\n---\nc: d", "a.yaml:2:1: a second document; write one document a file"},
	{"a.yaml", "a: b\n---\n", "a.yaml:2:1: a second document; write one document a file"},
	{"a.yaml", "a: b\n...\nc: d", "a.yaml:3:1: a second document; write one document a file"},
	{"a.yaml", "%YAML 1.1\n---\na: b", "a.yaml:1:1: a directive; take the line that starts with % out"},
	{"a.yaml", "# x\n%TAG ! tag:x,2000:\n---\na: !b c",
		"a.yaml:2:1: a directive; take the line that starts with % out"},
	{"a.yaml", "%OTHER x\n---\na: b",
		"a.yaml:1:7: not YAML: found unknown directive name while scanning a directive" + lookAt},
	{"a.yaml", "", "a.yaml:1:1: no document; expected keys and values"},
	{"a.yaml", "# nothing\n", "a.yaml:1:1: no document; expected keys and values"},
	{"a.yaml", "---\n", "a.yaml:2:1: not a mapping; expected a document: keys and values"},
	{"a.yaml", "- a\n- b\n", "a.yaml:1:1: not a mapping; expected a document: keys and values"},
	{"a.yaml", "\n  just words\n", "a.yaml:2:3: not a mapping; expected a document: keys and values"},
	{"a.yaml", "a:\n  b: c\n d: e\n",
		"a.yaml:3:2: not YAML: did not find expected key while parsing a block mapping that starts on line 1" + lookAt},
	{"a.yaml", "a: [1, 2\nb: 3",
		"a.yaml:2:2: not YAML: did not find expected ',' or ']' while parsing a flow sequence that starts on line 1" +
			lookAt},
	{"a.yaml", "a: b: c", "a.yaml:1:5: not YAML: mapping values are not allowed in this context" + lookAt},
	{"a.yaml", "a:\n\tb: c", "a.yaml:2:1: a tab; indent with spaces"},
	{"a.yaml", "é: è\r\nà:\r\n  b: c\r\n  \td: e", "a.yaml:4:3: a tab; indent with spaces"},
	{"a.yaml", "a:\n-\tb: c", "a.yaml:2:2: a tab; indent with spaces"},
	{"a.yaml", "a:\n  b: |\n\tc", "a.yaml:3:1: a tab; indent with spaces"},
	// that tab is good YAML
	{"a.yaml", "a: {\n\tb: [}",
		"a.yaml:2:6: not YAML: did not find expected node content while parsing a flow node" + lookAt},
	{"a.yaml", "a: 12:30:00.5",
		"a.yaml:1:4: the plain scalar 12:30:00.5 means different things to different readers of YAML" + quoteIt},
	{"a.yaml", "a: 2026-01-31 " + strings.Repeat("é", 40),
		"a.yaml:1:4: the plain scalar 2026-01-31 " + strings.Repeat("é",
			14) + "… means different things to different readers of YAML" + quoteIt},
	{"a.yaml", `a: "\ud83d"`,
		"a.yaml:1:7: not YAML: found invalid Unicode character escape code while scanning a quoted scalar" + lookAt},
	{"a.yaml", "a: b\nc: \xff", "a.yaml:2:4: invalid UTF-8; save the file as UTF-8"},
	{"a.yaml", "é: \xed\xa0\x80", "a.yaml:1:4: invalid UTF-8; save the file as UTF-8"},
	{"a.yaml", "\uFEFFa: b", "a.yaml:1:1: byte order mark; save the file as UTF-8 without one"},
	{"a.yaml", "\xff\xfea\x00:\x00 \x00b\x00", "a.yaml:1:1: invalid UTF-8; save the file as UTF-8"},
	{"a.yaml", "a: b\x00",
		"a.yaml:1:5: a character that YAML has not, or that some of its versions read as the end of a line; take it " +
			"out, or write it as an escape in double quotes"},
	{"a.yaml", "a: 'b\u2028c'",
		"a.yaml:1:6: a character that YAML has not, or that some of its versions read as the end of a line; take it " +
			"out, or write it as an escape in double quotes"},
	{"a.yaml", "a: 'b\u0085c'",
		"a.yaml:1:6: a character that YAML has not, or that some of its versions read as the end of a line; take it " +
			"out, or write it as an escape in double quotes"},

	{"a.json", "", "a.json:1:1: not strict JSON: not an object" + jsonIs},
	{"a.json", "[1]", "a.json:1:1: not strict JSON: not an object" + jsonIs},
	{"a.json", "{\"a\": 1,\n \"a\": 2}", "a.json:2:2: not strict JSON: duplicate key" + jsonIs},
	{"a.JSON", "{\"a\": 1,\n \"b\": 2,}", "a.JSON:2:9: not strict JSON: expected a key" + jsonIs},
	{"a.json", "{a: b}", "a.json:1:2: not strict JSON: expected a key" + jsonIs},
	{"a.json", "{\"a\": 9007199254740993}", "a.json:1:7: not strict JSON: number that a double cannot hold" + jsonIs},
	{"a.json", "{\"é\":\"\\ud800\"}", "a.json:1:7: not strict JSON: lone surrogate" + jsonIs},
	{"a.json", "{\"a\":1} {}", "a.json:1:9: not strict JSON: more than one value" + jsonIs},
	{"a.json", "\uFEFF{}", "a.json:1:1: byte order mark; save the file as UTF-8 without one"},
	{"a.yaml", "{\"a\": 1, \"a\": 2}", "a.yaml:1:10: duplicate key; the first is on line 1; keep one"},
	{"a.yaml", "{\"a\": 1e400}",
		"a.yaml:1:7: a number that changes when it is read: a double cannot hold it; quote it to mean the string, or " +
			"write one of fewer digits"},
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	mustParse(t, "a.yaml", "a: b") // or the refusals below would prove nothing
	mustParse(t, "a.json", `{"a":"b"}`)
	for _, c := range refusals {
		mustRefuse(t, c.name, c.text, c.want)
	}
}

// An alias is refused on its own too. An alias to an anchor that was refused is never reached, so
// here it is the first of the two.
func TestAliasBomb(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 60; i++ {
		n, m := string(rune('0'+i/10))+string(rune('0'+i%10)), string(rune('0'+(i-1)/10))+string(rune('0'+(i-1)%10))
		if i == 1 {
			m = "0"
		}
		b.WriteString("a" + n + ": &a" + n + " [*a" + m + ", *a" + m + "]\n")
	}
	mustRefuse(t, "a.yaml", b.String(),
		"a.yaml:1:5: an anchor; take it out, and write the value out where it is needed")
}

func TestLimits(t *testing.T) {
	t.Parallel()
	long := "a: " + strings.Repeat("x", maxYAML-3)
	mustParse(t, "a.yaml", long)
	mustRefuse(t, "a.yaml", long+"x", "a.yaml:1:1: YAML of more than 1 MiB; split the document, or write it as JSON")

	long = `{"a":"` + strings.Repeat("x", maxJSON-8) + `"}`
	mustParse(t, "a.json", long)
	mustParse(t, "a.yaml", long) // it is JSON, whatever its name
	mustRefuse(t, "a.json", long+" ", "a.json:1:4194305: not strict JSON: longer than its limit"+jsonIs)

	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	mustParse(t, "a.json", nested(128))
	mustRefuse(t, "a.json", nested(129), "a.json:1:133: not strict JSON: nested too deep"+jsonIs)
	mustParse(t, "a.yaml", "# not JSON\n"+nested(128))
	mustRefuse(t, "a.yaml", "# not JSON\n"+nested(129), "a.yaml:2:133: nested more than 128 deep; flatten it")
	mustParse(t, "a.yaml", "a:\n"+strings.Repeat("- ", 127)+"b\n")
	mustRefuse(t, "a.yaml", "a:\n"+strings.Repeat("- ", 128)+"b\n",
		"a.yaml:2:255: nested more than 128 deep; flatten it")
}

// Hostile texts are refused quickly, whatever the library would do with them.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for _, piece := range []string{"[", "{a: ", "- ", "? ", "{\"a\":", "!", "&a ", "*a ", "'", "\"", "|", "---\n",
		"a: b\n---\n", "\n", "#\n", "%a\n", "\t", "a", "a:\n", "1,"} {
		for _, before := range []string{"", "a: [", "a: "} {
			text := before + strings.Repeat(piece, maxYAML/8/len(piece))
			// quotes in pairs are quotes in a string
			if _, err := Parse("a.yaml", []byte(text)); err == nil && piece != "a" && before+piece != "a: '" {
				t.Errorf("%q again and again is a document", before+piece)
			}
		}
	}
	// One long key above many values would be in the pointer of each.
	key, values := strings.Repeat("k", 1<<19), strings.Repeat("1,", 1<<17)
	mustRefuse(t, "a.yaml", "{"+key+": ["+values+"1]}",
		"a.yaml:1:524545: keys too long above too many values; shorten the keys, or split the document")
	mustRefuse(t, "a.json", `{"`+key+`":[`+values+"1]}",
		"a.json:1:524546: keys too long above too many values; shorten the keys, or split the document")
}
