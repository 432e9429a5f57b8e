package guardian

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
)

// requiring are stacks, what they are judged by, and how many allocations that may take of the
// guardian and of the session.
var requiring = []struct {
	name, requires string
	allocs         float64
}{
	{"none", ``, 0},
	{"idle", `{"id":"a","tools":["pay"],"when":{"arg":"/amount","gt":100},"all":[{"approval":{"roles":["owner"]}}]}`,
		0},
	{"exempt",
		`{"id":"a","tools":["pay"],"unless":{"arg":"/to","in":{"list":"known"}},"all":[{"approval":{"roles":["owner"]}}]}`, 0},
	// the entry's hash, the list in the inputs
	{"receipt", `{"id":"a","tools":["pay"],"all":[{"receipt":"look","max_age":"1h"}]}`, 2},
	{"calls", `{"id":"a","tools":["pay"],"when":{"session":"calls","gt":1000},"all":[{"receipt":"close"}]}`, 1},
	{"instead", `{"id":"a","tools":["pay"],"any":[{"approval":{"roles":["owner"]}},{"receipt":"look"}]}`, 2},
	{"same", `{"id":"a","tools":["pay"],"all":[{"receipt":"look","same":{"/payee":"/to"}}]}`, 12},
}

func longSession(t testing.TB) *told {
	past := newTold()
	for n := range 200 {
		past.ran(t, n, "look", `{"payee":"bob"}`, noon)
	}
	return past
}

// What asks for nothing allocates nothing, and a receipt little.
func TestRequirementsAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates: run without -race")
	}
	past := longSession(t)
	for _, c := range requiring {
		p := mustCompile(t, bankText(c.requires, ``))
		in := inChat(t, "pay", toBob)
		allowed.settled(t, c.name, p, in, nil, past)
		n := testing.AllocsPerRun(100, func() { _, in.State, _ = p.Decide(&in, nil, past) })
		assert.LessOrEqual(t, n, c.allocs, "%s: %v allocations, want %v", c.name, n, c.allocs)
		if n := testing.AllocsPerRun(100, func() { p.Judge(in, nil) }); n != 0 {
			t.Errorf("%s: %v allocations where the inputs tell", c.name, n)
		}
	}
}

func BenchmarkRequired(b *testing.B) {
	past := longSession(b)
	for _, c := range requiring {
		b.Run(c.name, func(b *testing.B) {
			p := mustCompile(b, bankText(c.requires, ``), ungated)
			decide(b, p, []contracts.Inputs{inChat(b, "pay", toBob)}, func(in *contracts.Inputs) bool {
				r, _, _ := p.Decide(in, nil, past)
				return bool(r.Verdict)
			})
		})
	}
}

// An approval is verified, among others that are none.
func BenchmarkApproved(b *testing.B) {
	p, trust := mustCompile(b, bankText(byOwner, ``), ungated), people(b)
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			in := inChat(b, "pay", toBob)
			q := asked(b, p, in, trust)
			for range n {
				in.Envelopes.Approvals = append(in.Envelopes.Approvals, approvedBy(b, q, "olga"))
				q = otherNonce(q)
			}
			decide(b, p, []contracts.Inputs{in}, func(in *contracts.Inputs) bool {
				r, _, _ := p.Decide(in, trust, newTold())
				return bool(r.Verdict)
			})
		})
	}
}
