package contracts

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

const tree = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// fullSandbox returns a declaration with every field.
func fullSandbox() *SandboxInfo {
	return &SandboxInfo{Profile: "wasi", Module: digest("module"), Meter: 1, Grants: &Sandbox{
		Args: []string{"-v", "a\"b", "-v"}, Clock: "real", Env: []string{"HOME", "LANG"},
		Files: map[string]string{"/data": tree, "/tmp/in": "read", "/tmp/out": "write", "/\uffee": "read", "/\U0001f600": "read"},
		Gas:   5, Memory: 6, Output: 7, Random: "real"}}
}

// grantsOf returns the member grants of inputs whose driver declares them.
func grantsOf(t *testing.T, info *SandboxInfo) string {
	t.Helper()
	in := &Inputs{ArgsForm: "raw", ArgsHash: digest("x"), Session: "main", Tool: "t", Sandbox: info}
	b := in.Append(nil)
	want, err := jcs.Transform(b)
	require.NoError(t, err)
	require.Equal(t, string(want), string(b), "not canonical")
	v := value(t, string(b)).Get("sandbox").Get("grants")
	assert.Equal(t, crypto.Sum(v.Append(nil)), *info.GrantsHash())
	return string(v.Append(nil))
}

// All fields of grants are recorded, defaults filled in, and the digest in receipts is that of the
// same bytes, whether they are encoded with the record or once before.
func TestGrantsForm(t *testing.T) {
	t.Parallel()
	pure := &SandboxInfo{Profile: ProfilePure, Meter: 1, Grants: new(Sandbox)}
	const want = `{"args":[],"clock":"fixed","env":[],"files":{},"gas":1000000000,"memory":1024,"meter":1,` +
		`"output":1048576,"random":"seeded"}`
	full := fullSandbox()
	for text, info := range map[string]*SandboxInfo{
		want: pure,
		`{"args":["-v","a\"b","-v"],"clock":"real","env":["HOME","LANG"],"files":{"/data":"` + tree +
			"\",\"/tmp/in\":\"read\",\"/tmp/out\":\"write\",\"/\U0001f600\":\"read\",\"/\uffee\":\"read\"}," +
			`"gas":5,"memory":6,"meter":1,"output":7,"random":"real"}`: full,
	} {
		require.NoError(t, info.Check())
		assert.Equal(t, text, grantsOf(t, info))
		frozen := info.Frozen()
		assert.Equal(t, text, grantsOf(t, &frozen))
		frozen.Grants.Gas++ // which nobody does: the form is not made again
		assert.Equal(t, text, grantsOf(t, &frozen))
	}
	in, err := ParseInputs((&Inputs{ArgsForm: "raw", ArgsHash: digest("x"), Session: "main", Tool: "t",
		Sandbox: full}).Append(nil))
	require.NoError(t, err)
	assert.Equal(t, full, in.Sandbox)
	reported := &SandboxInfo{Profile: ProfileReported}
	require.NoError(t, reported.Check())
	assert.Nil(t, reported.GrantsHash())
}

// What was frozen shares no memory with what it was made from, and nor has a clone.
func TestFrozenIsACopy(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string]func(SandboxInfo) SandboxInfo{
		"clone": SandboxInfo.Clone, "frozen": SandboxInfo.Frozen,
		"a clone of what is frozen": func(i SandboxInfo) SandboxInfo { return i.Frozen().Clone() },
	} {
		from := fullSandbox()
		to := copied(*from)
		before := grantsOf(t, &to)
		from.Grants.Args[0], from.Grants.Env[0], from.Grants.Files["/data"], from.Grants.Gas = "x", "X", "write", 9
		assert.Equal(t, before, grantsOf(t, &to), name)
		assert.Equal(t, fullSandbox().Grants, to.Grants, name)
		*from = to.Clone()
		from.Grants.Gas = 9
		assert.Contains(t, grantsOf(t, from), `"gas":9`, "%s: a clone may be changed", name)
	}
}

