package past

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func valueOf(t testing.TB, text string) crypto.Value {
	t.Helper()
	tree := new(crypto.Tree)
	require.NoError(t, tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 64}))
	return tree.Root()
}

// unreadable is for what must not be read.
func unreadable(Run) (crypto.Value, error) {
	return crypto.Value{}, errors.New("not kept")
}

func runAt(tool string, receipt int) Run {
	return Run{tool, uint64(receipt) - 1, uint64(receipt), crypto.Sum(fmt.Append(nil, receipt)),
		contracts.Time(1000 * receipt)}
}

func TestSessionCalls(t *testing.T) {
	t.Parallel()
	var s Session
	assert.True(t, s.Calls("") == 0 && s.Calls("a") == 0, "calls of no session")
	for _, tool := range []string{"a", "b", "a"} {
		s.Allow(&contracts.DecisionRecord{Tool: tool}, 0, nil)
	}
	s.Execute(runAt("c", 1), crypto.Value{}, Facts{}) // no ALLOW
	assert.True(t, s.Calls("") == 3 && s.Calls("a") == 2 && s.Calls("b") == 1 && s.Calls("c") == 0 && s.Calls("d") == 0,
		"%d calls: %d of a, %d of b", s.Calls(""), s.Calls("a"), s.Calls("b"))
}

func TestSessionReceipts(t *testing.T) {
	t.Parallel()
	var s Session
	ask := func(tool, same string, read func(Run) (crypto.Value, error)) int {
		t.Helper()
		var v crypto.Value
		if same != "" {
			v = valueOf(t, same)
		}
		p, err := s.Receipt(tool, v, read)
		if err != nil {
			return -1
		}
		assert.True(t, p.Tool == tool && (same == "" || p.Same.Equal(v)), "%s %s: answered %+v", tool, same, p)
		if p.Entry == nil {
			return 0
		}
		for n := range 20 {
			if r := runAt(tool, n); r.Entry == *p.Entry && r.Time == p.Time {
				return n
			}
		}
		t.Fatal("a receipt that is none")
		return 0
	}
	assert.True(t, ask("a", "", unreadable) == 0 && ask("a", `{"/x":1}`, unreadable) == 0, "a receipt of no session")
	s.Watch("a", []string{"/x", "/y/0"})
	s.Execute(runAt("a", 1), valueOf(t, `{"x":1,"y":["p"],"z":true}`), Facts{})
	s.Execute(runAt("b", 2), valueOf(t, `{"x":1}`), Facts{})
	s.Execute(runAt("a", 3), valueOf(t, `{"x":1,"y":["q"],"z":true}`), Facts{})
	s.Execute(runAt("a", 4), valueOf(t, `{"x":1}`), Facts{})
	s.Execute(runAt("a", 5), valueOf(t, `{"x":"1","y":["p"],"z":{"x":1}}`), Facts{})
	args := map[uint64]string{1: `{"x":1,"y":["p"],"z":true}`, 3: `{"x":1,"y":["q"],"z":true}`, 4: `{"x":1}`,
		5: `{"x":"1","y":["p"],"z":{"x":1}}`}
	var reads []uint64
	read := func(r Run) (crypto.Value, error) {
		assert.True(t, r.Tool == "a" && r.Decision == r.Receipt-1, "read %+v", r)
		reads = append(reads, r.Receipt)
		return valueOf(t, args[r.Receipt]), nil
	}
	for _, c := range []struct {
		same string
		read func(Run) (crypto.Value, error)
		want int
	}{
		{"", unreadable, 5},
		{`{"/x":1,"/y/0":"p"}`, unreadable, 1},
		{`{"/y/0":"q","/x":1}`, unreadable, 3},
		{`{"/x":"1","/y/0":"p"}`, unreadable, 5},
		{`{"/x":2,"/y/0":"p"}`, unreadable, 0},
		{`{"/x":1}`, unreadable, -1}, // not watched, and nothing can be read
		{`{"/x":1}`, read, 4},        // 1 and 3 need not be read
		{`{"/x":1}`, unreadable, 4},  // known by now
		{`{"/x":2}`, unreadable, -1}, // may be one of 1 and 3
		{`{"/x":2}`, read, 0},
		{`{"/x":2}`, unreadable, 0},
		{`{"/z":true}`, read, 3},
		{`{"/z":{"x":1}}`, unreadable, 5},
		{`{"/x":1,"/y/0":null}`, unreadable, 0},
		{`{"x":1}`, unreadable, -1}, // no pointer
		{`["/x"]`, unreadable, -1},  // no object
		{`{}`, read, 5},             // of nothing, everything is equal
	} {
		assert.Equal(t, c.want, ask("a", c.same, c.read), "%s", c.same)
	}
	assert.Equal(t, "[5 4 3 1 5 4 3 5]", fmt.Sprint(reads), "read")
	assert.True(t, ask("b", "", unreadable) == 2 && ask("c", "", unreadable) == 0, "receipts of other tools")
	s.Execute(runAt("a", 6), crypto.Value{}, Facts{}) // its arguments are not at hand
	assert.True(t, ask("a", `{"/x":1}`, unreadable) == -1 && ask("a", "", unreadable) == 6,
		"a run that nobody can read is passed over")
	args[6] = `{"x":9}`
	assert.True(t, ask("a", `{"/x":1}`, read) == 4 && ask("a", `{"/x":9}`, unreadable) == 6, "a run that was read late")
}

