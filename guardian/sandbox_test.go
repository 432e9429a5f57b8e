package guardian

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// demanding is a floor that declares a profile and demands it of write tools. A profile that no
// document declares is without text.
func demanding(floorName, name, profile string) string {
	keys := `,"profile":{"sandbox":{"write":"` + name + `"}}`
	if name != contracts.ProfilePure && name != contracts.ProfileReported {
		keys += `,"sandboxes":{"` + name + `":{` + profile + `}}`
	}
	return floor(floorName, keys)
}

// modules is what a profile says of these modules.
func modules(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, `"`+crypto.Sum([]byte(name)).String()+`"`)
	}
	return `"modules":[` + strings.Join(list, ",") + `]`
}

// boxed is a bundle with one write tool t, with profiles and the tool's sandbox, if it has one.
func boxed(sandboxes, sandbox string) string {
	if sandbox != "" {
		sandbox = `,"sandbox":"` + sandbox + `"`
	}
	return `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"sandboxes":{` + sandboxes +
		`},"tools":{"t":{"effect":"write","input":{"type":"object"}` + sandbox + `}},"rules":[{"id":"all","allow":"t"}]}`
}

// called is a call of t by a driver with a sandbox.
func called(t testing.TB, of *contracts.SandboxInfo) contracts.Inputs {
	in := inputs(t, "t", `{}`)
	in.Sandbox = of
	return in
}

// Sandboxes are in stack order, whatever came first, with defaults filled in, and nobody's to
// change.
func TestSandboxes(t *testing.T) {
	t.Parallel()
	module := crypto.Sum([]byte("m"))
	docs := []string{
		boxed(`"s":{"args":["-n"],"clock":"real","env":["Z","A"],"files":{"/in":"read"},"gas":7,"memory":"128KiB",`+
			modules("m")+`,"output":"3KiB","random":"real"},"idle":{}`, "s"),
		demanding("z", "pure", ``), demanding("a", "s", `"args":[]`), floor("m", ``),
	}
	pure := contracts.Sandbox{Clock: "fixed", Gas: 1e9, Memory: 1024, Output: 1 << 20, Random: "seeded"}
	want := []Demand{
		{Document: "P0:a", Name: "s", Grants: pure, Args: true},
		{Document: "P0:z", Name: "pure", Grants: pure},
		{Document: "P1:b", Name: "s", Args: true, Modules: []contracts.Digest{module}, Grants: contracts.Sandbox{
			Args: []string{"-n"}, Clock: "real", Env: []string{"A", "Z"}, Files: map[string]string{"/in": "read"},
			Gas: 7, Memory: 2, Output: 3 << 10, Random: "real"}},
	}
	for range 2 {
		slices.Reverse(docs)
		p := mustCompile(t, docs...)
		require.Equal(t, want, p.Sandboxes("t"))
		got := p.Sandboxes("t")
		got[2].Grants.Args[0], got[2].Grants.Env[0], got[2].Modules[0] = "x", "x", contracts.Digest{}
		got[2].Grants.Files["/in"], got[0].Name = "write", "x"
		require.Equal(t, want, p.Sandboxes("t"), "what was returned is the policy's own")
		assert.Equal(t, "s", p.Tools()[0].Sandbox)

		n, err := p.Narrow(document(t, "", overlay("o", `,"rules":[{"id":"r","deny":"t","when":{"caller":"roles","has":"x"}}]`)))
		require.NoError(t, err)
		assert.Equal(t, want, n.Sandboxes("t"), "narrowed")
	}
	p := mustCompile(t, boxed(``, "reported"))
	assert.Equal(t, []Demand{{Document: "P1:b", Name: "reported"}}, p.Sandboxes("t"))
	assert.Nil(t, mustCompile(t, boxed(`"idle":{}`, "")).Sandboxes("t"))
	assert.Nil(t, p.Sandboxes("none"))
	assert.Nil(t, (*Policy)(nil).Sandboxes("t"))
}

// Documents that differ in a profile are different policies, and one without sandboxes is the
// policy that it was before there were any.
func TestSandboxHash(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "fd9ba787a1df9d7ce051bc234f784e8c0050661aa6b629dfbf63fb507e8562ec", mustCompile(t, office).Hash().String())
	seen := map[contracts.Digest]bool{}
	for _, text := range []string{boxed(``, "pure"), boxed(`"s":{}`, "s"), boxed(`"s":{"gas":1}`, "s"),
		boxed(`"s":{"args":[]}`, "s"), boxed(`"s":{`+modules("a")+`}`, "s"), boxed(`"s":{`+modules("b")+`}`, "s")} {
		seen[mustCompile(t, text).Hash()] = true
	}
	assert.Len(t, seen, 6)
}

