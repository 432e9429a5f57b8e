package guardian

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/internal/race"
)

// The office has a tool for each condition that can fail.
const office = `{
	"helm": "policy/v1", "layer": "P1", "bundle": {"name": "office", "version": 7},
	"tools": {
		"file.read": {
			"effect": "read", "limits": {"timeout": "5s", "args": "1KiB", "output": "2KiB"},
			"input": {"type": "object", "required": ["path"], "properties": {
				"path": {"type": "string"}, "to": {"type": "array", "items": {"type": "string"}}, "lines": {"type": "integer", "default": 20}}},
			"output": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
			"scope": [{"arg": "/path", "within": ["/srv/data"]}, {"arg": "/to/*", "host": "*.corp.com", "absent": true}]
		},
		"file.write": {"effect": "write", "input": {"type": "object", "properties": {"path": {"type": "string"}}}},
		"file.wipe": {"effect": "destructive", "input": {"type": "object", "properties": {}}},
		"file.list": {"effect": "write", "risk": "low", "input": {"type": "object", "properties": {}}}
	},
	"rules": [
		{"id": "secret", "deny": "file.*", "when": {"caller": "id", "eq": "eve", "absent": false}},
		{"id": "dir", "deny": "file.read", "when": {"arg": "/path", "eq": "/srv/data/secret"}},
		{"id": "lines", "deny": "file.read", "when": {"arg": "/lines", "gt": 100, "absent": false}, "unless": {"caller": "roles", "has": "admin"}},
		{"id": "age", "deny": "file.write", "when": {"arg": "/path", "within": "/etc", "absent": false}},
		{"id": "ok", "allow": ["file.read", "file.write", "file.list"], "when": {"caller": "roles", "has": "clerk"}}
	]
}`

const late = `{"helm":"policy/v1","layer":"P1","bundle":{"name":"late","version":1},"expires":"2026-07-15T12:00:00Z",
	"tools":{"late.read":{"effect":"read","input":{"type":"object","properties":{}}}},
	"rules":[{"id":"deny","deny":"late.read","when":{"caller":"id","eq":"eve","absent":false}},{"id":"all","allow":"late.read"}]}`

func TestConditions(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, office, late)
	for _, c := range append(readCases(t, "conditions", 40, callFields...),
		testCase{"name": "too long", "tool": "file.read", "want": "SCHEMA_VIOLATION 2",
			"args": `{"path":"/srv/data/` + strings.Repeat("a", 1024) + `"}`, "says": "longer than the tool's limit"},
		testCase{"name": "size before schema", "tool": "file.read", "args": `{"x":"` + strings.Repeat("a", 1024) + `"}`,
			"want": "SCHEMA_VIOLATION 2", "says": "limit"}) {
		t.Run(c["name"], func(t *testing.T) { c.judged(t, p) })
	}
}

// delegated presents what does not open.
func delegated(in *contracts.Inputs) {
	in.Envelopes.Delegation = []contracts.Envelope{[]byte(`{"leaf":1}`), []byte(`{"root":1}`)}
}

