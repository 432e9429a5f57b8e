package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/table"
)

// A difference is two stacks, as of a smell, and the changes from one to the other.
type difference struct {
	Bundle, Floor           string
	OtherBundle, OtherFloor string
	Changes                 []string
}

// TestDiff: what each change is called, and whether it widens.
func TestDiff(t *testing.T) {
	t.Parallel()
	for _, x := range table.Read[difference](t, "diff", 43) {
		var got []string
		from, to := compiled(t, x.Bundle, x.Floor), compiled(t, x.OtherBundle, x.OtherFloor)
		for _, c := range Diff(from, to) {
			got = append(got, c.Kind+" "+c.Name+" "+c.What+" "+c.Pointer+" "+c.Widens)
			assert.Positive(t, c.Line)
			assert.Contains(t, []string{"b.yaml", "f.yaml"}, c.Document)
			assert.True(t, strings.HasSuffix(c.String(), c.Kind+" "+c.Name+" "+c.What+"; widens: "+c.Widens), c)
		}
		assert.Equal(t, x.Changes, got, "%s%s\nto\n%s%s", x.Bundle, x.Floor, x.OtherBundle, x.OtherFloor)
		assert.Empty(t, Diff(from, from))
		symmetric(t, from, to)
	}
	assert.Empty(t, Diff(nil, nil))
}

// symmetric checks that what was added one way was removed the other way.
func symmetric(t *testing.T, from, to *guardian.Policy) {
	t.Helper()
	of := func(list []Change, what string) (names []string) {
		for _, c := range list {
			if c.What == what {
				names = append(names, c.Kind+" "+c.Name+" "+c.Pointer[:strings.LastIndexByte(c.Pointer, '/')])
			}
		}
		return names
	}
	there, back := Diff(from, to), Diff(to, from)
	assert.ElementsMatch(t, of(there, added), of(back, removed))
	assert.ElementsMatch(t, of(there, removed), of(back, added))
}

// A pool is what random documents are made of.
type pool struct{ *rand.Rand }

func (r pool) of(s ...string) string { return s[r.IntN(len(s))] }

func (r pool) condition(depth int) string {
	if depth > 0 {
		switch r.IntN(6) {
		case 0:
			return `{"all":[` + r.condition(depth-1) + `,` + r.condition(depth-1) + `]}`
		case 1:
			return `{"any":[` + r.condition(depth-1) + `,` + r.condition(depth-1) + `]}`
		case 2:
			return `{"not":` + r.condition(depth-1) + `}`
		}
	}
	return r.of(
		`{"arg":"/p","within":["/a"]}`, `{"arg":"/p","within":["/a/b"]}`, `{"arg":"/p","within":["/a","/c"]}`,
		`{"arg":"/n","lt":`+strconv.Itoa(r.IntN(10))+`}`, `{"arg":"/n","ge":`+strconv.Itoa(r.IntN(10))+`}`,
		`{"arg":"/n","eq":3}`, `{"arg":"/n","in":[1,2,3]}`,
		`{"arg":"/s","eq":"x","absent":false}`, `{"arg":"/s","in":["x","w"],"absent":false}`,
		`{"arg":"/s","in":{"list":"l"},"absent":true}`, `{"arg":"/s","prefix":"x","absent":false}`,
		`{"arg":"/s","prefix":"xx","absent":true}`, `{"arg":"/u","eq":"x"}`, `{"arg":"/u","ne":4}`,
		`{"caller":"roles","has":"clerk"}`, `{"caller":"roles","has":"boss"}`,
		`{"caller":"id","eq":"ann","absent":false}`, `{"caller":"id","in":["ann","bob"],"absent":false}`,
		`{"session":"calls","lt":3}`, `{"receipt":"look","max_age":"5m"}`, `{"receipt":"look","max_age":"1h"}`,
	)
}