// A step is a sandbox that differs in one field from one that meets a demand in all of them.
type step struct {
	field string // "" if the demand is met all the same
	take  func(*contracts.SandboxInfo)
}

// demanded is a profile, and boundary a sandbox that meets it in every field and has no more to
// spare in any.
const demanded = `"args":["-n"],"env":["LANG"],"files":{"/in":"read","/lib":"sha256:` + pin + `","/out":"write"},` +
	`"gas":1000,"memory":"1MiB","output":"64KiB",`

func boundary() *contracts.SandboxInfo {
	return &contracts.SandboxInfo{Profile: "any", Module: crypto.Sum([]byte("m")), Meter: 1, Grants: &contracts.Sandbox{
		Args: []string{"-n"}, Env: []string{"LANG"}, Gas: 1000, Memory: 16, Output: 64 << 10,
		Files: map[string]string{"/in": "read", "/lib": "sha256:" + pin, "/out": "write"},
	}}
}

func grants(field string, take func(*contracts.Sandbox)) step {
	return step{field, func(x *contracts.SandboxInfo) { take(x.Grants) }}
}

func access(field, path, to string) step {
	return grants(field, func(x *contracts.Sandbox) { x.Files[path] = to })
}

// steps are in the order in which fields are judged.
var steps = []step{
	grants("args", func(x *contracts.Sandbox) { x.Args = nil }),
	grants("args", func(x *contracts.Sandbox) { x.Args = []string{"-n", "-n"} }),
	grants("args", func(x *contracts.Sandbox) { x.Args = []string{"-N"} }),
	grants("clock", func(x *contracts.Sandbox) { x.Clock = "real" }),
	grants("clock", func(x *contracts.Sandbox) { x.Clock = "Fixed" }),
	grants("env", func(x *contracts.Sandbox) { x.Env = []string{"HOME", "LANG"} }),
	grants("env", func(x *contracts.Sandbox) { x.Env = []string{"lang"} }),
	access("files", "/in", "write"),
	access("files", "/lib", "read"),
	access("files", "/lib", "write"),
	access("files", "/lib", "sha256:"+strings.Repeat("0", 64)),
	access("files", "/in/sub", "read"),
	access("files", "/", "read"),
	access("files", "/IN", "read"),
	access("files", "/in", "all"),
	grants("gas", func(x *contracts.Sandbox) { x.Gas = 1001 }),
	grants("gas", func(x *contracts.Sandbox) { x.Gas = 0 }), // the default is more
	grants("memory", func(x *contracts.Sandbox) { x.Memory = 17 }),
	grants("memory", func(x *contracts.Sandbox) { x.Memory = 0 }),
	grants("output", func(x *contracts.Sandbox) { x.Output = 64<<10 + 1 }),
	grants("output", func(x *contracts.Sandbox) { x.Output = 0 }),
	grants("random", func(x *contracts.Sandbox) { x.Random = "real" }),
	{"modules", func(x *contracts.SandboxInfo) { x.Module = crypto.Sum([]byte("n")) }},
	{"modules", func(x *contracts.SandboxInfo) { x.Module = contracts.Digest{} }},

	{"", func(x *contracts.SandboxInfo) {}},
	{"", func(x *contracts.SandboxInfo) { x.Profile, x.Meter = "pure", 2 }},
	grants("", func(x *contracts.Sandbox) { x.Clock, x.Random = "fixed", "seeded" }),
	grants("", func(x *contracts.Sandbox) { x.Env = nil }),
	grants("", func(x *contracts.Sandbox) { x.Files = nil }),
	access("", "/in", "sha256:"+pin),
	access("", "/out", "read"),
	access("", "/out", "sha256:"+pin),
	grants("", func(x *contracts.Sandbox) { x.Gas, x.Memory, x.Output = 1, 1, 1 }),
}

// fieldsOf are those that Why may name, in the order in which they are judged.
var fieldsOf = []string{"args", "clock", "env", "files", "gas", "memory", "output", "random", "modules"}

