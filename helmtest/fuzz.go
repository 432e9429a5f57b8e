package helmtest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/internal/jsonschema"
	"github.com/helmkernel/helm/trust/registry"
)

// Fuzz makes calls that are like seeds, and not quite: of other arguments, callers and sessions, in
// any order and at other times. What is changed follows from the value, the tool's schema and the
// constants of the policy: a path gets dot segments, a host another beginning, a number the other
// side of a bound, an object a key that differs in case.
//
// Each call that runs is passed to allowed, which returns an error if it must not: the author's own
// sentence about what may run, in Go. Its Args are what ran. It is called by one goroutine at a
// time in each process, and may be nil. These hold without it: nothing undeclared runs; what runs
// got the judged bytes, and conforms to the schema; each call has one receipt; an overlay never
// allows more; no budget is exceeded; each verdict is the same again, and one log in four is
// verified whole.
//
// At least one seed must be allowed as it is, by both, on a Monday at noon in an empty session;
// their Idempotency is left out. Approvals are not given, and tools return what their pinned output
// may be. go test makes some thousand calls, and go test -fuzz goes on. A failure shows the call
// without its values, and with them under -v.
func Fuzz(f *testing.F, p *guardian.Policy, seeds []helm.Intent, allowed func(helm.Intent) error) {
	f.Helper()
	z, err := newFuzzer(p, seeds, allowed)
	if err != nil {
		f.Fatalf("helmtest: %v", err)
	}
	runs := 96
	if testing.Short() {
		runs = 24
	}
	for i := range runs {
		f.Add(choicesOf(i))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		if _, fault := z.run(choices, testing.Verbose()); fault != nil {
			t.Error(fault)
		}
	})
}

// A fuzzer knows what calls can be made of.
type fuzzer struct {
	policy  *guardian.Policy
	seeds   []helm.Intent
	allowed func(helm.Intent) error
	tools   []string
	schemas map[string]*jsonschema.Schema
	inputs  map[string]crypto.Value // schemas as values
	outputs map[string][]byte
	texts   []string // of the policy and the seeds
	numbers []string
	narrow  []*guardian.Policy // with an overlay
	// judge, if it is not nil, is a kernel that tests of this package break.
	judge func(*bench, context.Context, helm.Intent) (helm.Decision, helm.Receipt)
}

// callsOfRun is how many calls one run makes, in one log.
const callsOfRun = 24

// choicesOf are those of the runs that go test makes.
func choicesOf(run int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(run)) }

// noon is when each run begins: a Monday, because policies know working hours.
var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func newFuzzer(p *guardian.Policy, seeds []helm.Intent, allowed func(helm.Intent) error) (*fuzzer, error) {
	if len(seeds) == 0 {
		return nil, errors.New("no seeds")
	}
	z := &fuzzer{
		policy: p, allowed: allowed, schemas: map[string]*jsonschema.Schema{}, inputs: map[string]crypto.Value{},
		outputs: map[string][]byte{},
	}
	if allowed == nil {
		z.allowed = func(helm.Intent) error { return nil }
	}
	for _, t := range p.Tools() {
		z.tools = append(z.tools, t.Name)
		z.inputs[t.Name] = parsed(t.Input)
		var open [][]string
		for _, at := range t.Open {
			open = append(open, segments(at))
		}
		s, err := jsonschema.Compile(z.inputs[t.Name], true, open...)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		z.schemas[t.Name] = s
		if t.Output != nil {
			z.outputs[t.Name] = encode(nil, sample(parsed(t.Output), 0))
		}
	}
	for _, d := range p.Documents() {
		z.constants(parsed(d.Canonical))
	}
	for i, in := range seeds {
		args := parsed(in.Args)
		if args.Kind() != crypto.Object {
			return nil, fmt.Errorf("seed %d: its arguments are no JSON object", i)
		}
		in.Idempotency, in.Driver = "", nil
		z.seeds = append(z.seeds, in)
		z.constants(args)
		z.texts = append(z.texts, in.Caller.Roles...)
	}
	slices.Sort(z.texts)
	z.texts = slices.Compact(z.texts)
	slices.Sort(z.numbers)
	z.numbers = slices.Compact(z.numbers)
	if err := z.overlays(); err != nil {
		return nil, err
	}
	return z, z.unchanged()
}

// overlays compiles some: each can only deny.
func (z *fuzzer) overlays() error {
	list := []string{
		`{"helm":"policy/v1","layer":"P2","name":"helmtest-a","only":["` + z.seeds[0].Tool + `"]}`,
		`{"helm":"policy/v1","layer":"P2","name":"helmtest-b","rules":[{"id":"a","deny":"*",` +
			`"when":{"caller":"roles","has":"helmtest"}}]}`,
		`{"helm":"policy/v1","layer":"P2","name":"helmtest-c","only":["*"]}`,
	}
	for _, text := range list {
		n, err := z.policy.Narrow(contracts.Document{Name: "overlay", Canonical: canonical([]byte(text))})
		if err != nil {
			return err
		}
		z.narrow = append(z.narrow, n)
	}
	return nil
}

