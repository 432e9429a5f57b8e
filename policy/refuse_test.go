package policy

import (
	"strings"
	"testing"

	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

const jsonIs = "; expected one JSON object of at most 4 MiB, nested at most 128 deep, without duplicate keys"

type refusal struct{ Name, Text, Want string }

func refusals(t testing.TB) []refusal {
	t.Helper()
	return append(table.Read[refusal](t, "refusals", 67), refusal{"a.yaml", "a: 2026-01-31 " + strings.Repeat("é", 40),
		"a.yaml:1:4: the plain scalar 2026-01-31 " + strings.Repeat("é", 14) +
			"… means different things to different readers of YAML; " +
			"quote it to mean the string, or write true, false, null or a JSON number"})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	mustParse(t, "a.yaml", "a: b") // or the refusals below would prove nothing
	mustParse(t, "a.json", `{"a":"b"}`)
	for _, c := range refusals(t) {
		mustRefuse(t, c.Name, c.Text, c.Want)
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
	race.Alone(t)
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
