package forge

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

// MailPolicy is another bundle of the same stack.
const MailPolicy = `{"bundle":{"name":"mail","version":1},"helm":"policy/v1","layer":"P1","rules":[],` +
	`"tools":{"mail.send":{"effect":"write","input":{"type":"object"}}}}`

// baseNames are those of the entries of BaseLog, in order: receipts follow their decisions but
// where calls overlap.
var baseNames = strings.Fields("g p a1 a2 d1 b1 f1 f2 b2 b3 x r w1 w2 i1 i2 n1 n2 m2 m1 k j dest none ka t1 h e1 e2 " +
	"eu t2 p2 y1 y2 u1 u2 z1 sf z2 un ro q o")

// BasePolicy is FilesPolicy, and nothing is written that a person has not approved.
func BasePolicy(version int) string {
	return strings.Replace(FilesPolicy(version), `"rules":[`,
		`"requires":[{"all":[{"approval":{"roles":["lead"],"ttl":"15m"}}],"id":"written","tools":["fs.write"]}],`+
			`"rules":[`, 1)
}

// BaseLog is the log that the falsifications start from, in which nearly everything is that this
// version knows.
func BaseLog(t testing.TB) *Maker {
	t.Helper()
	return baseLog(NewMaker(t))
}

func baseLog(m *Maker) *Maker {
	m.Helper()
	return baseLogOf(m, nil, func() {}, baseNames)
}