// wantUnmet checks that a driver's sandbox does not meet a demand, in a field. It must meet all if
// the field is "".
func wantUnmet(t *testing.T, p *Policy, of *contracts.SandboxInfo, demand, field string) {
	t.Helper()
	r, why := p.Judge(called(t, of), nil)
	if field == "" {
		require.Equal(t, contracts.ReasonAllow, r.Reason, "%+v: %s", of.Grants, why)
		return
	}
	require.True(t, r.Reason == contracts.ReasonSandboxViolation && r.Condition == 1 && r.Verdict == contracts.Deny &&
		r.Rule == "" && r.Charges == nil, "%+v: %s at %d", of.Grants, r.Reason, r.Condition)
	says := map[string]string{"args": "its args are not those of the profile", "modules": "its module is not among modules"}[field]
	if says == "" {
		says = "its grant of " + field + " is more than the profile's"
	}
	require.Equal(t, "the driver does not meet the sandbox "+demand+": "+says, why.String())
}

// Each field alone, one step more than is demanded, is SANDBOX_VIOLATION, whether the tool or a
// floor demands it. One step less is none.
func TestSandboxEachField(t *testing.T) {
	t.Parallel()
	byTool := mustCompile(t, boxed(`"s":{`+demanded+modules("l", "m")+`}`, "s"))
	byFloor := mustCompile(t, boxed(``, ""), demanding("f", "s", demanded+modules("m")))
	seen := map[string]int{}
	for _, s := range steps {
		of := boundary()
		s.take(of)
		wantUnmet(t, byTool, of, "P1:b:s", s.field)
		wantUnmet(t, byFloor, of, "P0:f:s", s.field)
		seen[s.field]++
	}
	atLeast(t, seen, 1, fieldsOf)
	for _, pair := range [][2]string{{"clock", "clock"}, {"random", "random"}} { // what is granted may be had
		p := mustCompile(t, boxed(`"s":{"`+pair[0]+`":"real"}`, "s"))
		for _, word := range []string{"real", ""} {
			of := &contracts.SandboxInfo{Profile: "x", Meter: 1, Grants: &contracts.Sandbox{Clock: word}}
			if pair[0] == "random" {
				of.Grants = &contracts.Sandbox{Random: word}
			}
			wantUnmet(t, p, of, "", "")
		}
	}
	// Without args the driver's may be any, and with [] there are none.
	of := &contracts.SandboxInfo{Profile: "x", Meter: 1, Grants: &contracts.Sandbox{Args: []string{"a"}}}
	wantUnmet(t, mustCompile(t, boxed(`"s":{}`, "s")), of, "", "")
	wantUnmet(t, mustCompile(t, boxed(`"s":{"args":[]}`, "s")), of, "P1:b:s", "args")
}

// Of several fields that are not met Why names the first, and of several demands the first in stack
// order.
func TestSandboxFirstField(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, boxed(`"s":{`+demanded+modules("m")+`}`, "s"))
	pairs := 0
	for i, one := range steps {
		for _, other := range steps[i+1:] {
			if one.field == "" || other.field == "" || one.field == other.field {
				continue
			}
			of := boundary()
			other.take(of)
			one.take(of)
			wantUnmet(t, p, of, "P1:b:s", one.field)
			pairs++
		}
	}
	assert.Greater(t, pairs, 200)

	p = mustCompile(t, boxed(`"s":{"gas":5,"memory":"64KiB"}`, "s"), demanding("z", "w", `"gas":7,"clock":"real"`),
		demanding("a", "w", `"args":[],"gas":9,"output":"1KiB","random":"real"`))
	of := &contracts.SandboxInfo{Profile: "x", Meter: 1, Grants: &contracts.Sandbox{Args: []string{"a"}, Clock: "real",
		Random: "real"}}
	for _, c := range []struct {
		demand, field string
		mend          func(*contracts.Sandbox)
	}{
		{"P0:a:w", "args", func(x *contracts.Sandbox) { x.Args = nil }},
		{"P0:a:w", "clock", func(x *contracts.Sandbox) { x.Clock = "" }},
		{"P0:a:w", "gas", func(x *contracts.Sandbox) { x.Gas = 9 }},
		{"P0:a:w", "output", func(x *contracts.Sandbox) { x.Output = 1 }},
		{"P0:z:w", "gas", func(x *contracts.Sandbox) { x.Gas = 7 }},
		{"P0:z:w", "random", func(x *contracts.Sandbox) { x.Random = "" }},
		{"P1:b:s", "gas", func(x *contracts.Sandbox) { x.Gas = 5 }},
		{"P1:b:s", "memory", func(x *contracts.Sandbox) { x.Memory = 1 }},
	} {
		wantUnmet(t, p, of, c.demand, c.field)
		c.mend(of.Grants)
	}
	wantUnmet(t, p, of, "", "")
}

