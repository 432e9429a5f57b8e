package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/graph"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
)

// Callers of a crowd. Two have one id, and one of these has no tenant.
var (
	ann    = helm.Caller{ID: "ann", Tenant: "t", Roles: []string{"clerk"}}
	bob    = helm.Caller{ID: "bob", Tenant: "t"}
	cid    = helm.Caller{ID: "cid", Tenant: "u"}
	dan    = helm.Caller{ID: "dan"}
	danOfU = helm.Caller{ID: "dan", Tenant: "u"}
	eve    = helm.Caller{ID: "eve", Tenant: "v"} // who never calls
	nobod  = helm.Caller{}
)

// A crowd is a face over a log of many callers, with a token for each, and one for all.
type crowd struct {
	*face
	secrets map[string]string // by id and tenant; "all", "inputs"
	callers map[string]helm.Caller
	read    map[string][]seenEntry // by the names of tokens
}

func newCrowd(t *testing.T, change ...func(*helm.Options)) *crowd {
	t.Helper()
	w := kerneltest.New(t, append(change, func(o *helm.Options) { o.Keep.Outputs = true })...)
	c := &crowd{secrets: map[string]string{}, callers: map[string]helm.Caller{}, read: map[string][]seenEntry{}}
	var entries []auth.Token
	add := func(name string, who helm.Caller, scopes ...auth.Scope) {
		secret, entry, err := auth.NewToken(name, who, scopes, time.Time{})
		require.NoError(t, err)
		entries = append(entries, entry)
		c.secrets[name], c.callers[name] = secret, who
	}
	for _, who := range []helm.Caller{ann, bob, cid, dan, danOfU, eve} {
		add(who.ID+"."+who.Tenant, who, auth.Read)
	}
	add("all", eve, auth.ReadAll)
	add("inputs", eve, auth.ReadAll, auth.Inputs)
	add("ann.inputs", ann, auth.Read, auth.Inputs)
	c.face = faceOf(t, w, entries...)
	c.fill(rand.New(rand.NewPCG(1, 2)))
	for name := range c.secrets {
		c.read[name] = c.reads(name)
	}
	return c
}

// fill makes calls: in sessions of one caller, of two of a tenant, and of strangers.
func (c *crowd) fill(random *rand.Rand) {
	callers := []helm.Caller{ann, bob, cid, dan, danOfU, nobod}
	sessions := []string{"main", "open"}
	for _, who := range callers {
		for _, name := range []string{"a", "b/c"} {
			sessions = append(sessions, auth.SessionName(who, name))
		}
	}
	for _, s := range sessions[2:] { // before any call
		require.NoError(c.T, c.Kernel.UserMessage(c.T.Context(), s, "words"))
	}
	var last contracts.Ref
	do := func(who helm.Caller, session string) {
		in := helm.Intent{Tool: "echo", Args: []byte(`{"text":"x"}`), Session: session, Caller: who}
		switch random.IntN(4) {
		case 0:
			in.Tool, in.Args = "closed", []byte(`{}`)
		case 1:
			in.Args = []byte(`{"n":"no number"}`)
		}
		if random.IntN(2) == 0 && last != (contracts.Ref{}) {
			in.After = []contracts.Ref{last}
		}
		_, r := c.Kernel.Guard(c.T.Context(), in)
		require.NotEmpty(c.T, r.Entry)
		last = r.Ref()
	}
	for range 100 {
		who := callers[random.IntN(len(callers))]
		switch random.IntN(6) {
		case 0:
			do(who, sessions[random.IntN(2)])
		case 1:
			do([]helm.Caller{ann, bob}[random.IntN(2)], "mates")
		default:
			do(who, auth.SessionName(who, []string{"a", "b/c"}[random.IntN(2)]))
		}
		if random.IntN(10) == 0 {
			session := []string{"mates", "open"}[random.IntN(2)]
			require.NoError(c.T, c.Kernel.UserMessage(c.T.Context(), session, fmt.Sprint(random.Int())))
		}
	}
	require.NoError(c.T, c.Kernel.UserMessage(c.T.Context(), "open", "the last"))
	for _, s := range []string{"open", "mates", auth.SessionName(ann, "a"), auth.SessionName(cid, "b/c")} {
		require.NoError(c.T, c.Kernel.CloseSession(c.T.Context(), s))
	}
}

