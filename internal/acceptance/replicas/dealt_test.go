package replicas

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/sharedmem"
	"github.com/helmkernel/helm/proofgraph"
)

var (
	histories = flag.Int("replicas.histories", 16, "histories that are dealt over kernels")
	firstSeed = flag.Uint64("replicas.seed", 1, "seed of the first of them; the next ones follow")
)

// Few calls a session, a look before money is moved, an owner before a payment, few payments in
// all, and telling only what the user has said.
var dealtPolicy = []string{
	"tell:\n    effect: write\n    input: {type: object, properties: {}}",
	"tell:\n    effect: write\n    input: {type: object, required: [text], properties: {text: {type: string}}}",
	"rules:\n", "rules:\n  - {id: unsaid, deny: tell, unless: {arg: /text, from: [user]}}\n",
	"requires:\n", "budgets:\n  - {id: payments, tools: [pay], limit: 3, per: all, window: total, cost: 1}\nrequires:\n",
}

const dealtFloor = `
helm: policy/v1
layer: P0
name: floor
version: 1
ceilings: {calls: 9}
`

// A step is one thing that is asked of some kernel.
type step struct {
	what     string // a tool, "say" or "end"
	session  string
	args     string
	key      string
	approval int // the step whose request Ann approves, for this call; below 0: none
	kernel   uint64
	at       time.Time
}

// An answer is what must be the same whichever kernels were asked.
type answer struct {
	Verdict   contracts.Verdict
	Reason    contracts.ReasonCode
	Rule, Why string
	Condition int
	Outcome   contracts.Outcome
	Output    string
	Failed    bool // of what is no call
}

func history(r *rand.Rand) (steps []step) {
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	words := []string{"hello", "seventeen", "goodbye"}
	var asked []int
	for i := range 90 {
		if r.IntN(6) == 0 {
			at = at.Add(time.Duration(r.IntN(8)) * time.Minute)
		}
		s := step{session: fmt.Sprint("chat-", r.IntN(5)), approval: -1, kernel: r.Uint64(), at: at}
		account := 1 + r.IntN(2)
		switch n := r.IntN(100); {
		case n < 22:
			s.what, s.args = "look", fmt.Sprintf(`{"account":"%d"}`, account)
		case n < 42:
			s.what, s.args = "move", fmt.Sprintf(`{"from":"9","to":"%d"}`, account)
		case n < 70:
			s.what, s.args = "pay", kerneltest.Rent
			if len(asked) > 0 && r.IntN(3) > 0 {
				s.approval = asked[r.IntN(len(asked))]
				if r.IntN(4) > 0 {
					s.session = steps[s.approval].session
				}
			} else {
				asked = append(asked, i)
			}
		case n < 84:
			s.what, s.args = "tell", fmt.Sprintf(`{"text":%q}`, words[r.IntN(len(words))])
		case n < 99:
			s.what, s.args = "say", "the word is "+words[r.IntN(len(words))]
		default:
			s.what = "end"
		}
		if s.args != "" && r.IntN(5) == 0 {
			s.key = fmt.Sprint("key-", r.IntN(2))
		}
		steps = append(steps, s)
	}
	return steps
}

// A dealer puts the steps of a history to the kernels of a fleet.
type dealer struct {
	*fleet
	bank *kerneltest.Bank
	now  atomic.Int64

	mu      sync.Mutex // protects kernels and the fields below
	sealed  []*helm.Kernel
	pending map[int]contracts.ApprovalRequest
	runs    map[string]int // of sessions and keys
}

func newDealer(t *testing.T, bank *kerneltest.Bank, kernels int, outputs bool, store proofgraph.Store) *dealer {
	p := &dealer{bank: bank, pending: map[int]contracts.ApprovalRequest{}, runs: map[string]int{}}
	p.fleet = newFleet(t, 0, kerneltest.Policy, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, kerneltest.Edit(t, kerneltest.BankPolicy, dealtPolicy...), dealtFloor)
		o.Trust, o.Key, o.LogKey, o.Drivers = bank.Options.Trust, bank.Options.Key, bank.Options.LogKey, nil
		o.Now = func() time.Time { return time.Unix(p.now.Load(), 0) }
		o.Keep.Outputs = outputs
		if store != nil {
			o.Store = store
		}
	})
	p.now.Store(time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC).Unix())
	for range kernels {
		p.join()
	}
	return p
}

// kernel returns one of the kernels. In the place of one that is sealed another process begins.
func (p *dealer) kernel(n uint64) *helm.Kernel {
	p.mu.Lock()
	defer p.mu.Unlock()
	n %= uint64(len(p.kernels))
	if p.kernels[n].Err() == nil {
		return p.kernels[n]
	}
	for {
		k, err := helm.New(p.options)
		if err == nil {
			p.sealed, p.kernels[n] = append(p.sealed, p.kernels[n]), k
			p.Cleanup(func() { k.Close() })
			return k
		}
		require.ErrorIs(p, err, errLost)
	}
}

