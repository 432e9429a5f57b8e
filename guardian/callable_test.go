package guardian

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

func names(tools []Tool) (list []string) {
	for _, x := range tools {
		list = append(list, x.Name)
	}
	return list
}

// What is left out, and what is not, since another may lend rights to a caller with an id.
func TestCallable(t *testing.T) {
	t.Parallel()
	tools := `"mail":{"effect":"write","connector":"post","risk":"high","input":{"type":"object","properties":{"to":{"type":"string"}}}},` +
		`"wipe":{"effect":"destructive","input":{"type":"object","properties":{}}},` + toolText(
		"read",
		`"p":{"type":"string"}`,
		"p",
	)
	with := func(rules string) string { return bundle("b", tools, rules) }
	all := with(`{"id":"all","allow":["mail","read","wipe"]}`)
	when := func(rest string) string {
		return with(`{"id":"a","allow":"read"},{"id":"b","allow":["mail","wipe"],"when":` + rest + `}`)
	}
	anonymous := contracts.Caller{}
	clerk := contracts.Caller{Roles: []string{"clerk"}}
	acme := contracts.Caller{Tenant: "acme"}
	ann := contracts.Caller{ID: "ann", Tenant: "acme", Roles: []string{"clerk"}}
	bob := contracts.Caller{ID: "bob", Tenant: "other"}
	const none, some, every = "", "read", "mail read wipe"
	const has, arg, err = `{"caller":"roles","has":"clerk"}`, `{"arg":"/to","eq":"x","absent":false}`,
		`{"session":"calls","lt":1}`
	is := func(word, name, absent string) string {
		return `{"caller":"` + word + `","eq":"` + name + `","absent":` + absent + `}`
	}
	deny := func(sel, rest string) string { return `,"rules":[{"id":"x","deny":` + sel + rest + `}]` }
	mailed := func(rest string) string {
		return with(`{"id":"a","allow":"read"},{"id":"b","allow":"mail","when":` + rest + `}`)
	}
	for _, c := range []struct {
		name   string
		docs   []string
		caller contracts.Caller
		want   string
	}{
		{"no rule", []string{with(``)}, ann, none},
		{"rules without condition", []string{all}, anonymous, every},
		{"a tool that no rule names", []string{with(`{"id":"a","allow":"read"}`)}, ann, some},
		{"a deny before", []string{with(`{"id":"a","allow":"read"},{"id":"b","deny":"mail"}`)}, ann, some},
		{"a deny under a condition of the call", []string{mailed(arg)}, anonymous, "mail read"},
		{"a role, not had", []string{when(has)}, anonymous, some},
		{"a role, had", []string{when(has)}, clerk, every},
		{"a role that a grant may lend", []string{when(has)}, bob, every},
		{"without the role", []string{when(`{"not":` + has + `}`)}, clerk, some},
		{"without the role, and with another's", []string{when(`{"not":` + has + `}`)}, ann, every},
		{"an id", []string{when(is("id", "ann", "false"))}, anonymous, some},
		{"an id that may be missing", []string{when(is("id", "ann", "true"))}, anonymous, every},
		{"the id of who may lend", []string{when(is("id", "ann", "false"))}, bob, every},
		{"a tenant", []string{when(is("tenant", "acme", "false"))}, acme, every},
		{"a tenant, not had", []string{when(is("tenant", "acme", "false"))}, anonymous, some},
		{"another's tenant, which no grant lends", []string{when(is("tenant", "acme", "false"))}, bob, some},
		{"the tenant of who may lend", []string{when(is("tenant", "acme", "false"))}, ann, every},
		{"all, one never", []string{mailed(`{"all":[` + arg + `,` + is("tenant", "acme", "false") + `]}`)}, bob, some},
		{"all, none never", []string{mailed(`{"all":[` + arg + `,` + is("tenant", "acme", "false") + `]}`)}, ann,
			"mail read"},
		{"words of the user", []string{mailed(`{"arg":"/to","from":["user"],"absent":false}`)}, anonymous, "mail read"},
		{"a taint", []string{mailed(`{"session":"tainted","eq":true}`)}, anonymous, "mail read"},
		{"no taint", []string{mailed(`{"session":"tainted","eq":false}`)}, anonymous, "mail read"},
		{"a label", []string{
			strings.Replace(mailed(`{"session":"labels","has":"x"}`), `"tools"`, `"labels":["x"],"tools"`, 1),
		}, anonymous, "mail read"},
		{"any, none ever", []string{when(`{"any":[` + has + `,` + is("id", "ann", "false") + `]}`)}, anonymous, some},
		{"any, one perhaps", []string{mailed(`{"any":[` + has + `,` + arg + `]}`)}, anonymous, "mail read"},
		{"any, one always", []string{when(`{"any":[` + has + `,` + is("id", "ann", "false") + `]}`)}, clerk, every},
		{"not of perhaps", []string{mailed(`{"not":` + arg + `}`)}, anonymous, "mail read"},
		{"the past", []string{when(err)}, anonymous, every},
		{"a time", []string{when(`{"time":"utc","in":["Mon-Fri 06:00-20:00"]}`)}, anonymous, every},
		{"elements, whatever is asked of them", []string{strings.Replace(mailed(
			`{"every":"/l","absent":false,"that":`+has+`}`), `"to":`, `"l":{"type":"array","items":{"type":"string"}},"to":`, 1)},
			anonymous, "mail read"},
		{"compared with an argument", []string{mailed(
			`{"caller":"tenant","eq":{"arg":"/to"},"absent":false}`)}, acme, "mail read"},
		{"a tenant that is missing, compared", []string{mailed(
			`{"caller":"tenant","eq":{"arg":"/to"},"absent":false}`)}, anonymous, some},
		{"an argument, compared with the tenant", []string{mailed(
			`{"arg":"/to","eq":{"caller":"tenant"},"absent":false}`)}, anonymous, "mail read"},
		{"the id, compared with the tenant", []string{when(
			`{"caller":"id","eq":{"caller":"tenant"},"absent":true}`)}, acme, every},
		{"a rule before that always decides", []string{with(`{"id":"a","allow":"read"},` +
			`{"id":"b","deny":["mail","wipe"],"when":` + is("tenant", "acme", "true") + `},` +
			`{"id":"c","allow":["mail","wipe"]}`)}, acme, some},
		{"a rule before that may decide", []string{with(`{"id":"a","allow":"read"},` +
			`{"id":"b","deny":["mail","wipe"],"when":` + has + `},{"id":"c","allow":["mail","wipe"]}`)}, ann, every},
		{"a rule before that never decides", []string{with(`{"id":"a","allow":"read"},` +
			`{"id":"b","deny":["mail","wipe"],"when":` + is("tenant", "acme", "true") + `},` +
			`{"id":"c","allow":["mail","wipe"]}`)}, bob, every},
		{"unless", []string{with(`{"id":"a","allow":"read"},{"id":"b","allow":"mail","unless":` +
			is("tenant", "acme", "true") + `}`)}, acme, some},

		{"effects of a profile", []string{all, floor("f", `,"profile":{"effects":["read"]}`)}, ann, some},
		{"connectors of a profile", []string{all, floor("f", `,"profile":{"connectors":["b"]}`)}, ann, "read wipe"},
		{"a sandbox", []string{all, demanding("f", "pure", ``)}, ann, every},
		{"two sandboxes", []string{all, demanding("f", "w", `"memory":"1MiB","args":["a"]`),
			demanding("g", "v", `"gas":1,"files":{"/a":"write"}`)}, ann, every},
		{"two sandboxes with the same arguments", []string{all, demanding("f", "w", `"args":["a"]`),
			demanding("g", "v", `"args":["a"]`)}, ann, every},
		{"two sandboxes with other arguments", []string{all, demanding("f", "w", `"args":["a"]`),
			demanding("g", "v", `"args":[]`)}, ann, "read wipe"},
		{"three sandboxes with a module of all", []string{all, demanding("f", "w", modules("a", "b")),
			demanding("g", "v", modules("b", "c")), demanding("h", "v", ``)}, ann, every},
		{"three sandboxes without a module of all", []string{all, demanding("f", "w", modules("a", "b")),
			demanding("g", "v", modules("b", "c")), demanding("h", "v", modules("c", "a"))}, ann, "read wipe"},
		{"reported twice", []string{all, demanding("f", "reported", ``), demanding("g", "reported", ``)}, ann, every},
		{"reported, and another", []string{all, demanding("f", "pure", ``), demanding("g", "reported", ``)},
			ann, "read wipe"},
		{"a ceiling of risk", []string{all, floor("f", `,"ceilings":{"risk":"medium"}`)}, ann, some},
		{"a ceiling of calls", []string{all, floor("f", `,"ceilings":{"calls":1}`)}, ann, every},
		{"a floor's only", []string{all, floor("f", `,"only":["read","ma*"]`)}, ann, "mail read"},
		{"a floor's deny", []string{all, floor("f", deny(`{"effects":["write","destructive"]}`, ``))}, ann, some},
		{"a floor's deny by role", []string{all, floor("f", deny(`["mail","wipe"]`, `,"unless":`+has))}, bob, some},
		{"a floor's deny by role, had", []string{all, floor("f", deny(`["mail","wipe"]`, `,"unless":`+has))}, ann, every},
		{"a floor's deny by id", []string{all, floor("f", deny(`["mail","wipe"]`, `,"when":`+is("id", "bob", "false")))},
			bob, some},
		{"a floor's deny under a condition", []string{all, floor("f", deny(`"mail"`, `,"when":`+arg))}, ann, every},
		{"a floor that has expired", []string{all, floor("f", `,"expires":"2001-01-01T00:00:00Z"`)}, ann, every},
		{"a bundle that has expired", []string{strings.Replace(all, `"tools"`, `"expires":"2001-01-01T00:00:00Z","tools"`, 1)},
			ann, every},

		{"an overlay's only", []string{all, overlay("o", `,"only":"read"`)}, ann, some},
		{"an overlay's deny", []string{all, overlay("o", deny(`["mail","wipe"]`, ``))}, ann, some},
		{"an overlay's deny by role, which a grant may lend",
			[]string{all, overlay("o", deny(`["mail","wipe"]`, `,"unless":`+has))}, bob, every},
		{"an overlay's deny by role", []string{all, overlay("o", deny(`["mail","wipe"]`, `,"unless":`+has))}, anonymous, some},
		{"an overlay's deny by tenant",
			[]string{all, overlay("o", deny(`["mail","wipe"]`, `,"unless":`+is("tenant", "acme", "false")))}, bob, some},
		{"an overlay for one session", []string{all, overlay("o", `,"for":{"session":"chat"},"only":"read"`)}, ann, every},
		{"an overlay for the caller", []string{all, overlay("o", `,"for":{"caller":"ann"},"only":"read"`)}, ann, some},
		{"an overlay for another", []string{all, overlay("o", `,"for":{"caller":"ann"},"only":"read"`)}, bob, every},
		{"an overlay for the tenant", []string{all, overlay("o", `,"for":{"tenant":"acme"},"only":"read"`)}, acme, some},
		{"an overlay for the caller elsewhere",
			[]string{all, overlay("o", `,"for":{"caller":"ann","tenant":"other"},"only":"read"`)}, ann, every},
		{"what is required, and what it costs", []string{all, floor("f", `,"requires":[{"id":"q","tools":"*","all":`+
			`[{"approval":{"roles":["owner"]}},{"receipt":"read"}],"unless":{"caller":"roles","has":"x"}}],`+
			`"budgets":[{"id":"m","tools":"*","limit":1,"per":"all","window":"total","cost":1}]`)}, ann, every},
	} {
		p := mustCompile(t, c.docs...)
		assert.Equal(t, c.want, strings.Join(names(p.Callable(c.caller)), " "), c.name)
		// As an overlay is put over a stack in use, so it counts.
		if last := c.docs[len(c.docs)-1]; strings.Contains(last, `"P2"`) {
			n, err := mustCompile(t, c.docs[:len(c.docs)-1]...).Narrow(document(t, "", last))
			require.NoError(t, err)
			assert.Equal(t, c.want, strings.Join(names(n.Callable(c.caller)), " "), "%s, narrowed", c.name)
		}
	}
	p := mustCompile(t, all)
	assert.Equal(t, p.Tools(), p.Callable(ann), "the same tools")
	assert.Empty(t, (*Policy)(nil).Callable(ann))
	assert.Empty(t, new(Policy).Callable(ann))
}