// A seen entry is what a reference that reads the log again says of it.
type seenEntry struct {
	index uint64
	hash  contracts.Digest
	st    *contracts.Statement
}

// reads returns what the token of that name may read, in log order: a second opinion.
func (c *crowd) reads(name string) (list []seenEntry) {
	who, all := c.callers[name], name == "all" || name == "inputs"
	may := func(caller helm.Caller) bool {
		if who.Tenant != "" {
			return caller.Tenant == who.Tenant
		}
		return caller.ID == who.ID && caller.Tenant == ""
	}
	byDecision := map[contracts.Digest]helm.Caller{}
	called := map[string][]helm.Caller{}
	for i, st := range c.Statements() {
		hash := c.Entry(i).Hash()
		var ok bool
		switch d := st.Judgement(); {
		case d != nil:
			ok = may(d.Caller)
			byDecision[hash] = d.Caller
			called[st.Session] = append(called[st.Session], d.Caller)
		case st.Receipt != nil:
			ok = may(byDecision[st.Receipt.DecisionHash])
		case len(called[st.Session]) > 0:
			ok = !slices.ContainsFunc(called[st.Session], func(x helm.Caller) bool { return !may(x) })
		default:
			ok = st.Session != "" && auth.SessionName(who, st.Session) == st.Session
		}
		if ok || all {
			list = append(list, seenEntry{i, hash, st})
		}
	}
	return list
}

// pages gets all pages of a list.
func pages[T any](f *face, secret, target string, limit int, down bool) (items []T, size uint64) {
	f.T.Helper()
	u, err := url.Parse(target)
	require.NoError(f.T, err)
	q := u.Query()
	q.Set("limit", strconv.Itoa(limit))
	cursor := "after"
	if down {
		q.Set("order", "desc")
		cursor = "before"
	}
	for {
		u.RawQuery = q.Encode()
		var p page[T]
		require.NoError(f.T, json.Unmarshal([]byte(f.get(secret, u.String()).body), &p))
		require.LessOrEqual(f.T, len(p.Items), limit)
		items, size = append(items, p.Items...), p.Size
		if p.Next == nil {
			return items, size
		}
		q.Set(cursor, strconv.FormatUint(*p.Next, 10))
	}
}

// TestReaders: each reader gets exactly what concerns the calls of its tenant, or of its caller, in
// every list and count, up and down, however long the pages are, in memory and on files.
func TestReaders(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	for name, secret := range c.secrets {
		want := c.read[name]
		if name == "eve.v" {
			require.Empty(t, want)
		} else {
			require.NotEmpty(t, want, name)
		}
		var entries, receipts []uint64
		sessions := map[string]*session{}
		var order []string
		for _, e := range want {
			entries = append(entries, e.index)
			s := sessions[e.st.Session]
			if s == nil {
				s = &session{Session: e.st.Session, First: e.index}
				sessions[e.st.Session] = s
				order = append(order, e.st.Session)
			}
			s.Entries, s.Last, s.Head = s.Entries+1, e.index, e.hash
			switch r := e.st.Receipt; {
			case e.st.Decision != nil:
				s.Allows++
				s.Open++
			case r != nil && r.Decision != nil:
				s.Denials++
			case r != nil:
				s.Open--
			case e.st.Close != nil:
				s.Closed = true
			}
			if e.st.Receipt != nil {
				receipts = append(receipts, e.index)
			}
		}
		for _, down := range []bool{false, true} {
			if down {
				slices.Reverse(entries)
				slices.Reverse(receipts)
				slices.Reverse(order)
			}
			for _, limit := range []int{3, 1000} {
				nodes, size := pages[node[string]](c.face, secret, "/helm/proofgraph", limit, down)
				assert.EqualValues(t, len(want), size, name)
				assert.Equal(t, entries, indexes(nodes, func(n node[string]) uint64 { return n.Index }), name)

				items, size := pages[item](c.face, secret, "/helm/receipts", limit, down)
				assert.EqualValues(t, len(receipts), size, name)
				assert.Equal(t, receipts, indexes(items, func(x item) uint64 { return x.Index }), name)

				some, size := pages[session](c.face, secret, "/api/v1/proofgraph/sessions", limit, down)
				assert.EqualValues(t, len(order), size, name)
				require.Len(t, some, len(order), name)
				for i, s := range some {
					assert.Equal(t, *sessions[order[i]], s, name)
				}
			}
		}
		for _, s := range order {
			if s == "" {
				continue
			}
			target := "/api/v1/proofgraph/sessions/" + url.PathEscape(s) + "/receipts"
			items, _ := pages[item](c.face, secret, target, 3, false)
			again, _ := pages[item](c.face, secret, "/helm/receipts?session="+url.QueryEscape(s), 1000, false)
			assert.Equal(t, again, items, "%s %s", name, s)
			n := 0
			for _, e := range want {
				if e.st.Session == s && e.st.Receipt != nil {
					assert.Equal(t, e.index, items[n].Index)
					n++
				}
			}
			assert.Len(t, items, n)
			nodes, size := pages[node[string]](c.face, secret, "/helm/proofgraph?entry=1&session="+url.QueryEscape(s), 4, false)
			assert.EqualValues(t, sessions[s].Entries, size)
			require.Len(t, nodes, int(size))
			for _, n := range nodes {
				b, err := base64.StdEncoding.DecodeString(n.Entry)
				require.NoError(t, err)
				assert.Equal(t, n.Hash, contracts.Entry(b).Hash().String())
				assert.Equal(t, s, n.Session)
			}
		}
	}
}

