package guardian

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A testCase is one case of a table in testdata: the text of each of its fields.
type testCase map[string]string

// lines are those of a field that may stand on many.
func (c testCase) lines(field string) []string {
	if text, ok := c[field]; ok {
		return strings.Split(text, "\n")
	}
	return nil
}

// readCases reads the n cases of testdata/name.txt. An empty line ends a case, and # begins a line
// that is a comment. Every other line is the name of a field, a space and its text; after a colon
// the text is quoted as in Go. A case has each field once, but those marked here with * any number
// of times.
func readCases(t testing.TB, name string, n int, fields ...string) (cases []testCase) {
	t.Helper()
	file, err := os.ReadFile("testdata/" + name + ".txt")
	require.NoError(t, err)
	for part := range strings.SplitSeq(string(file), "\n\n") {
		c := testCase{}
		for line := range strings.SplitSeq(part, "\n") {
			if line == "" || line[0] == '#' {
				continue
			}
			field, text, _ := strings.Cut(line, " ")
			if quoted, ok := strings.CutSuffix(field, ":"); ok {
				field = quoted
				text, err = strconv.Unquote(text)
				require.NoError(t, err, "%s: %s", name, line)
			}
			before, again := c[field]
			if !slices.Contains(fields, field+"*") {
				require.Contains(t, fields, field, "%s: %s: an unknown field", name, line)
				require.False(t, again, "%s: %s: %s twice", name, line, field)
			} else if again {
				text = before + "\n" + text
			}
			c[field] = text
		}
		if len(c) == 0 { // comments alone
			continue
		}
		for _, field := range fields {
			if !strings.HasSuffix(field, "*") {
				require.Contains(t, c, field, "%s: %s", name, part)
			}
		}
		cases = append(cases, c)
	}
	require.Len(t, cases, n, name)
	return cases
}

// A refusal is one fault of a document that is good without it.
type refusal struct {
	old, new string // in the good document
	at       string // pointer of the error
	says     string // parts, divided by |
}

// readRefusals reads the n refusals of testdata/name.txt.
func readRefusals(t testing.TB, name string, n int) (list []refusal) {
	t.Helper()
	for _, c := range readCases(t, name, n, "old", "new", "at", "says") {
		list = append(list, refusal{c["old"], c["new"], c["at"], c["says"]})
	}
	return list
}

// callFields are those of a case that is one call, and how it ends.
var callFields = []string{"name", "tool", "args", "change*", "want", "says"}

// callChanges make another call of one, by their names in a case.
var callChanges = map[string]func(*contracts.Inputs){
	"a millisecond sooner": func(in *contracts.Inputs) { in.Time-- },
	"an admin calls":       func(in *contracts.Inputs) { in.Caller.Roles = []string{"admin", "clerk"} },
	"an approval": func(in *contracts.Inputs) {
		in.Envelopes.Approvals = []contracts.Envelope{[]byte(`{}`)}
	},
	"arguments that are the path": func(in *contracts.Inputs) { in.Args = in.Args.Get("path") },
	"delegated":                   delegated,
	"eve calls":                   func(in *contracts.Inputs) { in.Caller.ID = "eve" },
	"no arguments":                func(in *contracts.Inputs) { in.Args = crypto.Value{} },
	"no driver":                   func(in *contracts.Inputs) { in.Drivers = 0 },
	"no roles":                    func(in *contracts.Inputs) { in.Caller.Roles = nil },
	"nobody calls":                func(in *contracts.Inputs) { in.Caller = contracts.Caller{} },
	"sandbox any":                 housed("any", strict),
	"sandbox pure":                housed("pure", &contracts.Sandbox{}),
	"sandbox reported":            housed("reported", nil),
	"sandbox wasi-strict":         housed("wasi-strict", strict),
	"sandbox without a name":      housed("", strict),
	"sandbox without grants":      housed("wasi-strict", nil),
	"session chat-1":              func(in *contracts.Inputs) { in.Session = "chat-1" },
	"six hours later":             func(in *contracts.Inputs) { in.Time = noon.Add(6 * time.Hour) },
	"two drivers":                 func(in *contracts.Inputs) { in.Drivers = 2 },
}

// judged makes the call of a case, which must end as the case wants.
func (c testCase) judged(t testing.TB, p *Policy) {
	t.Helper()
	in := inputs(t, c["tool"], c["args"])
	for _, name := range c.lines("change") {
		require.Contains(t, callChanges, name)
		callChanges[name](&in)
	}
	f := append(strings.Fields(c["want"]), "")
	condition, err := strconv.Atoi(f[1])
	require.NoError(t, err)
	_, why := want{contracts.ReasonCode(f[0]), condition, f[2]}.check(t, p, in)
	contains(t, why.String(), c["says"])
}