// Each field is taken up to its limit and refused one step beyond it, by writers and by readers.
func TestSandboxLimits(t *testing.T) {
	t.Parallel()
	files := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("/", i)] = "read"
		}
		return all
	}
	at := func(path, access string) Sandbox { return Sandbox{Files: map[string]string{path: access}} }
	long := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("E%03d%s", i, strings.Repeat("E", 124)))
		}
		return all
	}
	for name, c := range map[string]struct {
		good  Sandbox
		bad   []Sandbox
		field string
	}{
		"args": {Sandbox{Args: slices.Repeat([]string{"v"}, 16)}, []Sandbox{{Args: slices.Repeat([]string{"v"}, 17)},
			{Args: []string{strings.Repeat("v", 257)}}, {Args: []string{""}}, {Args: []string{"a\x00"}}, {Args: []string{"\xff"}}}, "args"},
		"arg":    {Sandbox{Args: []string{strings.Repeat("v", 256)}}, nil, ""},
		"clock":  {Sandbox{Clock: "fixed"}, []Sandbox{{Clock: "slow"}, {Clock: "Real"}, {Clock: " "}}, "clock"},
		"random": {Sandbox{Random: "seeded"}, []Sandbox{{Random: "fixed"}, {Random: "REAL"}}, "random"},
		"env": {Sandbox{Env: []string{"_", "a0_"}}, []Sandbox{{Env: []string{"B", "A"}}, {Env: []string{"A", "A"}},
			{Env: []string{"1A"}}, {Env: []string{"A-B"}}, {Env: []string{""}}, {Env: []string{"A="}},
			{Env: []string{"E" + strings.Repeat("E", 128)}}}, "env"},
		"env name": {Sandbox{Env: []string{strings.Repeat("E", 128)}}, nil, ""},
		"gas":      {Sandbox{Gas: 1e12}, []Sandbox{{Gas: 1e12 + 1}, {Gas: crypto.MaxInt}}, "gas"},
		"one gas":  {Sandbox{Gas: 1, Memory: 1, Output: 1}, nil, ""},
		"memory":   {Sandbox{Memory: 16384}, []Sandbox{{Memory: 16385}}, "memory"},
		"output":   {Sandbox{Output: 16 << 20}, []Sandbox{{Output: 16<<20 + 1}}, "output"},
		"files": {Sandbox{Files: files(16)}, []Sandbox{{Files: files(17)}, at("data", "read"), at("/a/../b", "read"),
			at("/a/", "read"), at("/a//b", "read"), at("/.", "read"), at("", "read"), at("/a\n", "read"),
			at("/"+strings.Repeat("a", 128), "read"), at("/a", "execute"), at("/a", "sha256:0"), at("/a", ""),
			at("/a", strings.ToUpper(tree)),
			{Files: map[string]string{"/a": "read", "/a/b": "read"}}, {Files: map[string]string{"/": "read", "/a": "read"}},
			{Files: map[string]string{"/a": "read", "/a!": "read", "/a/b/c": "write"}}}, "files"},
		"siblings": {Sandbox{Files: map[string]string{"/a": "read", "/ab": "read", "/b/a": tree}}, nil, ""},
		"the root": {at("/", "write"), nil, ""},
		"together": {Sandbox{Env: long(61)}, []Sandbox{{Env: long(62)}}, ""},
	} {
		take := func(s Sandbox) error {
			in := &Inputs{ArgsForm: "raw", ArgsHash: digest("x"), Session: "main", Tool: "t",
				Sandbox: &SandboxInfo{Profile: "p", Meter: 1, Grants: &s}}
			_, err := ParseInputs(in.Append(nil))
			return err
		}
		require.NoError(t, c.good.Check(), name)
		require.NoError(t, take(c.good), name)
		for _, bad := range c.bad {
			var wrong *FormatError
			require.ErrorAs(t, bad.Check(), &wrong, "%s: %+v", name, bad)
			assert.True(t, strings.HasPrefix(wrong.Field, c.field), "%s: %v", name, wrong)
			if strings.Contains(fmt.Sprintf("%q", bad), `\xff`) { // which cannot be written
				continue
			}
			require.ErrorAs(t, take(bad), &wrong, "%s: %+v", name, bad)
			assert.True(t, strings.HasPrefix(wrong.Field, "inputs.sandbox.grants"), "%s: %v", name, wrong)
		}
	}
	for name, info := range map[string]SandboxInfo{
		"no profile":             {Meter: 1, Grants: new(Sandbox)},
		"a long profile":         {Profile: strings.Repeat("p", 129), Meter: 1, Grants: new(Sandbox)},
		"no meter":               {Profile: "p", Grants: new(Sandbox)},
		"no grants":              {Profile: "p", Meter: 1},
		"grants of a report":     {Profile: ProfileReported, Meter: 1, Grants: new(Sandbox)},
		"grants out of a record": {Profile: "p", Meter: 1, Grants: &Sandbox{Gas: 1e13}},
	} {
		assert.Error(t, info.Check(), name)
		in := &Inputs{ArgsForm: "raw", ArgsHash: digest("x"), Session: "main", Tool: "t", Sandbox: &info}
		_, err := ParseInputs(in.Append(nil))
		assert.Error(t, err, name)
	}
}