// baseLogOf makes the base log under floors, with something after the second policy.
func baseLogOf(m *Maker, floors []string, then func(), names []string) *Maker {
	m.Helper()
	m.Use(append(slices.Clone(floors), BasePolicy(3), MailPolicy)...)
	a1 := m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/a"}`, Who: Reader, key: "once"})
	a2 := a1.Ran(`{"text":"a?~>"}`)
	// d1
	m.Denied(contracts.ReasonNoPolicyDefined, Ask{Session: "main", Tool: "fs.write", Args: `{"path":"/srv/a"}`,
		Who: Reader})
	b1 := m.Allowed(Ask{Session: "s2", Tool: "fs.read", Args: `{"lines":2,"path":"/srv/b"}`, Who: Reader,
		Parents: []contracts.Digest{a2}})
	f1 := m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/b"}`, Who: Reader})
	f1.Failed(contracts.ReasonToolError)
	b1.Ran(`{"text":"b"}`)
	m.Denied(contracts.ReasonPolicyViolation, Ask{Session: "s2", Tool: "fs.list", Args: `{}`, Who: Writer}) // b3
	m.Close("s2")
	// r
	m.Denied(contracts.ReasonSessionClosed, Ask{Session: "@refused", asked: "s2", Tool: "fs.read",
		Args: `{"path":"/srv/a"}`, Who: Reader, refuse: contracts.ReasonSessionClosed})
	w1 := m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/c"}`, Who: Reader})
	w1.End(receipts.Result{Reason: contracts.ReasonContractDrift, Output: []byte(`{"txt":"c"}`), Form: "jcs"}, true)
	i1 := m.Allowed(Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/d"}`, Who: Reader})
	i1.Failed(contracts.ReasonToolTimeout)
	n1 := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader})
	n2 := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{"depth":2}`, Who: Reader})
	n2.Ran(`["x"]`)
	n1.End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("not JSON"), Form: "raw"}, true)
	m.Denied(contracts.ReasonIdempotencyConflict, Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader,
		key: "once", refuse: contracts.ReasonIdempotencyConflict})
	m.Denied(contracts.ReasonArgsCanonicalization, Ask{Session: "main", Tool: "fs.read", Args: `{"path":`, Who: Reader,
		Raw: true})
	m.Denied(contracts.ReasonDestinationNotAllowed, Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/etc"}`,
		Who: Reader})
	m.Denied(contracts.ReasonToolNotFound, Ask{Session: "main", Tool: "fs.format", Args: `{}`, Who: Reader})
	m.add(seedA2, "zoe", registry.Approver, "lead", "owner") // ka
	m.add(seedK2, "kernel 2", registry.Kernel)               // t1
	write := Ask{Session: "main", Tool: "fs.write", Args: `{"path":"/srv/a","text":"t"}`, Who: Writer}
	h := m.Denied(contracts.ReasonApprovalRequired, write)
	write.With.Approvals = []contracts.Envelope{m.Approve(SeedA, *h.Why.Pending)}
	write.With.Attestations = []contracts.Envelope{m.Attest(`{"amount":1}`)} // which nobody asked for
	m.Allowed(write).Ran(`{"ok":true}`)                                      // e1
	m.Denied(contracts.ReasonApprovalInvalid, write)                         // eu: it is used
	m.Revoke(SeedK1)                                                         // t2
	m.open(seedK2, [16]byte{})                                               // another process, another key
	m.Use(append(slices.Clone(floors), BasePolicy(4), MailPolicy)...)
	then()
	box := &contracts.SandboxInfo{Module: crypto.Sum([]byte("wasm")), Profile: "none", Meter: 1,
		Grants: &contracts.Sandbox{Env: []string{"LANG", "TZ"}, Files: map[string]string{
			"/data": contracts.Hashed("a tree"), "/tmp/in": "read", "/tmp/out": "write"}}}
	s1 := m.Allowed(Ask{Session: "main", Tool: "fs.stat", Args: `{}`, Who: Reader, sandbox: box})
	s1.End(receipts.Result{Reason: contracts.ReasonOutputExhausted, Sandbox: use(box, 7)}, false)
	u1 := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{"depth":3}`, Who: Reader})
	u1.Failed(contracts.ReasonOutcomeUnknown)
	// z1
	m.freeze()
	// sf
	m.Denied(contracts.ReasonSystemFrozen, Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader,
		refuse: contracts.ReasonSystemFrozen})
	m.unfreeze()
	grant := crypto.Sum([]byte("a grant"))
	m.govern(contracts.TrustEvent{Type: "undelegate", Delegation: &grant, Delegator: "ada"}, nil, SeedD) // un
	m.govern(contracts.TrustEvent{Type: "root", Threshold: 2,
		Keys: []contracts.RootKey{{Name: "root 1", Public: Public(m, seedR1)},
			// ro
			{Name: "root 2", Public: Public(m, seedR2)}, {Name: "root 4", Public: Public(m, seedR4)}}},
		[]byte{seedR1, seedR2, seedR4}, seedR1, seedR2, seedR4)
	m.Denied(contracts.ReasonIntentMalformed, Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader,
		refuse: contracts.ReasonIntentMalformed})
	m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader}) // o
	n, err := m.Store.Size(m.Context())
	require.True(m, err == nil && int(n) == len(names), "%d entries, %d names, %v", n, len(names), err)
	return m
}

// LongLog is one of so many entries: calls with 900 bytes of arguments that ran, one call in eight
// denied.
func LongLog(t testing.TB, n int) *Maker {
	m := NewMaker(t)
	m.Use(`{"bundle":{"name":"code","version":1},"helm":"policy/v1","layer":"P1","rules":[` +
		`{"deny":"edit","id":"secrets","when":{"arg":"/path","within":["/srv/secret"]}},{"allow":"edit",` +
		`"id":"all","when":{"caller":"roles","has":"writer"}}],` +
		`"tools":{"edit":{"effect":"write","input":{"properties":{"path":{"type":"string"},` +
		`"text":{"type":"string"}},"required":["path","text"],"type":"object"}}}}`)
	args := `{"path":"/srv/%s/%d","text":"` + strings.Repeat(`if err != nil {\n\treturn err\n}\n`, 24) + `"}`
	for i := 0; i < n; i += 2 {
		session := fmt.Sprint("chat-", i%64)
		if i%16 == 0 {
			m.Denied(contracts.ReasonPolicyViolation, Ask{Session: session, Tool: "edit",
				Args: fmt.Sprintf(args, "secret", i), Who: Writer})
			i--
			continue
		}
		m.Allowed(Ask{Session: session, Tool: "edit", Args: fmt.Sprintf(args, "work", i), Who: Writer}).
			End(receipts.Result{Reason: contracts.ReasonAllow, Output: fmt.Appendf(nil, `{"ok":%d}`, i), Form: "jcs"}, false)
	}
	m.Checkpoint()
	return m
}

// BudgetPolicy has a budget of each kind: of calls, of what they cost, of a session; one refunds
// what a failed call was charged.
var BudgetPolicy = strings.Replace(strings.Replace(FilesPolicy(3), `"default":10,"type":"integer"`,
	`"default":10,"type":"number"`, 1), `"rules":[`, `"budgets":[`+
	`{"cost":1,"id":"reads","limit":3,"per":"caller","tools":["fs.read"],"window":"day"},`+
	`{"cost":{"arg":"/lines","scale":1},"id":"lines","limit":1000,"per":"all","refund":"error",`+
	`"tools":"fs.read","window":"month"},`+
	`{"cost":1,"id":"task","limit":9,"per":"session","tools":"fs.*","window":"session","when":{"caller":"roles",`+
	`"has":"reader"}}],"rules":[`, 1)

var budgetNames = strings.Fields("g p a1 a2 b1 f1 f2 b2 b3 b4 w1 w2 i1 i2 e1 o")

// BudgetLog is a log whose calls are charged.
func BudgetLog(t testing.TB) *Maker {
	t.Helper()
	m := NewMaker(t)
	m.Use(BudgetPolicy)
	other := contracts.Caller{ID: "eve", Roles: []string{"reader"}}
	read := func(session, args string, who contracts.Caller) Ask {
		return Ask{Session: session, Tool: "fs.read", Args: args, Who: who}
	}
	a1 := m.Allowed(read("s1", `{"path":"/srv/a"}`, Reader))
	a1.Ran(`{"text":"a"}`)
	b1 := m.Allowed(read("s2", `{"lines":0.5,"path":"/srv/b"}`, Reader))
	f1 := m.Allowed(read("s1", `{"path":"/srv/b"}`, Reader))
	f1.Failed(contracts.ReasonToolError)
	b1.Ran(`{"text":"b"}`)
	m.Denied(contracts.ReasonBudgetExceeded, read("s2", `{"path":"/srv/b"}`, Reader))           // b3
	m.Denied(contracts.ReasonBudgetError, read("s2", `{"lines":0.55,"path":"/srv/b"}`, Reader)) // b4
	m.Allowed(read("s1", `{"path":"/srv/c"}`, other)).End(receipts.Result{Reason: contracts.ReasonContractDrift,
		Output: []byte(`{"txt":"c"}`), Form: "jcs"}, true)
	m.Allowed(read("s1", `{"path":"/srv/d"}`, other)).Failed(contracts.ReasonToolTimeout)
	// e1: peeked at, and not charged
	m.Denied(contracts.ReasonPolicyViolation, read("s1", `{"path":"/srv/secret"}`, other))
	m.Allowed(read("s1", `{"path":"/srv/e"}`, other)) // o
	m.Checkpoint()
	n, err := m.Store.Size(m.Context())
	require.True(t, err == nil && int(n) == len(budgetNames), "%d entries, %d names, %v", n, len(budgetNames), err)
	return m
}

// Allocated returns how many bytes are allocated while f runs.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Anything is a policy of one tool that takes any argument.
var Anything = `{"bundle":{"name":"any","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"any",` +
	`"id":"all"}],"tools":{"any":{"effect":"read","input":{"properties":{` +
	`"a":{},"x":{},"z":{},"α":{},"ا":{},"\ufb33":{},"\ud83d\ude00":{}},"type":"object"},` +
	`"open":["/a","/x","/z","/α","/ا","/\ufb33","/\ud83d\ude00"]}}}`

// Sample returns n with -short and 1 without it. A test then tries every n-th case, and the least
// number of cases is divided by it.
func Sample(n int) int {
	if testing.Short() && !*Full {
		return n
	}
	return 1
}

// Full is the flag -full.
var Full = flag.Bool("full", false, "try every case of the properties, not a sample")

// SmallLog is one of six entries in two sessions, whose pack is small enough to try everything on
// it.
func SmallLog(t testing.TB, nonce byte) *Maker { return smallLog(t, Origin, nonce) }

func smallLog(t testing.TB, origin string, nonce byte) *Maker {
	m := newMakerOf(t, origin,
		StateOf(t, 0, SeedK1, SeedL, registry.Key{Name: "kernel 2", Public: Public(t, seedK2), Role: registry.Kernel}),
		nonce)
	m.Use(`{"bundle":{"name":"b","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"t","id":"a"}],` +
		`"tools":{"t":{"effect":"read","input":{"type":"object"}}}}`)
	a := m.Allowed(Ask{Session: "a", Tool: "t", Args: `{}`})
	a.End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
	m.Allowed(Ask{Session: "b", Tool: "t", Args: `{}`, Drop: true, Parents: []contracts.Digest{a.Entry}})
	m.Denied(contracts.ReasonToolNotFound, Ask{Session: "a", Tool: "x", Args: `{}`, Drop: true})
	m.Checkpoint()
	return m
}

// LogsOf returns SmallLog, BaseLog, FixtureLog, KnowsLog and CondensedLog of another origin. The
// store of the last one has let go of its set.
func LogsOf(t testing.TB, origin string) []*Maker {
	t.Helper()
	logs := []*Maker{smallLog(t, origin, 0), baseLog(newMakerOf(t, origin, State(t), 0)),
		fixtureLog(newMakerOf(t, origin, State(t), 0)).Maker, knowsLog(newMakerOf(t, origin, State(t), 0)),
		droppedLog(newMakerOf(t, origin, State(t), 0))}
	logs[1].Checkpoint()
	return logs
}

// Wander makes calls of five sessions at random, some of which run, fail, or are never heard of
// again.
func Wander(m *Maker, n int, drop bool) {
	r := rand.New(rand.NewPCG(3, 4))
	var open []*Called
	for range n {
		if len(open) > 3 {
			i := r.IntN(len(open))
			c := open[i]
			open = append(open[:i], open[i+1:]...)
			if r.IntN(5) == 0 {
				c.Failed(contracts.ReasonToolError)
			} else if c.decision.Tool == "fs.list" {
				c.Ran(`[1]`)
			} else {
				c.Ran(`{"text":"t"}`)
			}
			continue
		}
		a := Ask{Session: fmt.Sprint("s", r.IntN(5)), Tool: "fs.list", Args: fmt.Sprintf(`{"depth":%d}`, r.IntN(4)),
			Who: Reader, Drop: drop && r.IntN(3) == 0}
		if r.IntN(2) == 0 {
			a.Tool, a.Args = "fs.read", fmt.Sprintf(`{"lines":%d,"path":"/srv/%d"}`, r.IntN(2), r.IntN(3))
		}
		if r.IntN(8) == 0 {
			a.Who = Writer
			m.Denied(contracts.ReasonPolicyViolation, Ask{Session: a.Session, Tool: "fs.list", Args: `{}`, Who: Writer})
			continue
		}
		open = append(open, m.Allowed(a))
	}
}
