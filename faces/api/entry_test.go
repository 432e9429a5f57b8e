package api

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
)

// one gets one entry.
func (f *face) one(secret, name string) (x struct {
	item
	Statement map[string]any
	Arguments *string
	Output    *string
	Encoding  string
}) {
	f.T.Helper()
	a := f.get(secret, "/api/v1/entry?name="+url.QueryEscape(name))
	require.NoError(f.T, json.Unmarshal([]byte(a.body), &x))
	return x
}

// TestArgumentsAndOutputs: they are there for a token of scope inputs alone, as they were judged
// and released, and never what was withheld.
func TestArgumentsAndOutputs(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.Outputs = true })
	all, allEntry := token(t, eve, auth.ReadAll)
	inputs, inputsEntry := token(t, cid, auth.Read, auth.Inputs)
	f := faceOf(t, w, allEntry, inputsEntry)
	as := func(in *helm.Intent) { in.Caller = cid }
	for _, x := range []struct {
		tool, args, output string
		arguments, want    any
		encoding           string
	}{
		{"echo", `{"text":"hidden words"}`, `{"b":1,"a":2}`, `{"n":1,"text":"hidden words"}`, `{"a":2,"b":1}`, ""},
		{"echo", `{"text":"hidden words"}`, "hidden words", `{"n":1,"text":"hidden words"}`, "hidden words", ""},
		{"echo", `{"text":"hidden words"}`, "\xff\x00", `{"n":1,"text":"hidden words"}`, "\xff\x00", "base64"},
		{"pinned", `{"text":"hidden words"}`, `{"no":"hidden words"}`, `{"text":"hidden words"}`, nil, ""},
		{"closed", `{"text":"hidden words"}`, "", `{"text":"hidden words"}`, nil, ""},
		{"echo", `{"text":"hidden words"`, "", nil, nil, ""},
	} {
		w.Tool = kerneltest.Returns(x.output, nil)
		_, r := w.Call(x.tool, x.args, as)
		name := fmt.Sprint(r.Index)
		a := f.get(all, "/api/v1/entry?name="+name)
		for _, member := range []string{"hidden words", `"arguments"`, `"output"`, `"encoding"`} {
			assert.NotContains(t, a.body, member, x.output)
		}
		got := f.one(inputs, name)
		if x.arguments == nil {
			assert.Nil(t, got.Arguments)
		} else if assert.NotNil(t, got.Arguments, x.tool+x.args+x.output) {
			assert.Equal(t, x.arguments, *got.Arguments)
		}
		assert.Equal(t, x.encoding, got.Encoding)
		if x.want == nil {
			assert.Nil(t, got.Output, "%s", x.output)
			continue
		}
		require.NotNil(t, got.Output, x.output)
		output := *got.Output
		if got.Encoding != "" {
			b, err := base64.StdEncoding.DecodeString(output)
			require.NoError(t, err)
			output = string(b)
		}
		assert.Equal(t, x.want, output)
		assert.Equal(t, string(r.Output), output)
	}
	list := f.get(inputs, "/helm/receipts?entry=1").body + f.get(inputs, "/helm/proofgraph").body
	assert.NotContains(t, list, "hidden words")
}

// TestErased: what was erased, or never kept, is not there, and that is no fault.
func TestErased(t *testing.T) {
	t.Parallel()
	w := kerneltest.New(t, func(o *helm.Options) { o.Keep.DropInputs = true })
	secret, entry := token(t, eve, auth.ReadAll, auth.Inputs)
	f := faceOf(t, w, entry)
	_, r := w.Call("echo", `{"text":"x"}`)
	x := f.one(secret, fmt.Sprint(r.Index))
	assert.Nil(t, x.Arguments)
	assert.Nil(t, x.Output)
	assert.Equal(t, contracts.Executed, x.Outcome)
}