// A boxGenerator makes profiles and sandboxes that often differ in little.
type boxGenerator struct{ generator }

// grants are random ones, with zeros for some defaults. Most fields are the least.
func (g boxGenerator) grants() *contracts.Sandbox {
	x := &contracts.Sandbox{
		Args: pick(g.generator, nil, nil, []string{"a"}), Clock: pick(g.generator, "", "fixed", "fixed", "real"),
		Gas: pick[uint64](g.generator, 5, 6, 1e9, 0), Memory: pick[uint64](g.generator, 1, 2, 1024, 0),
		Output: pick[uint64](g.generator, 1<<10, 2<<10, 1<<20, 0), Random: pick(g.generator, "", "seeded", "seeded", "real"),
	}
	for _, name := range []string{"A", "B"} {
		if g.r.IntN(3) == 0 {
			x.Env = append(x.Env, name)
		}
	}
	for _, path := range []string{"/a", "/b"} {
		if g.r.IntN(3) == 0 {
			if x.Files == nil {
				x.Files = map[string]string{}
			}
			x.Files[path] = pick(g.generator, "read", "write", "sha256:"+pin, "sha256:"+strings.Repeat("a", 64))
		}
	}
	return x
}

// text is what a document says to grant x. Fields with their defaults are sometimes left out.
func (g boxGenerator) text(t testing.TB, d Demand) string {
	x := map[string]any{}
	set := func(key string, value any, isDefault bool) {
		if !isDefault || g.r.IntN(2) == 0 {
			x[key] = value
		}
	}
	full := d.Grants.Filled()
	set("clock", full.Clock, full.Clock == "fixed")
	set("random", full.Random, full.Random == "seeded")
	set("gas", full.Gas, full.Gas == 1e9)
	set("memory", fmt.Sprint(full.Memory*64, "KiB"), full.Memory == 1024)
	set("output", fmt.Sprint(full.Output>>10, "KiB"), full.Output == 1<<20)
	set("env", append([]string{}, full.Env...), len(full.Env) == 0)
	set("files", maps.Collect(maps.All(full.Files)), len(full.Files) == 0)
	if d.Args {
		x["args"] = append([]string{}, full.Args...)
	}
	if d.Modules != nil {
		var list []string
		for _, m := range d.Modules {
			list = append(list, m.String())
		}
		x["modules"] = list
	}
	text, err := json.Marshal(x)
	require.NoError(t, err)
	return strings.TrimSuffix(strings.TrimPrefix(string(text), "{"), "}")
}

func (g boxGenerator) modules() (list []contracts.Digest) {
	for _, name := range []string{"m", "n"} {
		if g.r.IntN(2) == 0 {
			list = append(list, crypto.Sum([]byte(name)))
		}
	}
	return list
}

// demand is a random one.
func (g boxGenerator) demand() Demand {
	switch g.r.IntN(12) {
	case 0:
		return Demand{Name: "reported"}
	case 1:
		return Demand{Name: "pure"}
	}
	d := Demand{Name: "s", Grants: *g.grants(), Modules: g.modules(), Args: g.r.IntN(3) == 0}
	if !d.Args {
		d.Grants.Args = nil
	}
	return d
}

// unmetOf is the first field of a demand that a sandbox does not meet, as docs/POLICY.md says it,
// written a second time: a level for each field, to be compared.
func unmetOf(d Demand, of *contracts.SandboxInfo) string {
	numbers := func(x contracts.Sandbox) []uint64 {
		list := []uint64{x.Gas, x.Memory, x.Output}
		for i, usual := range []uint64{1_000_000_000, 1024, 1_048_576} {
			if list[i] == 0 {
				list[i] = usual
			}
		}
		return list
	}
	a, b := numbers(*of.Grants), numbers(d.Grants)
	real := func(word string) bool { return word == "real" }
	files := true
	for path, access := range of.Grants.Files {
		levels := map[string]int{"": 0, "read": 2, "write": 3}
		have, isKept := levels[access]
		if !isKept {
			have = 1
		}
		may, isKept := levels[d.Grants.Files[path]]
		if !isKept {
			may = 1
		}
		files = files && have <= may && (have != 1 || may != 1 || access == d.Grants.Files[path])
	}
	env := !slices.ContainsFunc(of.Grants.Env, func(name string) bool { return !slices.Contains(d.Grants.Env, name) })
	met := map[string]bool{
		"args":  !d.Args || strings.Join(of.Grants.Args, " ") == strings.Join(d.Grants.Args, " "),
		"clock": !real(of.Grants.Clock) || real(d.Grants.Clock), "env": env, "files": files,
		"gas": a[0] <= b[0], "memory": a[1] <= b[1], "output": a[2] <= b[2],
		"random":  !real(of.Grants.Random) || real(d.Grants.Random),
		"modules": d.Modules == nil || slices.Contains(d.Modules, of.Module),
	}
	for _, field := range fieldsOf {
		if !met[field] {
			return field
		}
	}
	return ""
}