// A callerGenerator makes stacks that look at the caller in all of their layers.
type callerGenerator struct{ *wideGenerator }

// about is a predicate about the caller or, sometimes, about something else.
func (g callerGenerator) about(depth int) string {
	if depth < 3 && g.r.IntN(3) == 0 {
		switch g.r.IntN(3) {
		case 0:
			return `{"not":` + g.about(depth+1) + `}`
		case 1:
			return `{"any":[` + g.about(depth+1) + `,` + g.about(depth+1) + `]}`
		}
		return `{"all":[` + g.about(depth+1) + `,` + g.about(depth+1) + `]}`
	}
	absent := pick(g.generator, `,"absent":true}`, `,"absent":false}`)
	switch g.r.IntN(9) {
	case 0:
		return `{"arg":"/v","eq":"a"` + absent
	case 1:
		return pick(
			g.generator,
			`{"caller":"id","eq":{"caller":"tenant"}`,
			`{"caller":"tenant","eq":{"arg":"/v"}`,
		) + absent
	case 2:
		return pick(g.generator, `{"time":"utc","in":["Wed 11:00-13:00"]}`, `{"session":"calls","lt":5}`)
	case 3, 4:
		return `{"caller":"id",` + pick(g.generator, `"eq":"ann"`, `"ne":"bob"`, `"in":["ann","agent"]`,
			`"prefix":"a"`) + absent
	case 5, 6:
		return `{"caller":"tenant",` + pick(g.generator, `"eq":"acme"`, `"not_in":["other"]`) + absent
	}
	return `{"caller":"roles","has":` + pick(g.generator, `"clerk"`, `"guest"`) + `}`
}