// TestEntry: an entry has one answer by each of its names, with the decision of its call.
func TestEntry(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	for n, e := range c.read["all"] {
		if n%3 > 0 {
			continue
		}
		id := fmt.Sprintf("%s/%d", e.st.Session, e.st.Seq)
		x := c.one(c.secrets["all"], id)
		assert.Equal(t, x, c.one(c.secrets["all"], e.hash.String()))
		assert.Equal(t, x, c.one(c.secrets["all"], fmt.Sprint(e.index)))
		assert.Equal(t, base64.StdEncoding.EncodeToString(c.Entry(e.index)), x.Entry)
		assert.Equal(t, []any{e.index, e.hash, e.st.Kind()}, []any{x.Index, x.Hash, x.Kind})
		if e.st.Receipt == nil && e.st.Decision == nil {
			assert.Nil(t, x.Decision)
			continue
		}
		require.NotNil(t, x.Decision, id)
		d := c.one(c.secrets["all"], x.Decision.ID)
		assert.Equal(t, d.Index, x.Decision.Index)
		assert.Equal(t, d.Hash, x.Decision.Hash)
		assert.Equal(t, d.Caller, x.Caller)
		if r := e.st.Receipt; r != nil && r.Decision == nil {
			assert.Equal(t, r.DecisionHash, x.Decision.Hash)
		}
	}
}

// TestReported: a receipt says whether HELM saw the call run.
func TestReported(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	f := faceOf(t, w)
	desk := handoff.New(w.Kernel, 1)
	_, _, ticket := desk.Begin(t.Context(),
		helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: "s", Caller: cid}, contracts.Digest{})
	require.NotNil(t, ticket)
	var sessions page[session]
	get := func() session {
		require.NoError(t, json.Unmarshal([]byte(f.get("", "/api/v1/proofgraph/sessions").body), &sessions))
		return sessions.Items[len(sessions.Items)-1]
	}
	assert.EqualValues(t, 1, get().Open)
	_, r, ok := ticket.Settle(handoff.Outcome{Output: []byte("1.10"), Raw: true})
	require.True(t, ok)
	x := f.one("", fmt.Sprint(r.Index))
	assert.True(t, x.Reported)
	assert.Equal(t, "reported", x.Sandbox)
	assert.Equal(t, "cid", x.Caller.ID)
	assert.Zero(t, get().Open)
	require.NoError(t, desk.Close(t.Context()))
}

// TestFilters: each filter chooses what it says, together with the others.
func TestFilters(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	var mid contracts.Time
	for _, e := range c.read["all"] {
		if e.index == c.Size()/2 {
			mid = e.st.Time
		}
	}
	at := url.QueryEscape(mid.String())
	said := func(st *contracts.Statement) (tool string, v contracts.Verdict, reason contracts.ReasonCode) {
		if d := st.Judgement(); d != nil {
			return d.Tool, d.Verdict, d.Reason
		}
		return st.Receipt.Tool, st.Receipt.Verdict, st.Receipt.Reason
	}
	for query, is := range map[string]func(st *contracts.Statement) bool{
		"tool=closed":      func(st *contracts.Statement) bool { tool, _, _ := said(st); return tool == "closed" },
		"tool=none":        func(*contracts.Statement) bool { return false },
		"verdict=DENY":     func(st *contracts.Statement) bool { _, v, _ := said(st); return v == contracts.Deny },
		"outcome=EXECUTED": func(st *contracts.Statement) bool { return st.Receipt.Outcome == contracts.Executed },
		"reason=SCHEMA_VIOLATION": func(st *contracts.Statement) bool {
			_, _, reason := said(st)
			return reason == contracts.ReasonSchemaViolation
		},
		"since=" + at: func(st *contracts.Statement) bool { return st.Time >= mid },
		"until=" + at: func(st *contracts.Statement) bool { return st.Time < mid },
		"verdict=DENY&tool=echo": func(st *contracts.Statement) bool {
			tool, v, _ := said(st)
			return tool == "echo" && v == contracts.Deny
		},
	} {
		var want, all []uint64
		for _, e := range c.read["ann.t"] {
			if e.st.Receipt != nil {
				all = append(all, e.index)
				if is(e.st) {
					want = append(want, e.index)
				}
			}
		}
		if query != "tool=none" {
			require.NotEmpty(t, want, query)
			require.Less(t, len(want), len(all), query)
		}
		items, size := pages[item](c.face, c.secrets["ann.t"], "/helm/receipts?entry=1&"+query, 3, false)
		assert.EqualValues(t, len(all), size)
		assert.Equal(t, want, indexes(items, func(x item) uint64 { return x.Index }), query)
		for _, x := range items {
			b, err := base64.StdEncoding.DecodeString(x.Entry)
			require.NoError(t, err)
			assert.Equal(t, x.Hash, contracts.Entry(b).Hash())
		}
		back, _ := pages[item](c.face, c.secrets["ann.t"], "/helm/receipts?entry=1&"+query, 2, true)
		require.Len(t, back, len(items))
		for i, x := range items {
			assert.Equal(t, x, back[len(back)-1-i])
		}
	}
}

