package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/internal/rawjson"
	"github.com/helmkernel/helm/internal/race"
)

// hostile are values that an answer may have in places that are for others.
var hostile = []string{
	"null", "true", "-1", "1.0", "2147483648", "1e3", `""`, `"no"`, `"tool_use"`, `"function_call"`, `"{\"x\":1}"`,
	"{}",
	"[]", `[null]`, `{"name":"no","arguments":"{}"}`, `{"name":"no","input":{}}`,
	`[{"index":0,"id":"x","type":"function","function":{"name":"no","arguments":"{}"}}]`,
	`{"type":"tool_use","id":"x","name":"no","input":{"a":1}}`,
	`{"role":"assistant","tool_calls":[{"id":"x","type":"function","function":{"name":"no","arguments":"{}"}}]}`,
	`[{"type":"function_call","id":"x","call_id":"x","name":"no","arguments":"{}"}]`,
	`{"type":"program","tool_id":"x"}`, `"\ud83d"`,
}

var hostileNames = []string{
	"tool_calls", "function_call", "message", "delta", "content_block", "output", "item", "input", "arguments",
	"function", "name", "id", "call_id", "index", "output_index", "caller", "helm", "type", "content", "response",
	"choices", "partial_json", "custom", "x", "Tool_Calls", "tool_call\u017f", "FUNCTION", "\u212aind", "usage",
}

// mutate returns a value with one thing in it changed, at a random place.
func mutate(r *rand.Rand, v rawjson.Value) []byte {
	var members []rawjson.Member
	for m := range v.Members() {
		members = append(members, m)
	}
	var elements [][]byte
	for e := range v.Elements() {
		elements = append(elements, e.Raw())
	}
	another := func() string { return hostile[r.IntN(len(hostile))] }
	switch {
	case v.Kind() == rawjson.Object && (len(members) == 0 || r.IntN(3) == 0):
		return mutateObject(r, members, another)
	case v.Kind() == rawjson.Object:
		at := r.IntN(len(members))
		return object1(members, func(i int, m rawjson.Member) string {
			value := m.Value.Raw()
			if i == at {
				value = mutate(r, m.Value)
			}
			return string(m.Key) + ":" + string(value)
		})
	case v.Kind() == rawjson.Array && len(elements) > 0 && r.IntN(4) > 0:
		at := r.IntN(len(elements))
		one, _ := rawjson.Check(elements[at])
		elements[at] = mutate(r, one)
		return rawjson.List(elements).Raw()
	case v.Kind() == rawjson.Array && r.IntN(2) == 0 && len(elements) > 0:
		return rawjson.List(append(elements, elements[r.IntN(len(elements))])).Raw()
	}
	return []byte(another())
}

func object1(members []rawjson.Member, text func(int, rawjson.Member) string) []byte {
	var all []string
	for i, m := range members {
		if s := text(i, m); s != "" {
			all = append(all, s)
		}
	}
	return []byte("{" + strings.Join(all, ",") + "}")
}

// mutateObject leaves a member out, adds one, repeats it, or writes its name otherwise.
func mutateObject(r *rand.Rand, members []rawjson.Member, another func() string) []byte {
	as := func(m rawjson.Member) string { return string(m.Key) + ":" + string(m.Value.Raw()) }
	whole := object1(members, func(_ int, m rawjson.Member) string { return as(m) })
	at := -1
	if len(members) > 0 {
		at = r.IntN(len(members))
	}
	op := r.IntN(6)
	if at < 0 || op == 0 {
		name := hostileNames[r.IntN(len(hostileNames))]
		body := strings.TrimPrefix(string(whole), "{")
		comma := ","
		if body == "}" {
			comma = ""
		}
		return []byte("{" + string(quote(name)) + ":" + another() + comma + body)
	}
	return object1(members, func(i int, m rawjson.Member) string {
		switch {
		case i != at:
			return as(m)
		case op == 1:
			return ""
		case op == 2: // twice
			return as(m) + "," + string(m.Key) + ":" + another()
		case op == 3: // twice, once as an escape
			return as(m) + "," + escaped(m.Name) + ":" + another()
		case op == 4: // in another case
			name := strings.NewReplacer("s", "\u017f", "k", "\u212a").Replace(m.Name)
			if r.IntN(2) == 0 || name == m.Name {
				name = strings.ToUpper(m.Name)
			}
			return string(quote(name)) + ":" + string(m.Value.Raw())
		}
		return escaped(m.Name) + ":" + string(m.Value.Raw())
	})
}

// escaped returns a name in which the first letter is written as an escape.
func escaped(name string) string {
	if name == "" {
		return `""`
	}
	return fmt.Sprintf(`"\u%04x%s`, name[0], quote(name[1:])[1:])
}