func indexes[T any](list []T, of func(T) uint64) (all []uint64) {
	for _, x := range list {
		all = append(all, of(x))
	}
	return all
}

// TestOthersDoNotExist: whatever names an entry or a session of others gets the answer that the
// name of nothing gets, byte for byte.
func TestOthersDoNotExist(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	size := c.Size()
	for _, name := range []string{"ann.t", "cid.u", "dan.", "eve.v", "ann.inputs"} {
		secret := c.secrets[name]
		mine := map[uint64]bool{}
		sessions := map[string]bool{}
		for _, e := range c.read[name] {
			mine[e.index] = true
			sessions[e.st.Session] = true
		}
		same := func(format, theirs, nothing string) {
			t.Helper()
			a := c.ask(secret, "GET", fmt.Sprintf(format, url.PathEscape(theirs)))
			b := c.ask(secret, "GET", fmt.Sprintf(format, url.PathEscape(nothing)))
			require.GreaterOrEqual(t, a.status, 400, "%s: %s", name, fmt.Sprintf(format, theirs))
			require.Equal(t, b, a, "%s: %s", name, fmt.Sprintf(format, theirs))
		}
		for i, st := range c.Statements() {
			if mine[i] || i > 8 && i%3 > 0 {
				continue
			}
			index, none := strconv.FormatUint(i, 10), strconv.FormatUint(size+i, 10)
			hash := c.Entry(i).Hash()
			nothing := hash
			nothing[31] ^= 1
			id := st.Session + "/" + strconv.FormatUint(st.Seq, 10)
			for _, format := range []string{"/api/v1/entry?name=%s", "/helm/proofgraph?of=%s",
				"/api/v1/proofgraph?of=%s&direction=descendants&along=links", "/api/v1/proofgraph?of=%s&format=dot"} {
				same(format, index, none)
				same(format, hash.String(), nothing.String())
				same(format, id, "nothing/1")
			}
			for _, format := range []string{"/helm/proofgraph", "/helm/receipts", "/api/v1/proofgraph/sessions"} {
				same(format+"?after=%s", index, none)
				same(format+"?order=desc&before=%s", index, none)
			}
			if !sessions[st.Session] && st.Session != "" {
				same("/helm/receipts?session=%s", st.Session, "nothing")
				same("/helm/proofgraph?session=%s", st.Session, "nothing")
				same("/api/v1/proofgraph/sessions/%s/receipts", st.Session, "nothing")
			}
		}
	}
}

// A drawn graph is an answer.
type drawn struct {
	Size    uint64
	Entries []node[string]
}