func (r pool) tests() string {
	return r.of("", `,"when":`+r.condition(2), `,"when":`+r.condition(1), `,"unless":`+r.condition(1),
		`,"when":`+r.condition(1)+`,"unless":`+r.condition(0))
}

// A draft is what random changes are made to.
type draft struct {
	list, scope, rules, requires, budgets   []string
	floorRules, floorRequires, floorBudgets []string
	floor                                   map[string]string
	limits                                  string
}

var nextID int

func (r pool) id() string {
	nextID++
	return `"id":"r` + strconv.Itoa(nextID) + `",`
}

func (r pool) rule(layer string) string {
	if layer == "P1" && r.IntN(5) < 3 {
		return `{` + r.id() + `"allow":` + r.of(`"pay"`, `["pay","look"]`, `"look"`) + r.tests() + `}`
	}
	return `{` + r.id() + `"deny":` + r.of(`"pay"`, `"*"`, `["look","pay"]`) + r.tests() + `}`
}

func (r pool) need() string {
	return r.of(`{"receipt":"look","max_age":"5m"}`, `{"receipt":"look","max_age":"1h"}`, `{"receipt":"look"}`,
		`{"approval":{"roles":["boss"]}}`, `{"approval":{"roles":["boss","owner"],"quorum":2}}`)
}

func (r pool) requirement() string {
	return `{` + r.id() + `"tools":"pay",` + r.of(`"all":[`+r.need()+`]`, `"any":[`+r.need()+`,`+r.need()+`]`,
		`"all":[`+r.need()+`,`+r.need()+`]`) + r.tests() + `}`
}

func (r pool) budget() string {
	return `{` + r.id() + `"tools":` + r.of(`"pay"`, `"*"`) + `,"limit":` + strconv.Itoa(r.IntN(6)) + `,"per":` +
		r.of(`"all"`, `"caller"`) + `,"window":` + r.of(`"day"`, `"total"`) + `,"cost":` + r.of("1", "2") + r.tests() + `}`
}

// fresh returns a draft that allows some calls.
func (r pool) fresh() draft {
	d := draft{scope: []string{`{"arg":"/p","within":["/a","/c"]}`}}
	for range 1 + r.IntN(4) {
		d.rules = append(d.rules, r.rule("P1"))
	}
	d.rules = append(d.rules, `{"id":"look","allow":"look","when":{"caller":"roles","has":"clerk"}}`,
		`{"id":"pay","allow":"pay","when":{"arg":"/n","lt":9}}`)
	return d
}

// change makes one random change.
func (r pool) change(d *draft) {
	lists := []struct {
		of   *[]string
		make func() string
	}{
		{&d.rules, func() string { return r.rule("P1") }}, {&d.rules, func() string { return r.rule("P1") }},
		{&d.requires, r.requirement}, {&d.budgets, r.budget},
		{&d.floorRules, func() string { return r.rule("P0") }}, {&d.floorRequires, r.requirement},
		{&d.floorBudgets, r.budget},
		{&d.list, func() string { return r.of(`"x"`, `"y"`, `"w"`, `"z"`) }},
		{&d.scope, func() string { return `{"arg":"/p","within":` + r.of(`["/a"]`, `["/a/b"]`, `["/a","/c"]`) + `}` }},
	}
	x := lists[r.IntN(len(lists))]
	list := slices.Clone(*x.of)
	switch n := len(list); {
	case n == 0 || r.IntN(4) == 0:
		list = slices.Insert(list, r.IntN(n+1), x.make())
	case r.IntN(3) == 0:
		list = slices.Delete(list, r.IntN(n), n)
	case r.IntN(3) == 0:
		i, j := r.IntN(n), r.IntN(n)
		list[i], list[j] = list[j], list[i]
	case strings.HasPrefix(list[0], `{"id"`): // the same id, another content
		i := r.IntN(n)
		id, _, _ := strings.Cut(list[i], ",")
		_, rest, _ := strings.Cut(x.make(), ",")
		if old := list[i]; r.IntN(2) == 0 { // or a part of it
			rest = strings.Replace(strings.TrimPrefix(old, id+","), r.of(`"clerk"`, `"/a"`, `5`, `"x"`, `"pay"`),
				r.of(`"boss"`, `"/a/b"`, `4`, `"xx"`, `"*"`), 1)
		}
		list[i] = id + "," + rest
	default:
		list[r.IntN(n)] = x.make()
	}
	*x.of = list
	if r.IntN(6) == 0 {
		d.limits = r.of("", `,"limits":{"args":"1KiB"}`, `,"limits":{"args":"64KiB"}`, `,"limits":{"args":"1MiB"}`)
	}
	if r.IntN(4) == 0 {
		key := r.of("profile", "ceilings", "only", "threat", "expires")
		d.floor = map[string]string{key: r.of(map[string][]string{
			"profile":  {`{"effects":["read"]}`, `{"effects":["read","write"]}`, `{"connectors":["b"]}`, `{}`},
			"ceilings": {`{"risk":"low"}`, `{"calls":2}`, `{"calls":5}`, `{"args":"1KiB"}`, `{"depth":3}`},
			"only":     {`["look"]`, `["pay"]`, `"*"`},
			"threat":   {`{"deny":"high"}`, `{"deny":"low"}`, `{"deny":"none"}`},
			"expires":  {`"2026-01-01T00:00:00Z"`, `"2027-01-01T00:00:00Z"`},
		}[key]...)}
	}
}