// Random demands of one to three documents are met by what is within all of them, and by nothing
// else. A tool of which no driver meets them is not callable; of any other the least driver does.
func TestSandboxDemands(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := boxGenerator{generator{rand.New(rand.NewPCG(131, 132))}}
	seen := map[string]int{}
	for range rounds(3000) {
		var demands []Demand
		var docs []string
		for _, name := range []string{"P0:f", "P0:g"}[:g.r.IntN(3)] {
			d := g.demand()
			d.Document = name
			demands = append(demands, d)
			docs = append(docs, demanding(name[3:], d.Name, g.text(t, d)))
		}
		last := g.demand()
		last.Document = "P1:b"
		sandboxes := `"s":{` + g.text(t, last) + `}`
		if last.Name != "s" {
			sandboxes = ``
		}
		docs = append(docs, boxed(sandboxes, last.Name))
		demands = append(demands, last)
		p := mustCompile(t, docs...)
		reported := 0
		for i, d := range p.Sandboxes("t") {
			want := demands[i]
			if want.Name == "reported" {
				reported++
			} else {
				want.Grants = want.Grants.Filled()
			}
			require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", d))
		}
		met := 0
		for range 12 {
			of := &contracts.SandboxInfo{Profile: pick(g.generator, "s", "pure", "any"), Meter: 1, Grants: g.grants(),
				Module: crypto.Sum([]byte(pick(g.generator, "m", "n", "o")))}
			if g.r.IntN(3) == 0 { // one of those demanded
				of.Grants = new(contracts.Sandbox)
				*of.Grants = demands[g.r.IntN(len(demands))].Grants.Clone()
			}
			kind := "met"
			switch i := slices.IndexFunc(demands, func(d Demand) bool { return d.Name == "reported" || unmetOf(d, of) != "" }); {
			case i < 0:
				wantUnmet(t, p, of, "", "")
				met++
			case demands[i].Name == "reported":
				kind = "reported"
				r, why := p.Judge(called(t, of), nil)
				require.Equal(t, contracts.ReasonSandboxViolation, r.Reason)
				contains(t, why.String(), demands[i].Document+":reported")
			default:
				kind = unmetOf(demands[i], of)
				wantUnmet(t, p, of, demands[i].Document+":"+demands[i].Name, kind)
			}
			seen[kind]++
		}
		r, why := p.Judge(called(t, &contracts.SandboxInfo{Profile: "reported"}), nil)
		require.Equal(t, reported == len(demands), bool(r.Verdict), "%s", why)
		r, _ = p.Judge(called(t, nil), nil)
		require.Equal(t, contracts.ReasonSandboxViolation, r.Reason)

		callable := len(p.Callable(contracts.Caller{ID: "ann"})) == 1
		least := &contracts.SandboxInfo{Profile: "least", Meter: 1, Grants: &contracts.Sandbox{Gas: 1, Memory: 1, Output: 1}}
		possible := reported == len(demands)
		for _, d := range demands {
			if d.Args {
				least.Grants.Args = d.Grants.Args
			}
		}
		for _, m := range []string{"m", "n", "o"} {
			least.Module = crypto.Sum([]byte(m))
			r, _ := p.Judge(called(t, least), nil)
			possible = possible || bool(r.Verdict)
		}
		require.Equal(t, possible, callable, "%+v", demands)
		require.False(t, met > 0 && !callable, "%+v", demands)
		seen[fmt.Sprint("callable ", callable)]++
	}
	t.Log(seen)
	atLeast(t, seen, rounds(100), append(fieldsOf, "met", "reported", "callable true", "callable false"))
}

// Demands that are met are judged without allocation, as calls without demands are.
func TestSandboxAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("a pool forgets under the race detector: this runs without it")
	}
	p := mustCompile(t, boxed(`"s":{`+demanded+modules("l", "m")+`}`, "s"), demanding("f", "s", demanded+modules("m")))
	in := called(t, boundary())
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if r, _ := p.Judge(in, nil); r.Reason != contracts.ReasonAllow {
			t.Fatal(r.Reason)
		}
	}))
}