// TestGraph: who may read everything gets what package graph writes. For others there is nothing
// that they may not read, nor what is reached through that alone.
func TestGraph(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	g, err := graph.Read(t.Context(), c.Store)
	require.NoError(t, err)
	for _, along := range []string{"causes", "links"} {
		for _, direction := range []string{"ancestors", "descendants"} {
			for _, name := range []string{"all", "ann.t", "dan."} {
				for n, e := range c.read[name] {
					if n%5 == 0 {
						c.sameGraph(g, name, e.index, along, direction)
					}
				}
			}
		}
	}
}

func (c *crowd) sameGraph(g *graph.Graph, name string, of uint64, along, direction string) {
	c.T.Helper()
	edges := graph.Causes
	if along == "links" {
		edges = graph.Links
	}
	set := g.Ancestors(of, edges)
	if direction == "descendants" {
		set = g.Descendants(of, edges)
	}
	var whole, dot strings.Builder
	require.NoError(c.T, g.WriteJSON(c.T.Context(), &whole, set))
	require.NoError(c.T, g.WriteDOT(c.T.Context(), &dot, set))
	target := fmt.Sprintf("/api/v1/proofgraph?of=%d&along=%s&direction=%s", of, along, direction)
	got := c.get(c.secrets[name], target).body
	gotDOT := c.get(c.secrets[name], target+"&format=dot")
	assert.Equal(c.T, "text/vnd.graphviz", gotDOT.header.Get("Content-Type"))
	if name == "all" {
		assert.Equal(c.T, whole.String(), got)
		assert.Equal(c.T, dot.String(), gotDOT.body)
		return
	}
	var all, some drawn
	require.NoError(c.T, json.Unmarshal([]byte(whole.String()), &all))
	require.NoError(c.T, json.Unmarshal([]byte(got), &some))
	list := c.read[name]
	mine := map[uint64]bool{}
	for _, e := range list {
		mine[e.index] = true
	}
	reached := map[uint64]bool{of: true}
	for range all.Entries { // until nothing is added, the slow way
		for _, n := range all.Entries {
			for _, e := range n.Edges {
				from, to := n.Index, e.To
				if direction == "descendants" {
					from, to = to, from
				}
				if reached[from] && mine[to] && (e.Cause || along == "links") {
					reached[to] = true
				}
			}
		}
	}
	want := drawn{Size: uint64(len(list))}
	lines := 0
	for _, n := range all.Entries {
		if !reached[n.Index] {
			continue
		}
		n.Edges = slices.DeleteFunc(n.Edges, func(e edge) bool { return !reached[e.To] })
		want.Entries = append(want.Entries, n)
		lines += 1 + len(n.Edges)
	}
	assert.Equal(c.T, want, some, "%s %s", name, target)
	assert.Equal(c.T, 4+lines, strings.Count(gotDOT.body, "\n"), gotDOT.body)
	assert.True(c.T, strings.HasPrefix(gotDOT.body, fmt.Sprintf("// %d of %d entries:", len(reached), len(list))))
	for i := range c.Size() {
		named := strings.Contains(gotDOT.body, fmt.Sprintf("\te%d ", i)) ||
			strings.Contains(gotDOT.body, fmt.Sprintf("-> e%d ", i))
		assert.Equal(c.T, reached[i], named, "%s: e%d", target, i)
	}
}

// TestNodesAreTheGraph: the pages of entries are the whole graph.
func TestNodesAreTheGraph(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	c := newCrowd(t)
	g, err := graph.Read(t.Context(), c.Store)
	require.NoError(t, err)
	var text strings.Builder
	require.NoError(t, g.WriteJSON(t.Context(), &text, g.All()))
	var want drawn
	require.NoError(t, json.Unmarshal([]byte(text.String()), &want))
	for _, limit := range []int{11, 1000} {
		nodes, size := pages[node[string]](c.face, c.secrets["all"], "/api/v1/proofgraph", limit, false)
		assert.Equal(t, want, drawn{size, nodes})
	}
	mine := map[uint64]bool{}
	for _, e := range c.read["ann.t"] {
		mine[e.index] = true
	}
	nodes, _ := pages[node[string]](c.face, c.secrets["ann.t"], "/api/v1/proofgraph", 9, true)
	require.NotEmpty(t, nodes)
	for _, n := range nodes {
		edges := slices.DeleteFunc(want.Entries[n.Index].Edges, func(e edge) bool { return !mine[e.To] })
		assert.Equal(t, edges, n.Edges)
	}
}