// TestFilterThatFindsLittle: a request looks at so many entries and no more, and says where the
// next goes on.
func TestFilterThatFindsLittle(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := kerneltest.New(t)
	g := grow(t, w)
	g.every = 1
	g.add(lookedAt + 10)
	f := faceOf(t, w)
	f.over(g.store)
	var p page[item]
	require.NoError(t, json.Unmarshal([]byte(f.get("", "/helm/receipts?tool=none").body), &p))
	require.NotNil(t, p.Next)
	assert.NotNil(t, p.Items)
	assert.Empty(t, p.Items)
	a := f.get("", fmt.Sprintf("/helm/receipts?tool=none&after=%d", *p.Next))
	assert.JSONEq(t, fmt.Sprintf(`{"items":[],"next":null,"size":%d}`, lookedAt+10), a.body)
}

// TestWrongParameters: each is refused, and none is taken for another.
func TestWrongParameters(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	f := newFace(t)
	f.Call("closed", `{}`)
	for target, queries := range map[string][]string{
		"/helm/receipts": {"limit=0", "limit=1001", "limit=99999999999999999999", "limit=-1", "limit=+1", "limit=01",
			"limit=1e2", "limit=", "limit=%31%00", "limit=1&limit=1", "order=up", "order=", "order=DESC",
			"after=-1", "after=x", "after=", "after=0x1", "after=18446744073709551615", "after=18446744073709551616",
			"before=1", "order=desc&after=1", "order=desc&before=99", "verdict=allow", "verdict=", "outcome=DENY",
			"outcome=", "reason=denied", "reason=", "tool=", "since=now", "since=", "until=2027-01-31", "entry=0",
			"entry=", "entry=true", "since=0001-01-01T00:00:00Z", "Tool=echo", "of=1", "name=1", "session=s&session=t"},
		"/api/v1/proofgraph/sessions/s/receipts": {"session=s", "limit=0", "after=77"},
		"/api/v1/proofgraph/sessions":            {"limit=0", "tool=echo", "after=77"},
		"/api/v1/proofgraph": {"along=causes", "format=dot", "direction=ancestors", "of=1&limit=5", "of=1&after=0",
			"of=1&along=x", "of=1&along=", "of=1&direction=up", "of=1&format=svg", "of=", "of=x", "of=s/", "of=s/01",
			"of=s/-1", "of=1&of=1", "limit=1001"},
		"/api/v1/entry": {"", "name=", "name=x", "name=01", "name=%2F", "name=s/x", "name=" + strings.Repeat("A", 64)},
	} {
		for _, query := range queries {
			f.ask("", "GET", target+"?"+query).fails(400, "helm_bad_request")
		}
	}
	for _, name := range []string{"99", "s/9", "none/0", strings.Repeat("a", 64), "18446744073709551615"} {
		f.ask("", "GET", "/api/v1/entry?name="+name).fails(404, "helm_not_found")
		f.ask("", "GET", "/api/v1/proofgraph?of="+name).fails(404, "helm_not_found")
	}
	f.ask("", "GET", "/helm/receipts?session=none").fails(404, "helm_not_found")
}