func (d *draft) compile() (*guardian.Policy, error) {
	join := func(key string, list []string) string {
		if len(list) == 0 {
			return ""
		}
		return `,"` + key + `":[` + strings.Join(list, ",") + `]`
	}
	members := slices.Compact(slices.Sorted(slices.Values(append([]string{`"q"`}, d.list...))))
	bundle := `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"lists":{"l":[` +
		strings.Join(members, ",") + `]},"tools":{"look":{"effect":"read","input":` + input + `},"pay":{"effect":"write",` +
		`"input":` + input + join("scope", d.scope) + d.limits + `}},"rules":[` + strings.Join(d.rules, ",") + `]` +
		join("requires", d.requires) + join("budgets", d.budgets) + `}`
	floor := `{"helm":"policy/v1","layer":"P0","name":"f","version":1,"lists":{"l":["x","w"]}` +
		join("rules", d.floorRules) + join("requires", d.floorRequires) + join("budgets", d.floorBudgets)
	for key, v := range d.floor {
		floor += `,"` + key + `":` + v
	}
	var docs []contracts.Document
	for _, text := range []string{bundle, floor + `}`} {
		doc, err := Parse("d.json", []byte(text))
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return guardian.Compile(docs...)
}

const input = `{"type":"object","required":["p","n","u"],"properties":{"p":{"type":"string"},"n":{"type":"number"},` +
	`"s":{"type":"string"},"u":{"type":["string","number"]}}}`

// A history is the past of random calls.
type history struct {
	past.Past
	spent, calls uint64
	receipt      contracts.PriorReceipt
}

func (h *history) Spent(contracts.Charge) uint64 { return h.spent }
func (h *history) Calls(string) uint64           { return h.calls }
func (h *history) Receipt(tool string, same crypto.Value) (contracts.PriorReceipt, error) {
	r := h.receipt
	r.Tool = tool
	return r, nil
}
func (h *history) Used(contracts.Digest, *contracts.ApprovalRequest) bool { return false }

const present = contracts.Time(1_790_000_000_000)

// call returns a random call, and what was before it.
func (r pool) call(t testing.TB) (contracts.Inputs, *history) {
	text := fmt.Sprintf(`{"n":%d,"p":%q`, r.IntN(12), r.of("/a", "/a/b", "/a/b/c", "/c", "/d", "a", "/a/../c"))
	text += r.of("", `,"s":`+r.of(`"x"`, `"xx"`, `"y"`, `"w"`, `"`+strings.Repeat("x", 2000)+`"`)) + `,"u":` +
		r.of(`"x"`, `"y"`, "4") + `}`
	var tree crypto.Tree
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 8}))
	in := contracts.Inputs{
		Tool: r.of("pay", "pay", "look"), Args: tree.Root(), ArgsHash: crypto.Sum(tree.Root().Append(nil)), Drivers: 1,
		Session: r.of("main", "s", "s", "s"), Time: present,
		Caller: contracts.Caller{ID: r.of("", "ann", "bob"), Roles: slices.Compact([]string{r.of("boss", "clerk"), "clerk"})},
	}
	h := &history{spent: uint64(r.IntN(6)), calls: uint64(r.IntN(6))}
	if entry := crypto.Sum([]byte(text)); r.IntN(3) > 0 {
		h.receipt = contracts.PriorReceipt{Entry: &entry, Time: present - contracts.Time(r.IntN(20)*60_000)}
	}
	return in, h
}

