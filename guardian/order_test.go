package guardian

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// A trial is a call that is admissible, under a grant of ann's, and the stack that it is judged by.
type trial struct {
	t      testing.TB
	bundle string
	docs   []string
	args   string
	change []func(*contracts.Inputs)
	grant  contracts.Delegation
	late   []string // roles of approvals that are presented out of time
}

func newTrial(t testing.TB) *trial {
	return &trial{t: t, args: `{"path":"/srv/a","n":1}`, grant: contracts.Delegation{Delegator: "ann",
		Delegate: "agent"},
		bundle: `{"helm":"policy/v1","layer":"P1","bundle":{"name":"b","version":1},"tools":{
			"pay":{"effect":"write","scope":[{"arg":"/path","within":"/srv"}],"input":{"type":"object","required":["path","n"],"properties":{"path":{"type":"string"},"n":{"type":"number"}}}},
			"look":{"effect":"read","input":{"type":"object","properties":{}}}},
			"rules":[{"id":"big","deny":"pay","when":{"arg":"/n","gt":9}},{"id":"clerks","allow":["pay","look"],"when":{"caller":"roles","has":"clerk"}}]}`}
}

// floor and overlay add a document.
func (x *trial) floor(name, keys string)   { x.docs = append(x.docs, floor(name, keys)) }
func (x *trial) overlay(name, keys string) { x.docs = append(x.docs, overlay(name, keys)) }

func (x *trial) in(f func(*contracts.Inputs)) { x.change = append(x.change, f) }

func (x *trial) judge() (contracts.DecisionRecord, Why) {
	x.t.Helper()
	in := inputs(x.t, "pay", x.args)
	in.Caller = contracts.Caller{ID: "agent", Tenant: "acme", Roles: []string{"bot"}}
	in.Envelopes.Delegation = chained(x.t, x.grant)
	in.Session = "chat"
	for _, f := range x.change {
		f(&in)
	}
	p := mustCompile(x.t, append([]string{x.bundle}, x.docs...)...)
	for _, role := range x.late {
		e, err := contracts.ApprovalRequest{ArgsHash: in.ArgsHash, Caller: in.Caller, Expires: noon,
			Nonce: strings.Repeat("0f", 16), NotBefore: noon - 1, PolicyHash: p.Hash(),
			Quorum: 1, Roles: []string{role}, SchemaHash: p.stack.Tools["pay"].Digest, Session: in.Session,
			Tool: in.Tool}.Approve(keyOf(x.t, "olga"))
		if err != nil {
			x.t.Fatal(err)
		}
		in.Envelopes.Approvals = append(in.Envelopes.Approvals, e)
	}
	return judgeBy(p, &in, trusted(x.t), onlyLedger{new(past.Ledger)})
}

// requires adds a floor that requires this of pay.
func (x *trial) requires(name, need string) {
	x.floor(name, `,"requires":[{"id":"q","tools":"pay","all":[`+need+`]}]`)
}

// A fault is one thing that is wrong with a call, and how the call ends for it.
type fault struct {
	want want
	make func(*trial)
}

// at is where a fault is looked for.
func (f fault) at() int {
	if strings.HasPrefix(string(f.want.reason), "APPROVAL") {
		return 9
	}
	return f.want.condition
}