// What is known early, read late, or in any mixture of both has the same answers: the latest run.
func TestSessionOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 62))
	found := 0
	for range 300 {
		var whole, late Session
		whole.Watch("a", []string{"/x", "/y"})
		if r.IntN(2) == 0 {
			late.Watch("a", []string{"/y", "/x", "/x"})
		}
		args, latest := map[uint64]crypto.Value{}, map[[2]int]int{}
		read := func(r Run) (crypto.Value, error) { return args[r.Receipt], nil }
		for n := 1; n < 12; n++ {
			had := [2]int{r.IntN(3), r.IntN(2)}
			v := valueOf(t, fmt.Sprintf(`{"x":%d,"y":%d}`, had[0], had[1]))
			args[uint64(n)], latest[had] = v, n
			whole.Execute(runAt("a", n), v, Facts{})
			if r.IntN(2) == 0 {
				v = crypto.Value{}
			}
			late.Execute(runAt("a", n), v, Facts{})
			asked := [2]int{r.IntN(3), r.IntN(2)}
			same := valueOf(t, fmt.Sprintf(`{"/x":%d,"/y":%d}`, asked[0], asked[1]))
			want, err := whole.Receipt("a", same, unreadable)
			require.NoError(t, err)
			require.Equal(t, latest[asked] != 0, want.Entry != nil)
			require.True(t, want.Entry == nil || *want.Entry == runAt("a", latest[asked]).Entry, "not the latest")
			got, err := late.Receipt("a", same, read)
			require.True(t, err == nil && (got.Entry == nil) == (want.Entry == nil) && (got.Entry == nil ||
				*got.Entry == *want.Entry), "run %d: %+v, %v; want %+v", n, got, err, want)
			if got.Entry != nil {
				found++
			}
		}
	}
	assert.True(t, found >= 500, "only %d found", found)
}

func TestSessionUsed(t *testing.T) {
	t.Parallel()
	var s Session
	ann := contracts.Caller{ID: "ann", Roles: []string{"clerk"}}
	call := contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte("args")), Caller: ann, Nonce: "n1", NotBefore: 50,
		PolicyHash: crypto.Sum([]byte("policy")), Session: "s", Tool: "pay"}
	d := contracts.DecisionRecord{ArgsHash: call.ArgsHash, Caller: ann, PolicyHash: call.PolicyHash, Tool: "pay"}
	with := func(change func(*contracts.ApprovalRequest)) *contracts.ApprovalRequest {
		r := call
		change(&r)
		return &r
	}
	assert.False(t, s.Used(&call), "used before anything was")
	s.Allow(&d, 60, nil) // without approvals
	assert.False(t, s.Used(&call), "used by a call without approvals")
	d.Approvals = []contracts.Digest{crypto.Sum([]byte("approval"))}
	s.Allow(&d, 70, []string{"n2", "n3"})
	assert.False(t, s.Used(&call), "used by an ALLOW that listed others")
	for _, n := range []string{"n2", "n3"} {
		assert.True(t,
			s.Used(with(func(r *contracts.ApprovalRequest) { r.Nonce, r.Tool, r.NotBefore = n, "other", 99 })),
			"%s is not used", n)
	}
	s.Allow(&d, 100, nil) // nobody can read which
	s.Allow(&d, 90, nil)
	for _, c := range []struct {
		change func(*contracts.ApprovalRequest)
		used   bool
	}{
		{func(*contracts.ApprovalRequest) {}, true},
		{func(r *contracts.ApprovalRequest) { r.Roles, r.Quorum, r.Expires = []string{"cfo"}, 3, 9 }, true},
		{func(r *contracts.ApprovalRequest) { r.NotBefore = 100 }, true},
		{func(r *contracts.ApprovalRequest) { r.NotBefore = 101 }, false}, // made, or good, only later
		{func(r *contracts.ApprovalRequest) { r.Tool = "other" }, false},
		{func(r *contracts.ApprovalRequest) { r.ArgsHash[0]++ }, false},
		{func(r *contracts.ApprovalRequest) { r.PolicyHash[0]++ }, false},
		{func(r *contracts.ApprovalRequest) { r.Caller.ID = "bob" }, false},
	} {
		if r := with(c.change); s.Used(r) != c.used {
			t.Errorf("%+v: used is %v", *r, !c.used)
		}
	}
}