// steps are one step up in each field, from each value that the field has in random profiles.
var steps = []struct {
	field string
	up    func(*Sandbox) bool // reports whether there is a step
}{
	{"clock", func(s *Sandbox) bool { was := s.Clock; s.Clock = "real"; return was != "real" }},
	{"env", func(s *Sandbox) bool { s.Env = append(slices.Clone(s.Env), "Z"); return true }},
	{"files", func(s *Sandbox) bool {
		for at, access := range s.Files {
			if access != "write" {
				*s = s.Clone()
				s.Files[at] = map[string]string{"read": "write"}[access]
				if s.Files[at] == "" {
					s.Files[at] = "read"
				}
				return true
			}
		}
		return false
	}},
	{"files", func(s *Sandbox) bool {
		*s = s.Clone()
		if s.Files == nil {
			s.Files = map[string]string{}
		}
		s.Files["/zz"] = tree
		return true
	}},
	{"gas", func(s *Sandbox) bool { s.Gas = s.Filled().Gas + 1; return true }},
	{"memory", func(s *Sandbox) bool { s.Memory = s.Filled().Memory + 1; return true }},
	{"output", func(s *Sandbox) bool { s.Output = s.Filled().Output + 1; return true }},
	{"random", func(s *Sandbox) bool { was := s.Random; s.Random = "real"; return was != "real" }},
}

func randomSandbox(r *rand.Rand) Sandbox {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	number := func(of ...uint64) uint64 { return of[r.IntN(len(of))] }
	s := Sandbox{Clock: pick("", "fixed", "real"), Random: pick("", "seeded", "real"), Gas: number(0, 1e9, 1e9+1, 5),
		Memory: number(0, 1024, 7), Output: number(0, 1<<20, 8)}
	for _, e := range []string{"A", "B"} {
		if r.IntN(3) == 0 {
			s.Env = append(s.Env, e)
		}
	}
	for _, at := range []string{"/a", "/b"} {
		if r.IntN(2) == 0 {
			if s.Files == nil {
				s.Files = map[string]string{}
			}
			s.Files[at] = pick("read", "write", tree, "sha256:"+strings.Repeat("0", 64))
		}
	}
	if r.IntN(2) == 0 {
		s.Args = []string{pick("x", "y")}
	}
	return s
}

// Within is a partial order, arguments apart: reflexive, transitive and antisymmetric, over random
// profiles some of which leave their defaults out. Its bottom is the empty profile with the least
// numbers.
func TestWithinIsAPartialOrder(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(1, 2))
	canonical := func(s Sandbox) string {
		s.Args = nil
		return string((&SandboxInfo{Meter: 1, Grants: &s}).appendGrants(nil))
	}
	bottom := Sandbox{Gas: 1, Memory: 1, Output: 1}
	var both, chains, apart int
	for range 200_000 {
		a, b, c := randomSandbox(r), randomSandbox(r), randomSandbox(r)
		require.True(t, a.Within(a) && a.Filled().Within(a) && a.Within(a.Filled()), "%+v", a)
		require.True(t, bottom.Within(a), "%+v", a)
		ab, ba := a.Within(b), b.Within(a)
		if ab && ba {
			both++
			require.Equal(t, canonical(a), canonical(b))
		}
		if !ab && !ba {
			apart++
		}
		if ab && b.Within(c) {
			chains++
			require.True(t, a.Within(c), "%+v\n%+v\n%+v", a, b, c)
		}
	}
	require.True(t, both > 100 && chains > 100 && apart > 100, "%d equal, %d chains, %d apart", both, chains, apart)
}