// What every record holds, whatever the verdict, and nothing that is not decided yet.
func TestRecord(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, office)
	in := inputs(t, "file.read", `{"path":"/srv/data/a"}`)
	in.Idempotency = "k"
	leaf := crypto.Sum([]byte(`{"leaf":1}`))
	base := contracts.DecisionRecord{
		ArgsHash: in.ArgsHash, Caller: in.Caller, EffectType: contracts.Read, Risk: contracts.Low, Idempotency: "k",
		PolicyHash: p.Hash(), Tool: "file.read",
	}
	allowed := base
	allowed.Condition, allowed.Reason, allowed.Verdict, allowed.Rule = 8, contracts.ReasonAllow, contracts.Allow,
		"P1:office:ok"
	allowed.Expires = noon.Add(5 * time.Second)
	if got, _ := p.judged(in, nil); !reflect.DeepEqual(got, allowed) {
		t.Errorf("ALLOW is\n%+v, want\n%+v", got, allowed)
	}
	denied := base
	denied.Condition, denied.Reason, denied.Delegation = 6, contracts.ReasonDelegationInvalid, &leaf
	delegated(&in)
	if got, _ := p.judged(in, nil); !reflect.DeepEqual(got, denied) {
		t.Errorf("DENY is\n%+v, want\n%+v", got, denied)
	}
	refused := base
	refused.Reason, refused.Delegation = contracts.ReasonSystemFrozen, &leaf
	if got := p.Refuse(in, contracts.ReasonSystemFrozen); !reflect.DeepEqual(got, refused) {
		t.Errorf("refusal is\n%+v, want\n%+v", got, refused)
	}
	for _, r := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonPolicyViolation, "", "NONSENSE"} {
		got := p.Refuse(in, r)
		assert.True(t, got.Reason == contracts.ReasonFailClosedError && got.Verdict == contracts.Deny &&
			got.Condition == 0, "Refuse(%q) gave %v at %d", r, got.Reason, got.Condition)
	}
	raw := inputs(t, "none", `{`)
	got, _ := p.judged(raw, nil)
	assert.True(t, got.ArgsForm == "raw" && got.ArgsHash == crypto.Sum([]byte(`{`)) && got.EffectType == "" &&
		got.Risk == "", "raw arguments gave %+v", got)
	for tool, risk := range map[string]contracts.Risk{"file.read": contracts.Low, "file.write": contracts.Medium,
		"file.wipe": contracts.High, "file.list": contracts.Low} {
		got := p.Refuse(inputs(t, tool, `{}`), contracts.ReasonSystemFrozen)
		assert.Equal(t, risk, got.Risk, "%s has risk", tool)
	}
}

// A destination that is missing is one everywhere, unless the scope says otherwise.
func TestScopeAbsent(t *testing.T) {
	t.Parallel()
	for absent, allowed := range map[string]bool{"true": true, "false": false} {
		for _, c := range []struct{ pointer, properties, args string }{
			{"/to", `"to":{"type":"string"}`, `{}`},
			{"/to/*", `"to":{"type":"array","items":{"type":"string"}}`, `{}`},
			{"/to/*", `"to":{"type":"array","items":{"type":["string","null"]}}`, `{"to":["a",null]}`},
			{"/to/*/x", `"to":{"type":"array","items":{"type":"object","properties":{"x":{"type":"string"}}}}`,
				`{"to":[{"x":"a"},{}]}`},
			{"/to/*/x/*",
				`"to":{"type":"array","items":{"type":"object","properties":{"x":{"type":"array","items":{"type":"string"}}}}}`, `{"to":[{"x":["a"]},{}]}`},
		} {
			p := mustCompile(t,
				`{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{"t":{"effect":"read",
				"scope":[{"arg":"`+c.pointer+`","in":["a"],"absent":`+absent+`}],"input":{"type":"object","properties":{`+c.properties+`}}}},"rules":[{"id":"all","allow":"t"}]}`)
			w := want{contracts.ReasonDestinationNotAllowed, 2, "P1:b:scope"}
			if allowed {
				w = want{contracts.ReasonAllow, 8, "P1:b:all"}
			}
			w.check(t, p, inputs(t, "t", c.args))
			if other := strings.Replace(c.args, `"a"`, `"b"`, 1); other != c.args { // another destination is never in
				want{contracts.ReasonDestinationNotAllowed, 2, "P1:b:scope"}.check(t, p, inputs(t, "t", other))
			}
			require.False(t, t.Failed(), "%s with absent %s", c.pointer, absent)
		}
	}
}

// The nil and the zero policy have no tools, and say so.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	for _, p := range []*Policy{nil, {}} {
		in := inputs(t, "file.read", `{}`)
		want{contracts.ReasonToolNotFound, 1, ""}.check(t, p, in)
		if r := p.Refuse(in, contracts.ReasonSystemFrozen); r.Verdict != contracts.Deny {
			t.Error("a refusal allows")
		}
		_, limits := p.Limits("file.read")
		_, filled := p.AppendDefaults(nil, "file.read", in.Args)
		_, conforms := p.CheckOutput("file.read", in.Args)
		assert.True(t, !limits && !filled && !conforms && !p.HasOutput("file.read") &&
			p.Hash() == (contracts.Digest{}) && len(p.Documents()) == 0 && p.Expired(noon) == nil, "no policy says yes")
		p.Record()
	}
}

