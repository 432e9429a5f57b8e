package guardian

import (
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// against times batches of operations and, between them, signatures of 256 bytes: whatever else the
// machine does meets all of them. It reports the shortest time of each in nanoseconds.
func against(b *testing.B, batch int, ops ...func(i int)) []float64 {
	b.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	message := make([]byte, 256)
	least, sign := make([]time.Duration, len(ops)), time.Duration(1<<62)
	for i := range least {
		least[i] = 1 << 62
	}
	for n := 0; b.Loop(); n += batch {
		for k, op := range ops {
			start := time.Now()
			for i := range batch {
				op(n + i)
			}
			least[k] = min(least[k], time.Since(start))
		}
		start := time.Now()
		ed25519.Sign(key, message)
		sign = min(sign, time.Since(start))
	}
	var each []float64
	for _, d := range least {
		each = append(each, float64(d)/float64(batch))
	}
	b.ReportMetric(0, "ns/op") // of a whole round
	b.ReportMetric(each[0], "ns/judged")
	b.ReportMetric(testing.AllocsPerRun(100, func() { ops[0](0) }), "allocs/judged")
	b.ReportMetric(each[0]/float64(sign), "x/sign")
	b.ReportMetric(float64(sign), "ns/sign")
	return each
}

// layered is the same three rules a tool, one in each layer, with a profile, a ceiling of each
// kind, for, only and expires: what a floor and an overlay cost apart from their rules.
func layered(n int) []string {
	var tools, rules strings.Builder
	for i := range n {
		if i > 0 {
			tools.WriteByte(',')
			rules.WriteByte(',')
		}
		name := fmt.Sprintf("tool.%d", i)
		tools.WriteString(toolText(name, `"path":{"type":"string"},"n":{"type":"number"}`, "path", "n"))
		fmt.Fprintf(&rules, `{"id":"c%d","allow":"%s","when":{"caller":"roles","has":"editor"}}`, i, name)
	}
	return []string{bundle("b", tools.String(), rules.String()),
		floor("f",
			`,"profile":{"effects":["read"],"connectors":["b"]},"ceilings":{"args":"64KiB","depth":8,"timeout":"10s","risk":"medium"},"expires":"2099-01-01T00:00:00Z",`+
				`"only":"tool.*","rules":[{"id":"big","deny":{"effects":["read"]},"when":{"arg":"/n","gt":1000}}]`),
		overlay("o",
			`,"for":{"session":"main"},"only":"tool.*","expires":"2099-01-01T00:00:00Z","rules":[{"id":"passwd","deny":"tool.*","when":{"arg":"/path","eq":"/etc/passwd"}}]`)}
}

// ungated is a floor by which nothing is scanned, so that a decision alone is measured. What a scan
// adds is in BenchmarkGate.
const ungated = `{"helm":"policy/v1","layer":"P0","name":"ungated","version":1,"threat":{"deny":"none"}}`

// BenchmarkGate is the same call, of 900 bytes of prose and a few short strings, without a scan and
// with the usual gate.
func BenchmarkGate(b *testing.B) {
	prose := strings.Repeat("It was agreed that the harbour office (room 12) sends the figures for March by mail. ", 10)
	in := inputs(b, "tool.0", `{"path":"`+prose+`","n":7}`)
	for name, docs := range map[string][]string{"none": {surface(1000), ungated}, "usual": {surface(1000)}} {
		b.Run(name, func(b *testing.B) {
			run(b, mustCompile(b, docs...), []contracts.Inputs{in}, contracts.ReasonAllow)
		})
	}
}

// run judges calls, all of which end for one reason. What is decided is what is judged less the
// schema, which is not the guardian's.
func run(b *testing.B, p *Policy, ins []contracts.Inputs, reason contracts.ReasonCode) {
	b.Helper()
	decide(b, p, ins, func(in *contracts.Inputs) bool {
		r, _ := p.Judge(*in, nil)
		return r.Reason == reason
	})
}

func decide(b *testing.B, p *Policy, ins []contracts.Inputs, right func(*contracts.Inputs) bool) {
	b.Helper()
	rules := 0
	schemas := make([]*jsonschema.Schema, len(ins))
	for i := range ins {
		if t := p.stack.Tools[ins[i].Tool]; t != nil {
			rules, schemas[i] = len(t.Rules), t.Input
		}
	}
	each := against(b, max(1, 8192/(128+rules)), func(i int) {
		if in := &ins[i%len(ins)]; !right(in) {
			b.Fatal(in.Tool)
		}
	}, func(i int) {
		i = (i + len(ins)/2) % len(ins) // of other tools than those that were judged just now
		if schemas[i] != nil && schemas[i].Validate(ins[i].Args) != nil {
			b.Fatal("not valid")
		}
	})
	b.ReportMetric(each[0]-each[1], "ns/decided")
}

// Three rules a tool, of which the last allows; a schema that costs next to nothing, since the
// schema is not the guardian's. No two tools have the same input, so they share nothing; those of
// layered all do.
func surface(n int) string {
	var tools, rules strings.Builder
	for i := range n {
		if i > 0 {
			tools.WriteByte(',')
			rules.WriteByte(',')
		}
		name := fmt.Sprintf("tool.%d", i)
		tools.WriteString(toolText(name, fmt.Sprintf(`"path":{"type":"string","maxLength":%d},"n":{"type":"number"}`,
			1000+i), "path", "n"))
		fmt.Fprintf(&rules,
			`{"id":"a%d","deny":"%s","when":{"arg":"/n","gt":1000}},{"id":"b%d","deny":"%s","when":{"arg":"/path","eq":"/etc/passwd"}},`+
				`{"id":"c%d","allow":"%s","when":{"caller":"roles","has":"editor"}}`, i, name, i, name, i, name)
	}
	return bundle("b", tools.String(), rules.String())
}

func BenchmarkHotTool(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := mustCompile(b, surface(n), ungated)
			run(b, p, []contracts.Inputs{inputs(b, "tool.0", `{"path":"/srv/data/report.txt","n":7}`)},
				contracts.ReasonAllow)
		})
	}
}