func (p *dealer) put(i int, s step) (a answer) {
	ctx, k := context.Background(), p.kernel(s.kernel)
	switch s.what {
	case "say":
		return answer{Failed: k.UserMessage(ctx, s.session, s.args) != nil}
	case "end":
		return answer{Failed: k.CloseSession(ctx, s.session) != nil}
	}
	in := helm.Intent{Tool: s.what, Args: json.RawMessage(s.args), Session: s.session, Idempotency: s.key,
		Caller: helm.Caller{ID: "kim"}}
	in.Driver = helm.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.runs[s.session+" "+s.key]++
		return args, nil
	})
	p.mu.Lock()
	request, ok := p.pending[s.approval]
	p.mu.Unlock()
	if ok {
		in.Approvals = []contracts.Envelope{p.bank.Approve(request, kerneltest.Ann)}
	}
	d, r := k.Guard(ctx, in)
	if d.Pending != nil {
		p.mu.Lock()
		p.pending[i] = *d.Pending
		p.mu.Unlock()
	}
	return answer{d.Verdict, d.Reason, d.Record.Rule, d.Why, d.Record.Condition, r.Record.Outcome, string(r.Output), false}
}

// last closes all kernels, and returns another one, which settles what they have left.
func (p *dealer) last() *helm.Kernel {
	for _, k := range append(p.sealed, p.kernels...) {
		k.Close()
	}
	return p.join()
}

// ranOnce fails the test if a key ran more than once in its session.
func (p *dealer) ranOnce() {
	p.Helper()
	allowed := map[string]int{}
	for _, st := range p.statements() {
		if d := st.Decision; d != nil && d.Idempotency != "" {
			allowed[st.Session+" "+d.Idempotency]++
		}
	}
	for name, n := range allowed {
		assert.LessOrEqual(p, n, 1, "permissions of %s", name)
		assert.LessOrEqual(p, p.runs[name], n, "runs of %s", name)
	}
}

var errLost = errors.New("connection lost")

// refusing refuses some guesses and turns of a store, and makes others wait for a while. If it
// loses too, some answers are lost of what was written.
func refusing(seed uint64, loses bool) sharedmem.Hooks {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 0))
	n := func(of int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(of) }
	h := sharedmem.Hooks{Before: func(context.Context, sharedmem.Op) error {
		switch n(8) {
		case 0, 1:
			return proofgraph.ErrMoved
		case 2:
			time.Sleep(time.Duration(n(200)) * time.Microsecond) // so that others come before it
		}
		return nil
	}}
	if loses {
		h.After = func(_ context.Context, _ sharedmem.Op, err error) error {
			if n(60) == 0 {
				return errLost
			}
			return err
		}
	}
	return h
}

// The calls of a history are dealt over four kernels. Each has the answer that it has of a kernel
// with a log of its own, if one comes after the other. However they come, the log replays.
func TestDealt(t *testing.T) {
	t.Parallel()
	t.Logf("%d histories from seed %d: -replicas.histories, -replicas.seed", *histories, *firstSeed)
	bank, reasons, old := kerneltest.NewBank(t), map[contracts.ReasonCode]int{}, 0
	for n := range *histories {
		seed := *firstSeed + uint64(n)
		steps := history(rand.New(rand.NewPCG(seed, 0)))
		outputs := n/2%2 == 0
		one := newDealer(t, bank, 1, outputs, proofgraph.NewMemory())
		dealt := newDealer(t, bank, 4, outputs, nil)
		if n%2 == 1 {
			dealt.store.Hook(refusing(seed, false))
		}
		for i, s := range steps {
			one.now.Store(s.at.Unix())
			dealt.now.Store(s.at.Unix())
			want := one.put(i, s)
			got := dealt.put(i, s)
			if want.Reason == contracts.ReasonBudgetExceeded && got.Condition > want.Condition {
				// The kernel looked at an old balance. The call is denied, for a later reason.
				require.Equal(t, contracts.Denied, got.Outcome, "seed %d, step %d: %+v", seed, i, s)
				old++
				continue
			}
			require.Equal(t, want, got, "seed %d, step %d: %+v", seed, i, s)
			reasons[want.Reason]++
		}
		assert.Equal(t, one.runs, dealt.runs, "seed %d: runs", seed)
		dealt.store.Hook(sharedmem.Hooks{})
		a, b := one.verified(one.kernels[0]), dealt.agreed(dealt.kernels[seed%4])
		assert.Equal(t, a.Totals.Allows, b.Totals.Allows)
		assert.Equal(t, a.Totals.Denials, b.Totals.Denials)
		dealt.ranOnce()

		atOnce := newDealer(t, bank, 4, outputs, nil)
		if n%2 == 1 {
			atOnce.store.Hook(refusing(seed, true))
		}
		var all sync.WaitGroup
		for g := range 6 {
			all.Go(func() {
				for i := g; i < len(steps); i += 6 {
					if steps[i].what != "end" || steps[i].kernel%3 == 0 { // or too little is called
						atOnce.put(i, steps[i])
					}
				}
			})
		}
		all.Wait()
		atOnce.store.Hook(sharedmem.Hooks{})
		assert.Empty(t, atOnce.agreed(atOnce.last()).Open, "seed %d", seed)
		atOnce.ranOnce()
	}
	t.Logf("%v; %d denials after an old balance was looked at", reasons, old)
	if *histories >= 16 {
		for _, reason := range []contracts.ReasonCode{contracts.ReasonAllow, contracts.ReasonApprovalRequired,
			contracts.ReasonApprovalInvalid, contracts.ReasonBudgetExceeded, contracts.ReasonMissingRequirement,
			contracts.ReasonCeilingViolation, contracts.ReasonPolicyViolation, contracts.ReasonSessionClosed,
			contracts.ReasonIdempotencyConflict, contracts.ReasonOutputNotKept} {
			assert.NotZero(t, reasons[reason], reason)
		}
	}
}