// One step more in one field is beyond a profile, and the first such field is named.
func TestBeyondNamesTheField(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	taken := map[string]int{}
	for range 2_000 {
		b := randomSandbox(r)
		for i, step := range steps {
			a := b.Clone()
			if !step.up(&a) {
				continue
			}
			taken[step.field]++
			require.Equal(t, step.field, a.Beyond(b), "%+v beyond %+v", a, b)
			require.True(t, !a.Within(b) && b.Within(a), "%+v beyond %+v", a, b)
			for _, later := range steps[i+1:] {
				more := a.Clone()
				later.up(&more)
				require.Equal(t, step.field, more.Beyond(b))
			}
		}
	}
	require.Len(t, taken, 7)
	for tree2, c := range map[string]struct {
		a, b string
		ok   bool
	}{
		"another tree": {tree, "sha256:" + strings.Repeat("0", 64), false}, "a tree and read": {tree, "read", true},
		"a tree and write": {tree, "write", true}, "read and write": {"read", "write", true},
		"read and a tree": {"read", tree, false}, "write and read": {"write", "read", false},
		"write and a tree": {"write", tree, false},
	} {
		a, b := Sandbox{Files: map[string]string{"/a": c.a}}, Sandbox{Files: map[string]string{"/a": c.b}}
		assert.Equal(t, c.ok, a.Within(b), tree2)
	}
}

// A run is a function of module, arguments and decision unless the profile lets in something else.
func TestClosed(t *testing.T) {
	t.Parallel()
	for _, s := range []Sandbox{{}, {Clock: "fixed", Random: "seeded"}, {Args: []string{"a"}, Gas: 1e12, Memory: 2, Output: 3},
		{Files: map[string]string{"/a": tree}}} {
		assert.True(t, s.Closed(), "%+v", s)
	}
	for _, s := range []Sandbox{{Clock: "real"}, {Random: "real"}, {Env: []string{"A"}}, {Files: map[string]string{"/a": "read"}},
		{Files: map[string]string{"/a": tree, "/b": "write"}}} {
		assert.False(t, s.Closed(), "%+v", s)
	}
}

// The grants of a receipt are there unless the tool ran elsewhere, and wherever a limit of theirs
// ended the run.
func TestReceiptGrants(t *testing.T) {
	t.Parallel()
	grants := digest("grants")
	for _, reason := range []ReasonCode{ReasonToolError, ReasonToolPanic, ReasonGasExhausted, ReasonTimeExhausted,
		ReasonMemoryExhausted, ReasonOutputExhausted, ReasonToolTimeout} {
		exhausts := reason == ReasonGasExhausted || reason == ReasonTimeExhausted || reason == ReasonMemoryExhausted
		for name, c := range map[string]struct {
			use *SandboxUse
			ok  bool
		}{
			"none":               {nil, !exhausts},
			"granted":            {&SandboxUse{Profile: "p", Grants: &grants}, true},
			"without grants":     {&SandboxUse{Profile: "p"}, false},
			"reported":           {&SandboxUse{Profile: ProfileReported}, !exhausts},
			"grants of a report": {&SandboxUse{Profile: ProfileReported, Grants: &grants}, false},
		} {
			r := &Receipt{EffectType: Read, Tool: "t", Reason: reason, Sandbox: c.use, DecisionHash: digest("prev")}
			r.Outcome, r.Verdict = reason.Ending()
			effect := r.Effect()
			r.EffectHash = effect.Hash()
			assert.Equal(t, c.ok, r.Check() == nil, "%s %s", reason, name)
			st := &Statement{Header: Header{Key: digest("key"), Prev: digest("prev"), Lamport: 1, Seq: 1,
				Session: "s", Time: 5}, Receipt: r}
			_, err := reopen(t, st.Append(nil))
			assert.True(t, (err == nil) == c.ok && (c.ok || isFault(err, Record, "predicate.sandbox")), "%s %s: %v",
				reason, name, err)
		}
	}
}