// As HotTool, with floor and overlay.
func BenchmarkHotToolLayers(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := mustCompile(b, append(layered(n), ungated)...)
			run(b, p, []contracts.Inputs{inputs(b, "tool.0", `{"path":"/srv/data/report.txt","n":7}`)},
				contracts.ReasonAllow)
		})
	}
}

func BenchmarkRandomTool(b *testing.B) {
	benchmarkRandom(b, func(n int) []string { return []string{surface(n)} })
}

// As RandomTool, with floor and overlay.
func BenchmarkRandomToolLayers(b *testing.B) { benchmarkRandom(b, layered) }

func benchmarkRandom(b *testing.B, stack func(n int) []string) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := mustCompile(b, append(stack(n), ungated)...)
			r := rand.New(rand.NewPCG(1, 2))
			in := inputs(b, "tool.0", `{"path":"/srv/data/report.txt","n":7}`)
			ins := make([]contracts.Inputs, 4096)
			for i := range ins {
				ins[i] = in
				ins[i].Tool = fmt.Sprintf("tool.%d", r.IntN(n))
			}
			run(b, p, ins, contracts.ReasonAllow)
		})
	}
}

func BenchmarkUnknownTool(b *testing.B) {
	p := mustCompile(b, surface(1000), ungated)
	run(b, p, []contracts.Inputs{inputs(b, "tool.x", `{}`)}, contracts.ReasonToolNotFound)
}

// thousand has 1,000 rules on one tool, of several kinds; the last matches.
func thousand(tests int) string {
	var rules []string
	for i := range 999 {
		kinds := []string{
			fmt.Sprintf(`{"arg":"/path","eq":"/srv/other/%d"}`, i),
			fmt.Sprintf(`{"arg":"/n","gt":%d}`, 3000-i), // descending, or the first would leave the others nothing
			fmt.Sprintf(`{"caller":"roles","has":"role%d"}`, i),
			fmt.Sprintf(`{"arg":"/path","within":"/srv/other/%d"}`, i),
		}
		pred := kinds[i%4]
		if tests == 2 {
			pred = `{"any":[` + kinds[i%4] + `,` + kinds[(i+1)%4] + `]}`
		}
		rules = append(rules, fmt.Sprintf(`{"id":"r%d","deny":"t","when":%s}`, i, pred))
	}
	rules = append(rules, `{"id":"last","allow":"t","when":{"arg":"/path","prefix":"/srv/data"}}`)
	return bundle("b", toolText("t", `"path":{"type":"string"},"n":{"type":"number"}`, "path", "n"),
		strings.Join(rules, ","))
}

func BenchmarkThousandRules(b *testing.B) {
	for _, tests := range []int{1, 2} {
		b.Run(fmt.Sprint(tests, "tests"), func(b *testing.B) {
			p := mustCompile(b, thousand(tests), ungated)
			run(b, p, []contracts.Inputs{inputs(b, "t", `{"path":"/srv/data/report.txt","n":7}`)},
				contracts.ReasonAllow)
		})
	}
}