// Whatever panics while judging is DENY, at the condition being judged, and the next call is judged
// as if nothing had been.
func TestPanic(t *testing.T) {
	t.Parallel()
	broken := func(breakIt func(*program.Tool)) *Policy {
		p := mustCompile(t, office)
		breakIt(p.stack.Tools["file.read"])
		return p
	}
	in := inputs(t, "file.read", `{"path":"/srv/data/a","to":["a.corp.com"]}`)
	for name, c := range map[string]struct {
		p         *Policy
		condition int
	}{
		"scope": {broken(func(t *program.Tool) { t.Scope[0].Slot = 1000 }), 2},
		"rules": {broken(func(t *program.Tool) { t.Rules[1].Tests[0].Slot = 1000 }), 5},
		"nil":   {broken(func(t *program.Tool) { t.Scope[1].Kids[0].More = nil }), 2},
	} {
		for range 3 {
			r, why := c.p.judged(in, nil)
			assert.True(t, r.Verdict == contracts.Deny && r.Reason == contracts.ReasonFailClosedError &&
				r.Condition == c.condition && r.Rule == "" && r.Expires == 0, "%s: %v %v at %d", name, r.Verdict,
				r.Reason, r.Condition)
			contains(t, why.What, "panic")
		}
		want{contracts.ReasonAllow, 8, "P1:office:ok"}.check(t, c.p, inputs(t, "file.list", `{}`))
	}
	stale := new(crypto.Tree) // arguments whose tree was parsed again are a caller's fault, not an ALLOW
	_, err := stale.ParseArgs(nil, []byte(`{"a":{"path":"/srv/data/a"}}`))
	require.NoError(t, err)
	in.Args = stale.Root().Get("a")
	_, err = stale.ParseArgs(nil, []byte(`{}`))
	require.NoError(t, err)
	want{contracts.ReasonFailClosedError, 0, ""}.check(t, mustCompile(t, office), in)
	var zero program.Node // no predicate at all errs
	assert.Equal(t, program.Failed, new(program.Evaluator).Eval(&zero), "the zero node answers")
}

// One decision makes at most 10,000 visits, over scope and all rules.
func TestCost(t *testing.T) {
	t.Parallel()
	rules := []string{}
	for i := range 10 {
		rules = append(rules, fmt.Sprintf(`{"id":"r%d","deny":"t","when":{"some":"/l","that":{"eq":"x%d"}}}`, i, i))
	}
	rules = append(rules, `{"id":"all","allow":"t"}`)
	p := mustCompile(t, bundle("b", toolText("t", `"l":`+strs, "l"), strings.Join(rules, ",")))
	for _, c := range []struct {
		elements int
		want     want
	}{
		{998, want{contracts.ReasonAllow, 8, "P1:b:all"}}, // 10 × (1 + 998)
		{999, want{contracts.ReasonAllow, 8, "P1:b:all"}}, // 10,000
		{1000, want{contracts.ReasonFailClosedError, 5, ""}},
		{60_000, want{contracts.ReasonFailClosedError, 5, ""}},
	} {
		in := inputs(t, "t", `{"l":["a"`+strings.Repeat(`,"a"`, c.elements-1)+`]}`)
		_, why := c.want.check(t, p, in)
		if c.want.condition == 5 {
			contains(t, why.String(), "more than 10000 values")
		}
	}
	nested := mustCompile(t, bundle("b", toolText("t", `"v":`+grid, "v"),
		`{"id":"x","deny":"t","when":{"count":"/v/*/tags","gt":5}},{"id":"all","allow":"t"}`))
	for n, w := range map[int]want{9999: {contracts.ReasonAllow, 8, "P1:b:all"},
		10_000: {contracts.ReasonFailClosedError, 5, ""}} {
		w.check(t, nested, inputs(t, "t", `{"v":[{"tags":[]}`+strings.Repeat(`,{"tags":[]}`, n-1)+`]}`))
	}
	scope := mustCompile(t,
		`{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{"t":{"effect":"read","scope":[{"arg":"/l/*","in":["a"]}],
		"input":{"type":"object","required":["l"],"properties":{"l":{"type":"array","items":{"type":"string"}}}}}},"rules":[{"id":"all","allow":"t"}]}`)
	for n, w := range map[int]want{9999: {contracts.ReasonAllow, 8, "P1:b:all"},
		10_000: {contracts.ReasonDestinationNotAllowed, 2, "P1:b:scope"}} {
		w.check(t, scope, inputs(t, "t", `{"l":["a"`+strings.Repeat(`,"a"`, n-1)+`]}`))
	}
}