func (g callerGenerator) clauses(deny, tools string) string {
	var rules []string
	for i := range 1 + g.r.IntN(2) {
		text := fmt.Sprintf(`{"id":"r%d",%s:%s`, i, deny, pick(g.generator, `"t"`, `"u"`, tools))
		if g.r.IntN(8) > 0 {
			text += pick(g.generator, `,"when":`, `,"unless":`) + g.about(0)
		}
		rules = append(rules, text+`}`)
	}
	return strings.Join(rules, ",")
}

func (g callerGenerator) docs() []string {
	v := `"v":{"type":"string"}`
	rules := g.clauses(`"allow"`, `["t","u"]`)
	if g.r.IntN(2) == 0 {
		rules = strings.ReplaceAll(g.clauses(`"deny"`, `"*"`), `"id":"r`, `"id":"s`) + "," + rules
	}
	docs := []string{bundle("b", toolText("t", v)+","+strings.Replace(toolText("u", v), `"read"`, `"write"`, 1), rules)}
	layer := func() (keys string) {
		if g.r.IntN(2) == 0 {
			keys = `,"rules":[` + g.clauses(`"deny"`, `"*"`) + `]`
		}
		if g.r.IntN(6) == 0 {
			keys += `,"only":` + pick(g.generator, `"t"`, `"u"`)
		}
		return keys
	}
	if g.r.IntN(2) == 0 {
		docs = append(docs, floor("f", layer()+pick(g.generator, ``, ``, ``, `,"profile":{"effects":["read"]}`,
			`,"ceilings":{"risk":"low"}`)))
	}
	for i := range g.r.IntN(3) {
		docs = append(docs, overlay(fmt.Sprint("o", i), layer()+pick(g.generator, ``, ``, `,"for":{"caller":"ann"}`,
			`,"for":{"tenant":"acme"}`, `,"for":{"session":"chat"}`, `,"for":{"caller":"agent","tenant":"acme"}`)))
	}
	return docs
}