// bench makes a kernel. That there is a root who could add approvers makes policies load that ask
// for them.
func (z *fuzzer) bench() (*bench, error) {
	b, err := newBench(nil, z.policy, []Option{Key("root", registry.Root)})
	if err != nil {
		return nil, err
	}
	b.now = noon
	for tool, output := range z.outputs {
		b.tools[tool] = func(context.Context, json.RawMessage) (json.RawMessage, error) { return output, nil }
	}
	if z.judge != nil {
		b.judge = func(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) { return z.judge(b, ctx, in) }
	}
	return b, nil
}

// unchanged makes the seeds' own calls: if none of them ran, those like them would prove nothing.
func (z *fuzzer) unchanged() error {
	b, err := z.bench()
	if err != nil {
		return err
	}
	ran := false
	for i, in := range z.seeds {
		r := b.call(in)
		if err := z.fault(r); err != nil {
			return fmt.Errorf("seed %d: %s", i, r.block(err.Error(), testing.Verbose()))
		}
		ran = ran || len(r.runs) > 0
	}
	if !ran {
		return errors.New("no seed is allowed: calls like them would prove nothing")
	}
	return b.settle()
}

// run makes calls that follow from choices alone. It returns how many.
func (z *fuzzer) run(choices []byte, values bool) (calls int, fault error) {
	d := newDraw(choices)
	b, err := z.bench()
	if err != nil {
		return 0, err
	}
	for calls < callsOfRun {
		if d.one(12) {
			b.now = b.now.Add([]time.Duration{time.Second, time.Hour, 24 * time.Hour, 31 * 24 * time.Hour}[d.n(4)])
		}
		r := b.call(z.intent(d))
		calls++
		if err := z.fault(r); err != nil {
			return calls, fmt.Errorf("helmtest: call %d: %s", calls, r.block(err.Error(), values))
		}
	}
	if d.one(4) { // half of the time goes there
		err = b.settle()
	} else {
		err = b.kernel.Close()
	}
	if err != nil {
		return calls, fmt.Errorf("helmtest: %w", err)
	}
	if err := z.recorded(b, calls, z.narrow[d.n(len(z.narrow))]); err != nil {
		return calls, fmt.Errorf("helmtest: %w", err)
	}
	return calls, nil
}

// fault returns what is wrong with a call.
func (z *fuzzer) fault(r *Result) error {
	if wrong := misrun(&r.decision, r.runs); wrong != "" {
		return errors.New(wrong)
	}
	if len(r.runs) == 0 {
		return nil
	}
	tool := r.intent.Tool
	schema := z.schemas[tool]
	if schema == nil {
		return errors.New("a tool ran that the policy does not declare")
	}
	if v := schema.Validate(parsed(r.runs[0])); v != nil {
		return errors.New("what ran does not conform to the tool's schema")
	}
	in := r.intent
	in.Args = r.runs[0]
	if err := z.allowed(in); err != nil {
		return fmt.Errorf("ran, and must not: %w", err)
	}
	return nil
}

// recorded compares the log with the calls that were made.
func (z *fuzzer) recorded(b *bench, calls int, narrow *guardian.Policy) error {
	ctx := context.Background()
	var r contracts.Reader
	var spent ledger
	receipts := 0
	see := func(_ uint64, st *contracts.Statement, state *registry.State) error {
		if st.Receipt != nil {
			receipts++
		}
		d := st.Judgement()
		if d == nil || d.KernelsOwn() {
			return nil
		}
		if err := spent.charge(d.Charges); err != nil {
			return err
		}
		blob, err := b.store.Blob(ctx, d.InputsHash)
		if err != nil {
			return err
		}
		in, err := r.Inputs(blob)
		if err != nil {
			return err
		}
		again, _ := z.policy.Judge(*in, state)
		again.ID, again.InputsHash, again.PolicyDecisionHash = d.ID, d.InputsHash, d.PolicyDecisionHash
		if !again.Equal(d) {
			return fmt.Errorf("%s: judged again, it has another record", d.ID)
		}
		if n, _ := narrow.Judge(*in, state); n.Verdict == contracts.Allow && d.Verdict != contracts.Allow {
			return fmt.Errorf("%s: with an overlay it is allowed, and without it is not", d.ID)
		}
		return nil
	}
	_, err := explained.Walk(ctx, b.store, b.kernel.Trust(), see)
	if err == nil && receipts != calls {
		err = fmt.Errorf("%d calls left %d receipts", calls, receipts)
	}
	return err
}

// A ledger adds up what is charged to each balance.
type ledger map[contracts.Charge]uint64

func (l *ledger) charge(list []contracts.Charge) error {
	if *l == nil {
		*l = ledger{}
	}
	for _, c := range list {
		balance := contracts.Charge{Budget: c.Budget, Of: c.Of, Window: c.Window}
		(*l)[balance] += c.Amount
		if (*l)[balance] > c.Limit {
			return fmt.Errorf("budget %s: %d of %d are spent", c.Budget, (*l)[balance], c.Limit)
		}
	}
	return nil
}