// TestMutations: whatever is changed of an answer, a call that a client finds in what the app gets
// was allowed, and has the arguments that were judged. Many of the changed answers pass.
func TestMutations(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	no := func(string) bool { return false }
	blocks := []block{{kind: "text", text: "a"}, {kind: "tool_use", call: proposed{id: "a", name: "no",
		args: `{"x":1}`}},
		{kind: "tool_use", call: proposed{id: "b", name: "ok", args: `{"x":1}`}}}
	items := []item{{kind: "reasoning"}, {kind: "message", text: "a"},
		{kind: "function_call", call: proposed{id: "a", name: "no", args: "{}"}},
		{kind: "function_call", call: proposed{id: "b", name: "ok", args: "{}"}}}
	apis := map[string]struct {
		of      func(r *rand.Rand) []frame
		machine func() machine
	}{
		"chat": {func(r *rand.Rand) (list []frame) {
			s := randomScene(r)
			for _, d := range s.deltas(r) {
				list = append(list, frame{data: chunkOf(0, d, nil)})
			}
			return append(list, frame{data: chunkOf(0, members{}, "tool_calls")}, frame{data: []byte("[DONE]")})
		}, func() machine { return &chatStream{judge: onlyOK, most: 1 << 16, choices: map[int]*chatChoice{}} }},
		"messages": {func(r *rand.Rand) []frame { return stream(r, blocks, "tool_use") },
			func() machine { return newMessages(onlyOK, "s", nil, no, 1<<16) }},
		"responses": {func(r *rand.Rand) []frame { return events(r, items, "response.completed") },
			func() machine { return newResponses(onlyOK, "s", nil, no, false, 1<<16) }},
	}
	for name, x := range apis {
		whole := 0
		for seed := range uint64(1500) {
			r := rand.New(rand.NewPCG(seed, 77))
			list := x.of(r)
			for range 1 + r.IntN(2) {
				at := r.IntN(len(list))
				data := bytes.ReplaceAll(list[at].data, []byte("ok.tool"), []byte("ok"))
				if v, err := rawjson.Check(data); err == nil {
					data = mutate(r, v)
				}
				list[at].data = data
			}
			var text []byte
			for _, e := range list {
				text = appendFrame(text, e)
			}
			m := x.machine()
			fuzzed(t, m, text)
			if m.end() == nil {
				whole++
			}
		}
		t.Logf("%s: %d of 1500 changed streams were whole", name, whole)
		assert.Greater(t, whole, 50, name)
	}
}

// TestPlainMutations is TestMutations of answers that are no streams.
func TestPlainMutations(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	call := `{"id":"a","type":"function","function":{"name":"NAME","arguments":"{\"x\":1}"}}`
	use := `{"type":"tool_use","id":"a","name":"NAME","input":{"x":1}}`
	item := `{"type":"function_call","id":"i","call_id":"a","name":"NAME","arguments":"{}","status":"completed"}`
	both := func(s string) string {
		return strings.ReplaceAll(s, "NAME", "no") + "," + strings.ReplaceAll(strings.ReplaceAll(s, "NAME", "ok"),
			`"a"`, `"b"`)
	}
	apis := map[string]struct {
		text string
		read func(p *plain, b []byte) ([]byte, error)
	}{
		"chat": {completion(both(call), "tool_calls"), func(p *plain, b []byte) ([]byte,
			error) {
			return p.chat(t.Context(), b)
		}},
		"messages": {`{"id":"m","type":"message","role":"assistant","model":"x","content":[{"type":"text",` +
			`"text":"a"},` +
			both(use) + `],"stop_reason":"tool_use","usage":{}}`,
			func(p *plain, b []byte) ([]byte, error) { return p.messages(t.Context(), b) }},
		"responses": {response("r", both(item)),
			func(p *plain, b []byte) ([]byte, error) { return p.responses(t.Context(), b) }},
	}
	for name, x := range apis {
		whole := 0
		for seed := range uint64(3000) {
			r := rand.New(rand.NewPCG(seed, 78))
			text := []byte(x.text)
			for range 1 + r.IntN(2) {
				if v, err := rawjson.Check(text); err == nil {
					text = mutate(r, v)
				}
			}
			out, err := x.read(&plain{judge: onlyOK, session: "s", hosted: func(string) bool { return false }}, text)
			if err != nil {
				continue
			}
			whole++
			var v any
			require.NoError(t, json.Unmarshal(out, &v))
			judged(t, lower(t, v, out), out)
		}
		t.Logf("%s: %d of 3000 changed answers were whole", name, whole)
		assert.Greater(t, whole, 100, name)
	}
}