// shuffled writes JSON with the keys of every object in random order, and other white space.
func shuffled(t testing.TB, text string, r *rand.Rand) string {
	t.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&v))
	var b strings.Builder
	var write func(any)
	write = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			b.WriteString("{ ")
			for i, k := range keys {
				if i > 0 {
					b.WriteString(" ,")
				}
				name, _ := json.Marshal(k)
				b.Write(name)
				b.WriteString(": ")
				write(v[k])
			}
			b.WriteString("}")
		case []any:
			b.WriteString("[")
			for i, e := range v {
				if i > 0 {
					b.WriteString(", ")
				}
				write(e)
			}
			b.WriteString("]")
		default:
			x, _ := json.Marshal(v)
			b.Write(x)
		}
	}
	write(v)
	return b.String()
}

// The order of documents, and of keys in documents and arguments, changes nothing.
func TestDeterminism(t *testing.T) {
	t.Parallel()
	third := bundle("a", toolText("z", ``), `{"id":"all","allow":"z"}`)
	texts := []string{office, late, third}
	first := mustCompile(t, texts...)
	calls := []struct{ tool, args string }{
		{"file.read", `{"path":"/srv/data/a","to":["a.corp.com"],"lines":5}`},
		{"file.read", `{"path":"/srv/data/secret","lines":500}`},
		{"file.read", `{"path":"/etc","to":["x y"],"lines":500}`}, {"file.read", `{"b":1,"a":2,"path":5}`},
		{"file.write", `{"path":"x"}`},
		{"late.read", `{}`}, {"z", `{}`}, {"none", `{}`},
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range 30 {
		mixed := slices.Clone(texts)
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		for i := range mixed {
			mixed[i] = shuffled(t, mixed[i], r)
		}
		p := mustCompile(t, mixed...)
		require.True(t, p.Hash() == first.Hash() && reflect.DeepEqual(p.Record(), first.Record()) &&
			reflect.DeepEqual(p.Documents(), first.Documents()), "another policy")
		for _, c := range calls {
			record, why := first.judged(inputs(t, c.tool, c.args), nil)
			again, whyAgain := p.judged(inputs(t, c.tool, shuffled(t, c.args, r)), nil)
			require.True(t, reflect.DeepEqual(record, again) && reflect.DeepEqual(why, whyAgain),
				"%s %s: %v %v, then %v %v", c.tool, c.args, record.Reason, why, again.Reason, whyAgain)
		}
	}
}

// Errors are the same in any order of documents and keys, too.
func TestDeterministicErrors(t *testing.T) {
	t.Parallel()
	bad := strings.Replace(office, `"file.wipe": {"effect": "destructive"`, `"file.wipe": {"effect": "destroy"`, 1)
	bad = strings.Replace(bad, `"deny": "file.write"`, `"deny": "file.wrote"`, 1)
	worse := strings.Replace(bundle("zz", toolText("y", ``), ``), "policy/v1", "policy/v9", 1)
	r := rand.New(rand.NewPCG(7, 8))
	text := ""
	for range 30 {
		docs := []contracts.Document{document(t, "bad", shuffled(t, bad, r)),
			document(t, "worse", shuffled(t, worse, r)), document(t, "late", late)}
		r.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
		e := mustRefuse(t, docs...).Error()
		if text == "" {
			text = e
		}
		require.Equal(t, text, e, "%s\nthen", text)
	}
}

func TestPolicyHash(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, late, office)
	a, b := crypto.Sum(canonical(t, late)), crypto.Sum(canonical(t, office))
	form := `{"documents":[{"digest":"` + a.String() + `","layer":"P1","name":"late","version":1},{"digest":"` +
		b.String() +
		`","layer":"P1","name":"office","version":7}],"engine":{"rules":2,"threat":1}}`
	record := p.Record()
	assert.True(t, p.Hash() == crypto.Sum([]byte(form)) && record.Policy == p.Hash() && record.Hash() == p.Hash(),
		"PolicyHash is not that of %s", form)
	for i, d := range p.Documents() {
		assert.Equal(t, p.Record().Documents[i].Digest, crypto.Sum(d.Canonical), "document %d is not the one recorded",
			i)
	}
}

