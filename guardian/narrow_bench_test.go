package guardian

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// tasks are overlays as they are written for one task, over the tools tool.0 to tool.999.
var tasks = []struct{ name, keys string }{
	{"a task", `,"for":{"session":"chat-4711"},"only":["tool.3","tool.4"],"expires":"2099-01-01T00:00:00Z",` +
		`"rules":[{"id":"payee","deny":"tool.4","unless":{"arg":"/path","eq":"/srv/data/report.txt"}},` +
		`{"id":"small","deny":"tool.4","when":{"arg":"/n","gt":50}}],` +
		`"requires":[{"id":"read","tools":"tool.4","all":[{"receipt":"tool.3","same":["/path"]}]}],` +
		`"budgets":[{"id":"once","tools":"tool.4","limit":1,"per":"session","window":"total","cost":1}]`},
	{"only a pattern", `,"only":["tool.1*"]`},
	{"all but one", `,"rules":[{"id":"not","deny":"tool.4"}]`},
	{"a rule of all tools", `,"rules":[{"id":"day","deny":"*","unless":{"time":"utc","in":["Mon-Fri 06:00-20:00"]}}]`},
	{"an argument of all tools", `,"rules":[{"id":"big","deny":"*","when":{"arg":"/n","gt":50}}]`},
}

// BenchmarkNarrow puts an overlay over a stack of 1,000 tools, each of its own input, and over one
// that has had another overlay. It reports what a narrowed policy holds, too.
func BenchmarkNarrow(b *testing.B) {
	p := mustCompile(b, surface(1000), ungated)
	second, err := p.Narrow(document(b, "", overlay("first", tasks[0].keys)))
	require.NoError(b, err)
	for name, p := range map[string]*Policy{"": p, ", the second": second} {
		for _, x := range tasks {
			b.Run(x.name+name, func(b *testing.B) {
				doc := document(b, "", overlay("task", x.keys))
				narrow := func() *Policy {
					q, err := p.Narrow(doc)
					if err != nil {
						b.Fatal(err)
					}
					return q
				}
				var before, after runtime.MemStats
				var kept [64]*Policy
				runtime.GC()
				runtime.ReadMemStats(&before)
				for i := range kept {
					kept[i] = narrow()
				}
				runtime.GC()
				runtime.ReadMemStats(&after)
				against(b, 16, func(int) { narrow() })
				b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(kept)), "B/policy")
				runtime.KeepAlive(kept)
			})
		}
	}
}

// BenchmarkNarrowed judges one hot tool of 1,000, and others, under the overlay of a task.
func BenchmarkNarrowed(b *testing.B) {
	p := mustCompile(b, surface(1000), ungated)
	for _, x := range []struct{ name, keys string }{
		{"not narrowed", ""},
		{"a rule", `,"rules":[{"id":"r","deny":"tool.0","when":{"arg":"/n","gt":50}}]`},
		{"only", `,"only":["tool.0","tool.1"],"expires":"2099-01-01T00:00:00Z"`},
		{"of others", strings.Replace(tasks[0].keys, `"only":["tool.3","tool.4"],`, "", 1)},
	} {
		b.Run(x.name, func(b *testing.B) {
			q := p
			if x.keys != "" {
				var err error
				q, err = p.Narrow(document(b, "", overlay("task", x.keys)))
				require.NoError(b, err)
			}
			run(b, q, []contracts.Inputs{inputs(b, fmt.Sprint("tool.", 0), `{"path":"/srv/data/report.txt","n":7}`)},
				contracts.ReasonAllow)
		})
	}
}