// Whatever is allowed to a caller, by their own rights or by those of others, is callable. And of a
// caller without an id what is callable is allowed at times, if stacks look at the caller alone.
func TestCallableLeavesOutNothing(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := callerGenerator{newWide(t, 171)}
	both := []string{"t", "u"}
	chains := map[string][][]contracts.Envelope{"agent": {chained(t,
		contracts.Delegation{Delegator: "bob", Delegate: "ann", Depth: 1, Only: both},
		contracts.Delegation{Delegator: "ann", Delegate: "agent", Only: both})}}
	for _, who := range []string{"ann", "bob", "carl"} {
		for _, to := range []string{"agent", "ann"} {
			chains[to] = append(chains[to], chained(t, contracts.Delegation{Delegator: who, Delegate: to, Only: both}))
		}
	}
	var callers []contracts.Caller
	for _, id := range []string{"", "ann", "agent"} {
		for _, tenant := range []string{"", "acme", "other"} {
			for _, roles := range [][]string{nil, {"clerk"}, {"clerk", "guest"}} {
				callers = append(callers, contracts.Caller{ID: id, Tenant: tenant, Roles: roles})
			}
		}
	}
	allowed, lent, without, exact := 0, 0, 0, 0
	for n := 0; n < rounds(250); {
		texts := g.docs()
		p := compiled(t, texts)
		if p == nil {
			continue
		}
		n++
		if last := texts[len(texts)-1]; g.r.IntN(2) == 0 && strings.Contains(last, `"P2"`) {
			var err error
			p, err = compiled(t, texts[:len(texts)-1]).Narrow(document(t, "", last))
			require.NoError(t, err)
		}
		whole := strings.Join(texts, "\n")
		known := !strings.Contains(whole, `"arg"`) && !strings.Contains(whole, `"time"`) &&
			!strings.Contains(whole, `"session"`)
		for _, c := range callers {
			list := names(p.Callable(c))
			for _, tool := range both {
				presented := [][]contracts.Envelope{nil}
				if list := chains[c.ID]; list != nil {
					presented = append(presented, pick(g.generator, list...))
				}
				ever := false
				for _, chain := range presented {
					in := inputs(t, tool, pick(g.generator, `{}`, `{"v":"a"}`, `{"v":"acme"}`))
					in.Caller, in.Envelopes.Delegation = c, chain
					in.Session = pick(g.generator, "chat", "other")
					if d, _ := judgeBy(p, &in, g.state, newTold()); d.Verdict == contracts.Allow {
						require.Contains(t, list, tool, "%+v\n%s", c, whole)
						ever = true
						allowed++
						if chain != nil {
							lent++
						}
					}
				}
				if !slices.Contains(list, tool) {
					without++
				} else if known && c.ID == "" {
					require.True(t, ever, "%s is not left out for %+v\n%s", tool, c, whole)
					exact++
				}
			}
		}
	}
	t.Logf("%d calls allowed, %d of them under grants; %d tools left out, %d in", allowed, lent, without, exact)
	assert.True(t, allowed > rounds(4000) && lent > rounds(1500) && without > rounds(5000) && exact > rounds(300))
}

// In stacks of all that a document may say, whatever is allowed is callable.
func TestCallableOfWideStacks(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	g := newWide(t, 173)
	allowed, without := 0, 0
	for n := 0; n < rounds(150); {
		p := wide(t, g.stack(t))
		if p == nil {
			continue
		}
		n++
		for range 25 {
			in := g.ask(t, p)
			list := names(p.Callable(in.Caller))
			without += 2 - len(list)
			d, _ := g.consult(t, p, &in, newTold(), approvers[5])
			if d.Verdict == contracts.Allow {
				allowed++
				require.Contains(t, list, in.Tool)
			}
		}
	}
	t.Logf("%d allowed, %d left out", allowed, without)
	assert.True(t, allowed > rounds(250) && without > rounds(500))
}