// TestSessionInAPath: a session's name is one segment, whatever is in it.
func TestSessionInAPath(t *testing.T) {
	t.Parallel()
	f := newFace(t)
	f.Call("closed", `{}`, kerneltest.InSession("anonymous/a/b"))
	f.Call("closed", `{}`, kerneltest.InSession("anonymous/a"))
	const begin, end = "/api/v1/proofgraph/sessions/", "/receipts"
	assert.Contains(t, f.get("", begin+"anonymous%2Fa%2Fb"+end).body, `"session":"anonymous/a/b"`)
	assert.Contains(t, f.get("", begin+"anonymous%2fa"+end).body, `"session":"anonymous/a"`)
	for _, name := range []string{"anonymous/a", "anonymous%252Fa", "..%2Fanonymous%2Fa", "a", "", "%00",
		"anonymous%2Fa%2F..", "anonymous%2Fa%2Fb%2Freceipts%3F"} {
		f.ask("", "GET", begin+name+end).fails(404, "helm_not_found")
	}
	f.ask("", "GET", "/api/v1/proofgraph/sessions/anonymous%2Fa%2Freceipts").fails(404, "helm_not_found")
	mux := http.NewServeMux() // as the command has it
	mux.Handle("/", f.api)
	f.Handler = f.who.Handler(mux)
	assert.Contains(t, f.get("", begin+"anonymous%2Fa%2Fb"+end).body, `"session":"anonymous/a/b"`)
	for _, method := range []string{"HEAD", "PUT", "POST"} {
		f.ask("", method, begin+"anonymous%2Fa"+end).fails(405, "helm_method_not_allowed")
	}
}

// TestLogThatCannotBeRead: 503, and nobody is told why.
func TestLogThatCannotBeRead(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := kerneltest.New(t)
	_, r := w.Call("echo", `{}`)
	_, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	secret, entry := token(t, eve, auth.ReadAll, auth.Inputs)
	f := faceOf(t, w, entry)
	targets := []string{"/helm/receipts", "/helm/receipts?tool=x", "/helm/proofgraph", "/helm/proofgraph?of=1",
		"/api/v1/proofgraph/sessions", "/api/v1/entry?name=1", "/api/v1/entry?name=" + r.Entry.Hash().String(),
		"/api/v1/verify", "/api/v1/pack"}
	secrets := errors.New("/srv/secret: disk")
	for i := range 6 {
		f.over(&failing{Store: w.Store, after: i, err: secrets})
		failed := 0
		for _, target := range targets {
			if a := f.ask(secret, "GET", target); a.status != 200 {
				a.fails(503, "helm_unavailable")
				assert.NotContains(t, a.body, "secret")
				failed++
			}
		}
		assert.NotZero(t, failed, i)
	}
}

// TestSameBits: an entry whose hash begins as another's does is not taken for it.
func TestSameBits(t *testing.T) {
	t.Parallel()
	w := kerneltest.NewUnbound(t)
	f := faceOf(t, w)
	desk := handoff.New(w.Kernel, 2)
	begin := func(session string) *handoff.Ticket {
		_, _, ticket := desk.Begin(t.Context(), helm.Intent{Tool: "echo", Args: []byte(`{}`), Session: session},
			contracts.Digest{})
		require.NotNil(t, ticket)
		return ticket
	}
	first, second := begin("a"), begin("b")
	_, r, ok := first.Settle(handoff.Outcome{Output: []byte("1")})
	require.True(t, ok)
	v, err := f.api.log.catchUp(t.Context())
	require.NoError(t, err)
	require.Equal(t, []what{allow, allow}, []what{v.entries[2].what(), v.entries[3].what()})
	v.entries[3] = v.entries[3]&^hashMask | v.entries[2]&hashMask // which is what the face has
	x := f.one("", fmt.Sprint(r.Index))
	require.NotNil(t, x.Decision)
	assert.EqualValues(t, 2, x.Decision.Index)
	assert.Equal(t, "a/0", x.Decision.ID)
	assert.EqualValues(t, 2, f.one("", first.ID()).Index)
	f.ask("", "GET", "/api/v1/entry?name="+second.ID()).fails(404, "helm_not_found") // its bits are others now
	require.NoError(t, desk.Close(t.Context()))
}