func allowed(p *guardian.Policy, in contracts.Inputs, h *history) bool {
	r, _, _ := p.Decide(&in, nil, h)
	return r.Verdict == contracts.Allow
}

func texts(p *guardian.Policy) string {
	var b strings.Builder
	for _, d := range p.Documents() {
		b.WriteString(string(d.Canonical) + "\n")
	}
	return b.String()
}

// TestDiffWidens: if no change widens, no call is allowed that was not.
func TestDiffWidens(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	calls := 100_000
	if testing.Short() {
		calls = 10_000
	}
	r := pool{rand.New(rand.NewPCG(14, 7))}
	narrow, wide, told, kept := 0, 0, 0, 0
	widened := map[string]int{}
	var d draft
	var from *guardian.Policy
	for made := 0; made < calls; {
		if r.IntN(12) == 0 || from == nil {
			d = r.fresh()
			from, _ = d.compile()
		}
		next := d
		for range 1 + r.IntN(2) {
			r.change(&next)
		}
		if len(next.rules) > 12 {
			next.rules = next.rules[:6]
		}
		old := from
		to, err := next.compile()
		if err != nil || old == nil {
			continue
		}
		d, from = next, to
		changes := Diff(old, to)
		symmetric(t, old, to)
		no := !slices.ContainsFunc(changes, func(c Change) bool { return c.Widens != "no" })
		yes := slices.ContainsFunc(changes, func(c Change) bool { return c.Widens == "yes" })
		newly := false
		for range 100 {
			in, h := r.call(t)
			made++
			if was, is := allowed(old, in, h), allowed(to, in, h); is && !was {
				newly = true
				if no {
					t.Fatalf("%s %s of %v in %s is newly allowed by\n%v\n%s\nto\n%s", in.Tool, in.Args.Append(nil), in.Caller,
						in.Session, changes, texts(old), texts(to))
				}
			} else if is && was {
				kept++
			}
		}
		switch {
		case no && len(changes) > 0:
			narrow++
		case newly && yes:
			wide++
			told++
		case newly:
			wide++
		}
		for _, c := range changes {
			widened[c.Kind+" "+c.What+" "+c.Widens]++
		}
	}
	t.Logf("%d stacks with changes that do not widen; %d that allow more, %d of them with a yes; %d calls allowed by both",
		narrow, wide, told, kept)
	t.Log(widened)
	assert.True(t, narrow > calls/1000 && wide > calls/4000 && kept > calls/50, "too little was compared")
}

func BenchmarkDiff(b *testing.B) {
	var p [2]*guardian.Policy
	for i := range p {
		doc, err := Parse("b.yaml", []byte(bundleHead+strings.Replace(large(100, 1000), "lt: 999}", "lt: "+
			strconv.Itoa(i)+"}", 1)))
		require.NoError(b, err)
		p[i], err = guardian.Compile(doc)
		require.NoError(b, err)
	}
	for b.Loop() {
		if len(Diff(p[0], p[1])) != 1 {
			b.Fatal("one rule was changed")
		}
	}
}