func TestPolicyImmutable(t *testing.T) {
	t.Parallel()
	doc := document(t, "office", office)
	doc.Lines = map[string]contracts.Pos{"": at(1, 1)}
	p, err := Compile(doc, document(t, "late", late))
	require.NoError(t, err)
	hash, in := p.Hash(), inputs(t, "file.read", `{"path":"/srv/data/a"}`)
	spoil := func(d contracts.Document) {
		for i := range d.Canonical {
			d.Canonical[i] = 'x'
		}
		clear(d.Lines)
	}
	spoil(doc)
	for _, d := range p.Documents() {
		spoil(d)
	}
	p.Record().Documents[0].Name = "other"
	record := p.Record()
	assert.True(t, p.Documents()[1].Lines[""] == at(1, 1) && record.Documents[0].Name == "late" &&
		record.Hash() == hash, "the policy changed with what was handed in or out")
	want{contracts.ReasonAllow, 8, "P1:office:ok"}.check(t, p, in)
}

// Judge changes nothing of its inputs, and what the caller changes afterwards changes nothing of a
// judgement to come.
func TestJudgeKeepsNothing(t *testing.T) {
	p := mustCompile(t, office)
	tree, src := new(crypto.Tree), []byte(`{"path":"/srv/data/\u0061/\"q\""}`)
	_, err := tree.ParseArgs(nil, src)
	require.NoError(t, err)
	in := inputs(t, "file.read", `{}`)
	in.Args, in.Caller.Roles = tree.Root(), []string{"z", "clerk", "a"}
	before := bytes.Clone(src)
	want{contracts.ReasonAllow, 8, "P1:office:ok"}.check(t, p, in)
	assert.True(t, bytes.Equal(src, before) && slices.Equal(in.Caller.Roles, []string{"z", "clerk", "a"}),
		"the inputs changed")
	copy(src, `{"path":"/etc/passwd/////////`)
	want{contracts.ReasonAllow, 8, "P1:office:ok"}.check(t, p, inputs(t, "file.list", `{}`))
	if s, _ := p.scratch.Get().(*scratch); s != nil {
		assert.True(t, s.past == nil && s.grants == nil && s.words == nil && s.consumed == nil &&
			len(s.applied)+len(s.buf) == 0, "a used scratch holds %+v", s)
		holdsNothing(t, "eval", reflect.ValueOf(s.eval))
	}
}

// holdsNothing fails if a struct holds more than memory: slices that are empty, or all of zeros.
func holdsNothing(t *testing.T, name string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			holdsNothing(t, name+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice:
		all := v.Slice(0, v.Cap())
		for i := range all.Len() {
			e := all.Index(i)
			assert.True(t, (v.Len() <= 0 || e.IsZero()) && (e.Kind() != reflect.Struct || e.IsZero()), "%s holds %v",
				name, e)
		}
	default:
		assert.True(t, v.IsZero(), "%s holds %v", name, v)
	}
}

func TestExpired(t *testing.T) {
	t.Parallel()
	doc := document(t, "late.yaml", late)
	doc.Lines = map[string]contracts.Pos{"/expires": at(3, 10)}
	p, err := Compile(document(t, "office.yaml", office), doc)
	require.NoError(t, err)
	assert.NoError(t, p.Expired(noon-1))
	for _, at := range []contracts.Time{noon, noon + 1} {
		if err := p.Expired(at); err == nil || !strings.HasPrefix(err.Error(),
			"late.yaml:3:10: /expires: the bundle late expired at 2026-07-15T12:00:00.000Z; ") {
			t.Error(err)
		}
	}
	// A fraction of a millisecond ends the sooner.
	p = mustCompile(t, strings.Replace(late, "12:00:00Z", "12:00:00.0009+00:00", 1))
	assert.True(t, p.Expired(noon) != nil && p.Expired(noon-1) == nil, "expires is rounded up")
}