// faults are in the published order of conditions, of reasons within them, and of the stack within
// these. Approvals are asked for last.
var faults = []fault{
	{want{contracts.ReasonArgsCanonicalization, 0, ""}, func(x *trial) {
		x.in(func(in *contracts.Inputs) { in.ArgsForm, in.Args = "raw", value.Follow(in.Args, []string{"none"}) })
	}},
	{want{contracts.ReasonToolNotFound, 1, ""},
		func(x *trial) { x.in(func(in *contracts.Inputs) { in.Tool = "none" }) }},
	{want{contracts.ReasonSideEffectNotPermitted, 1, ""},
		func(x *trial) { x.floor("a1", `,"profile":{"effects":["read"]}`) }},
	{want{contracts.ReasonConnectorNotAllowed, 1, ""},
		func(x *trial) { x.floor("a0", `,"profile":{"connectors":["none"]}`) }},
	{want{contracts.ReasonSandboxViolation, 1, ""},
		func(x *trial) { x.floor("a2", `,"profile":{"sandbox":{"write":"pure"}}`) }},
	{want{contracts.ReasonDriverNotBound, 1, ""},
		func(x *trial) { x.in(func(in *contracts.Inputs) { in.Drivers = 0 }) }},
	{want{contracts.ReasonSchemaViolation, 2, ""},
		func(x *trial) { x.args = strings.Replace(x.args, `{`, `{"more":1,`, 1) }},
	{want{contracts.ReasonDestinationNotAllowed, 2, "P1:b:scope"},
		func(x *trial) { x.args = strings.Replace(x.args, "/srv", "/etc", 1) }},
	{want{contracts.ReasonBudgetError, 3, "P0:b0:b"}, func(x *trial) {
		x.floor("b0", `,"budgets":[{"id":"b","tools":"pay","limit":9,"per":"tenant","window":"day","cost":1}]`)
		x.in(func(in *contracts.Inputs) { in.Caller.Tenant = "" })
	}},
	{want{contracts.ReasonBudgetExceeded, 3, "P0:a:b"}, func(x *trial) {
		x.floor("a", `,"budgets":[{"id":"b","tools":"pay","limit":0,"per":"all","window":"day","cost":1}]`)
	}},
	{want{contracts.ReasonMissingRequirement, 4, "P0:d0:q"}, func(x *trial) { x.requires("d0", `{"receipt":"look"}`) }},
	{want{contracts.ReasonMissingRequirement, 4, "P0:d1:q"}, func(x *trial) {
		x.requires("d1", `{"attestation":{"type":"dual","max_age":"1h"}},{"approval":{"roles":["owner"]}}`)
	}},
	{want{contracts.ReasonFailClosedError, 4, ""}, func(x *trial) {
		x.floor("d2",
			`,"requires":[{"id":"q","tools":"pay","when":{"arg":"/path","host":"a.b"},"all":[{"receipt":"look"}]}]`)
	}},
	{want{contracts.ReasonPolicyViolation, 5, "P1:b:expires"}, func(x *trial) {
		x.bundle = strings.Replace(x.bundle, `"tools":{`, `"expires":"2026-07-15T12:00:00Z","tools":{`, 1)
	}},
	{want{contracts.ReasonPolicyViolation, 5, "P1:b:big"},
		func(x *trial) { x.args = strings.Replace(x.args, `"n":1`, `"n":10`, 1) }},
	{want{contracts.ReasonNoPolicyDefined, 5, ""}, func(x *trial) { x.grant.Delegator = "carl" }},
	{want{contracts.ReasonPolicyViolation, 5, "P2:o0:no"},
		func(x *trial) { x.overlay("o0", `,"rules":[{"id":"no","deny":"pay"}],"only":"look"`) }},
	{want{contracts.ReasonPolicyViolation, 5, "P2:o1:only"},
		func(x *trial) { x.overlay("o1", `,"only":"look","expires":"2026-07-15T12:00:00Z"`) }},
	{want{contracts.ReasonFailClosedError, 5, ""}, func(x *trial) {
		x.overlay("o2", `,"rules":[{"id":"no","deny":"pay","when":{"arg":"/path","host":"a.b"}}]`)
	}},
	{want{contracts.ReasonPolicyViolation, 5, "P2:o3:expires"},
		func(x *trial) { x.overlay("o3", `,"expires":"2026-07-15T12:00:00Z"`) }},
	{want{contracts.ReasonDelegationInvalid, 6, ""}, func(x *trial) { x.grant.Expires = noon }},
	{want{contracts.ReasonDelegationScopeViolation, 6, ""}, func(x *trial) { x.grant.Only = []string{"look"} }},
	{want{contracts.ReasonCeilingViolation, 8, "P0:c0:ceilings"},
		func(x *trial) { x.floor("c0", `,"ceilings":{"risk":"low"}`) }},
	{want{contracts.ReasonCeilingViolation, 8, "P0:c1:no"},
		func(x *trial) { x.floor("c1", `,"rules":[{"id":"no","deny":"pay"}],"only":"look"`) }},
	{want{contracts.ReasonCeilingViolation, 8, "P0:c2:only"},
		func(x *trial) { x.floor("c2", `,"only":"look","expires":"2026-07-15T12:00:00Z"`) }},
	{want{contracts.ReasonFailClosedError, 8, ""}, func(x *trial) {
		x.floor("c3", `,"rules":[{"id":"no","deny":"pay","when":{"arg":"/path","host":"a.b"}}]`)
	}},
	{want{contracts.ReasonCeilingViolation, 8, "P0:c4:expires"},
		func(x *trial) { x.floor("c4", `,"expires":"2026-07-15T12:00:00Z"`) }},
	{want{contracts.ReasonApprovalInvalid, 4, "P0:e0:q"}, func(x *trial) {
		x.requires("e0", `{"approval":{"roles":["cfo"]}}`)
		x.in(func(in *contracts.Inputs) {
			in.Envelopes.Approvals = append(in.Envelopes.Approvals, in.Envelopes.Delegation...)
		})
	}},
	{want{contracts.ReasonApprovalExpired, 4, "P0:e1:q"}, func(x *trial) {
		x.requires("e1", `{"approval":{"roles":["owner"]}}`)
		x.late = append(x.late, "owner")
	}},
	{want{contracts.ReasonApprovalRequired, 4, "P0:e2:q"},
		func(x *trial) { x.requires("e2", `{"approval":{"roles":["clerk"]}}`) }},
}

// Of several things that are wrong with a call the first in the published order decides reason,
// condition and rule: every one by itself, every pair, and each with all that come after it.
func TestOrderOfConditions(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r, why := newTrial(t).judge()
	require.Equal(t, contracts.Allow, r.Verdict, "the call that all others depart from: %s (%s)", r.Reason, why)
	conditions, tried := map[int]bool{}, 0
	judge := func(set ...int) {
		x := newTrial(t)
		for _, i := range set {
			faults[i].make(x)
		}
		tried++
		r, why := x.judge()
		got := want{r.Reason, r.Condition, r.Rule}
		assert.True(t, got == faults[set[0]].want && r.Verdict == contracts.Deny, "faults %v: %v (%s), want %v", set,
			got, why, faults[set[0]].want)
	}
	var behind []int
	for i := len(faults) - 1; i >= 0; i-- {
		conditions[faults[i].want.condition] = true
		judge(i)
		for j := i + 1; j < len(faults); j++ {
			judge(i, j)
		}
		behind = append([]int{i}, behind...)
		judge(behind...)
	}
	if n := len(faults); tried != n+n*(n-1)/2+n || !slices.IsSortedFunc(faults,
		func(a, b fault) int { return a.at() - b.at() }) {
		t.Errorf("%d calls of %d faults", tried, n)
	}
	for c := range 9 {
		assert.Equal(t, c != 7, conditions[c], "condition %d: tried %v, judged", c, conditions[c])
	}
}