func TestToolAccessors(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, office)
	if l, ok := p.Limits("file.read"); !ok || l != (Limits{Args: 1 << 10, Output: 2 << 10, Timeout: 5 * time.Second}) {
		t.Errorf("limits %v", l)
	}
	if l, ok := p.Limits("file.list"); !ok || l != (Limits{Args: 1 << 20, Output: 1 << 20, Timeout: 30 * time.Second}) {
		t.Errorf("usual limits %v", l)
	}
	limits := func(text string) contracts.Document {
		return document(t, "b", strings.Replace(office, `{"timeout": "5s", "args": "1KiB", "output": "2KiB"}`, text, 1))
	}
	most, err := Compile(limits(`{"timeout": "10m", "args": "1MiB", "output": "16MiB"}`))
	require.NoError(t, err)
	l, _ := most.Limits("file.read")
	assert.Equal(t, Limits{Args: 1 << 20, Output: 16 << 20, Timeout: 10 * time.Minute}, l, "the highest limits")
	for _, over := range []string{"timeout\": \"601s", "args\": \"1025KiB", "output\": \"17MiB"} {
		e := mustRefuse(t, limits(`{"`+over+`"}`))
		assert.Contains(t, e.Pointer, "/tools/file.read/limits/", over)
	}
	elsewhere := func(timeout, ceiling string) (time.Duration, error) {
		text := strings.Replace(office, `"limits": {"timeout": "5s"`, `"sandbox": "reported", "limits": {"timeout": "`+timeout+`"`, 1)
		docs := []contracts.Document{document(t, "b", text)}
		if ceiling != "" {
			docs = append(docs, document(t, "f", `{"helm":"policy/v1","layer":"P0","name":"f","version":1,"ceilings":`+ceiling+`}`))
		}
		p, err := Compile(docs...)
		if err != nil {
			return 0, err
		}
		l, _ := p.Limits("file.read")
		return l.Timeout, nil
	}
	for _, x := range []struct {
		timeout, ceiling string
		want             time.Duration
	}{{"24h", "", 24 * time.Hour}, {"24h", `{"args":"1MiB"}`, 24 * time.Hour}, {"24h", `{"timeout":"24h"}`, 24 * time.Hour},
		{"24h", `{"timeout":"11h"}`, 11 * time.Hour}, {"5m", `{"timeout":"24h"}`, 5 * time.Minute}} {
		got, err := elsewhere(x.timeout, x.ceiling)
		assert.True(t, err == nil && got == x.want, "%v: %v, %v", x, got, err)
	}
	_, err = elsewhere("25h", "")
	assert.ErrorContains(t, err, "higher than 24h")
	in := inputs(t, "file.read", `{"path":"/srv/data"}`)
	if b, ok := p.AppendDefaults([]byte("x"), "file.read", in.Args); !ok ||
		string(b) != `x{"lines":20,"path":"/srv/data"}` {
		t.Errorf("defaults %s", b)
	}
	assert.True(t, p.HasOutput("file.read") && !p.HasOutput("file.list"), "HasOutput")
	_, ok := p.CheckOutput("file.read", inputs(t, "", `{"text":"a","more":1}`).Args)
	assert.True(t, ok, "an output with one more field drifts")
	why, ok := p.CheckOutput("file.read", inputs(t, "", `{"text":5}`).Args)
	assert.True(t, !ok && why.Pointer == "/text", "a drifted output: %v", why)
	if _, ok := p.CheckOutput("file.list", inputs(t, "", `{"x":5}`).Args); !ok {
		t.Error("an output that is not pinned drifts")
	}
}

// The examples of the package comment are a stack, and do what they say.
func TestPackageExample(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	var examples []string
	var example strings.Builder
	for line := range strings.Lines(string(src)) {
		if rest, ok := strings.CutPrefix(line, "//\t"); ok && (example.Len() > 0 || rest == "{\n") {
			example.WriteString(rest)
			if rest == "}\n" {
				examples = append(examples, example.String())
				example.Reset()
			}
		}
	}
	require.Len(t, examples, 3, "%d examples", len(examples))
	p := mustCompile(t, examples...)
	allow := want{contracts.ReasonAllow, 8, "P1:files:read"}
	r, _ := allow.check(t, p, inputs(t, "fs.read", `{"path":"/srv/data/a"}`))
	assert.Equal(t, noon.Add(5*time.Second), r.Expires, "expires")
	want{contracts.ReasonPolicyViolation, 5, "P1:files:secrets"}.check(t, p,
		inputs(t, "fs.read", `{"path":"/srv/data/.env"}`))
	want{contracts.ReasonPolicyViolation, 5, "P1:files:long"}.check(t, p,
		inputs(t, "fs.read", `{"path":"/srv/data/a","lines":1001}`))
	want{contracts.ReasonDestinationNotAllowed, 2, "P1:files:scope"}.check(t, p,
		inputs(t, "fs.read", `{"path":"/srv"}`))
	in := inputs(t, "fs.read", `{"path":"/srv/data/a"}`)
	in.Session = "chat-1"
	want{contracts.ReasonPolicyViolation, 5, "P2:task-4711:drafts"}.check(t, p, in)
	in = inputs(t, "fs.read", `{"path":"/srv/data/drafts/a"}`)
	in.Session = "chat-1"
	allow.check(t, p, in)
	in.Time = noon.Add(9 * time.Hour)
	want{contracts.ReasonCeilingViolation, 8, "P0:acme:nights"}.check(t, p, in)
}

// Judging ALLOW and ordinary DENY allocates nothing.
func TestJudgeAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("a pool forgets under the race detector: this runs without it")
	}
	p := mustCompile(t, office, late)
	for _, c := range []struct {
		tool, args string
		reason     contracts.ReasonCode
	}{
		{"file.read", `{"path":"/srv/data/a","to":["a.corp.com","https://b.corp.com/x"]}`, contracts.ReasonAllow},
		{"file.read", `{"path":"/srv/data/secret"}`, contracts.ReasonPolicyViolation},
		{"file.read", `{"path":"/etc"}`, contracts.ReasonDestinationNotAllowed},
		{"file.write", `{"path":"etc"}`, contracts.ReasonFailClosedError},
		{"file.wipe", `{}`, contracts.ReasonNoPolicyDefined},
		{"none", `{}`, contracts.ReasonToolNotFound},
	} {
		in := inputs(t, c.tool, c.args)
		if n := testing.AllocsPerRun(100, func() {
			if r, _ := p.Judge(in, nil); r.Reason != c.reason {
				t.Fatalf("%s: %v", c.tool, r.Reason)
			}
		}); n != 0 {
			t.Errorf("%s %s: %v allocations", c.tool, c.args, n)
		}
	}
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	p := mustCompile(t, office, late)
	done := make(chan bool)
	for i := range 8 {
		go func() {
			defer func() { done <- true }()
			path := fmt.Sprintf(`{"path":"/srv/data/%d","to":["h%d.corp.com"]}`, i, i)
			in := inputs(t, "file.read", path)
			for range 300 {
				r, why := p.judged(in, nil)
				assert.Equal(t, contracts.ReasonAllow, r.Reason, "%s: %v", path, why)
			}
		}()
	}
	for range 8 {
		<-done
	}
}

// A value that a default always fills in is never missing when a call is judged: absent may be
// written, and need not be. Should the defaults not be there after all, a test without absent errs.
func TestFilledIn(t *testing.T) {
	t.Parallel()
	tools := toolText("t", `"n":{"type":"integer","default":5}`)
	for _, absent := range []string{"", `,"absent":true`} {
		p := mustCompile(t,
			bundle("b", tools,
				`{"id":"many","deny":"t","when":{"arg":"/n","gt":10`+absent+`}},{"id":"all","allow":"t"}`))
		want{contracts.ReasonPolicyViolation, 5, "P1:b:many"}.check(t, p, inputs(t, "t", `{"n":11}`))
		want{contracts.ReasonAllow, 8, "P1:b:all"}.check(t, p, inputs(t, "t", `{"n":5}`))
		if absent == "" {
			want{contracts.ReasonFailClosedError, 5, ""}.check(t, p, inputs(t, "t", `{}`))
		}
	}
	e := mustRefuse(t,
		document(t, "",
			bundle("b", tools, `{"id":"x","deny":"t","when":{"arg":"/n","exists":true}},{"id":"all","allow":"t"}`)))
	assert.Equal(t, "/rules/0/when/exists", e.Pointer, "%v", e)
}
