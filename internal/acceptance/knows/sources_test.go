package knows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Pay is a policy by which money goes only to accounts that the user named or a list has, and by
// which an order is cancelled only if the latest look at it says so.
const Pay = `
helm: policy/v1
layer: P1
bundle: {name: pay, version: 1}
tools:
  list:
    effect: read
    trusted: true
    input: {type: object, properties: {}}
    output: {type: array, items: {type: object, properties: {to: {type: string}, note: {type: string}}}}
    limits: {output: 4MiB, timeout: 1s}
    facts: {payee: /*/to, note: {at: /*/note, text: true}}
  pay:
    effect: write
    input: {type: object, required: [to], properties: {to: {type: string}}}
  tip:
    effect: write
    input: {type: object, properties: {to: {type: string, default: ACC-0001}}}
  order:
    effect: read
    trusted: true
    input: {type: object, required: [id], properties: {id: {type: string}}}
    output: {type: object, properties: {status: {type: string}, all: {type: array, items: {type: string}}}}
    facts: {status: /status, all: /all/*}
  cancel:
    effect: write
    input: {type: object, required: [id], properties: {id: {type: string}}}
rules:
  - {id: user, allow: [pay, tip], when: {arg: /to, from: [user]}}
  - {id: list, allow: [pay, tip], when: {arg: /to, from: ["list#payee", "list#note"]}}
  - {id: rest, allow: [list, order, cancel]}
requires:
  - {id: open, tools: [cancel], all: [{receipt: order, same: [/id], that: {fact: status, eq: open, absent: false}}]}
`

type bank struct {
	*kerneltest.World
	erased int // calls whose inputs the test has erased
}

func newBank(t *testing.T, change ...func(*helm.Options)) bank {
	t.Helper()
	return bank{World: kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, Pay)
		for _, tool := range []string{"list", "pay", "tip", "order", "cancel"} {
			o.Drivers[tool] = o.Drivers["echo"]
		}
		for _, tool := range []string{"echo", "pinned", "slow", "scoped", "closed"} {
			delete(o.Drivers, tool)
		}
	}}, change...)...)}
}

// run has a tool return an output, and fails the test unless the call ends so.
func (w bank) run(outcome contracts.Outcome, session, tool, args string, does kerneltest.Tool) helm.Receipt {
	w.T.Helper()
	w.Tool = does
	d, r := w.Call(tool, args, kerneltest.InSession(session))
	require.Equal(w.T, outcome, r.Record.Outcome, "%s: %s (%s)", tool, d.Reason, d.Why)
	w.Tool = kerneltest.Returns(`{}`, nil)
	return r
}

func (w bank) list(session, output string) helm.Receipt {
	w.T.Helper()
	return w.run(contracts.Executed, session, "list", `{}`, kerneltest.Returns(output, nil))
}

func (w bank) say(session, text string) {
	w.T.Helper()
	require.NoError(w.T, w.Kernel.UserMessage(context.Background(), session, text))
}

// mustReplay verifies a pack of the log, and judges every call again from its inputs alone: the
// records must be those that were signed. others are policies of the log that are not those of the
// options.
func (w bank) mustReplay(others ...*guardian.Policy) {
	w.T.Helper()
	report := w.MustVerify()
	policies := map[contracts.Digest]*guardian.Policy{}
	for _, p := range append(others, w.Options.Policy, w.Kernel.Policy()) {
		policies[p.Hash()] = p
	}
	replayed, gone := 0, 0
	for index, st := range w.Statements() {
		d := st.Judgement()
		if d == nil {
			continue
		}
		b, err := w.Store.Store.Blob(context.Background(), d.InputsHash)
		if w.Options.Keep.DropInputs {
			require.ErrorIs(w.T, err, proofgraph.ErrNoBlob)
			continue
		}
		if w.erased > 0 && errors.Is(err, proofgraph.ErrNoBlob) {
			gone++
			continue
		}
		require.NoError(w.T, err)
		in, err := contracts.ParseInputs(b)
		require.NoError(w.T, err, "entry %d: %s", index, b)
		p := policies[d.PolicyHash]
		require.NotNil(w.T, p, "entry %d: judged by a policy that the test does not know", index)
		again, _ := p.Judge(*in, w.TrustState())
		again.Seal(st.Session, st.Seq, d.InputsHash)
		require.True(w.T, again.Equal(d), "entry %d: was %s, is %s by %s", index, d.Reason, again.Reason, b)
		replayed++
	}
	require.True(w.T, replayed > 0 || w.Options.Keep.DropInputs)
	require.Equal(w.T, w.erased, gone)
	require.EqualValues(w.T, replayed, report.Replay.Replayed, "a verifier replays as many")
}

// pays tries to pay, and returns the reason. A denial leaves a receipt, and pays nothing.
func (w bank) pays(session, to string, after ...helm.Receipt) contracts.ReasonCode {
	w.T.Helper()
	w.Runs.Store(0)
	args, err := json.Marshal(map[string]string{"to": to})
	require.NoError(w.T, err)
	d, r := w.Call("pay", string(args), kerneltest.InSession(session), func(in *helm.Intent) {
		for _, r := range after {
			in.After = append(in.After, r.Ref())
		}
	})
	if d.Reason == contracts.ReasonAllow {
		assert.Equal(w.T, contracts.Executed, r.Record.Outcome)
		return d.Reason
	}
	assert.Equal(w.T, contracts.Denied, r.Record.Outcome, "no receipt")
	assert.Zero(w.T, w.Runs.Load(), "ran")
	if to != "" {
		assert.NotContains(w.T, d.Why, to, "why quotes a value")
		assert.NotContains(w.T, d.Err().Error(), to, "the error quotes a value")
	}
	return d.Reason
}

const (
	allowed = contracts.ReasonAllow
	unfound = contracts.ReasonNoPolicyDefined
	errs    = contracts.ReasonFailClosedError
)

// What the user said, and what a tool of the session said in a fact, is a source: in memory and in
// files, at once and after a restart, with inputs dropped or not.
func TestSources(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*helm.Options){"kept": func(*helm.Options) {},
		"dropped": func(o *helm.Options) { o.Keep.DropInputs = true }} {
		for _, files := range []bool{false, true} {
			t.Run(fmt.Sprint(name, files), func(t *testing.T) {
				t.Parallel()
				var reopenStore func()
				w := newBank(t, change, func(o *helm.Options) {
					if files {
						reopenStore = kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
					}
				})
				assert.Equal(t, unfound, w.pays("s", "ACC-0001"))
				w.say("s", "please pay ACC-0001, and ACC-0002.")
				w.list("s", `[{"to":"ACC-0003","note":"was ACC-0004"},{"to":"ACC-0005"}]`)
				w.list("other", `[{"to":"ACC-0006"}]`)
				w.say("other", "ACC-0007")
				for range 3 {
					for to, want := range map[string]contracts.ReasonCode{"ACC-0001": allowed, "ACC-0002": allowed,
						"ACC-0003": allowed, "ACC-0004": allowed, "ACC-0005": allowed, "ACC-0006": unfound,
						"ACC-0007": unfound, "ACC-000": unfound, "acc-0001": unfound, "0001": unfound, "CC-0001": unfound} {
						assert.Equal(t, want, w.pays("s", to), to)
					}
					w.Close()
					if files {
						reopenStore()
					}
					w.Open()
				}
				w.mustReplay()
			})
		}
	}
}

// A tool that floods uses up its own allowance. What is over it is no source; what came before, and
// the words of the user, stand.
func TestSourceThatFloods(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	w.say("s", "pay ACC-USER")
	many := func(from, n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`{"to":"ACC-%05d"}`, from+i))
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	for i := range 10 {
		w.list("s", many(1000*i, 1000))
	}
	w.list("s", `[{"to":"ACC-10000"}]`) // the 10,001st
	w.list("s", `[]`)
	w.list("s", `[{"to":"ACC-10001"}]`)
	for range 2 {
		assert.Equal(t, allowed, w.pays("s", "ACC-00000"))
		assert.Equal(t, allowed, w.pays("s", "ACC-09999"))
		assert.Equal(t, unfound, w.pays("s", "ACC-10000"))
		assert.Equal(t, unfound, w.pays("s", "ACC-10001"))
		assert.Equal(t, allowed, w.pays("s", "ACC-USER"))
		w.Reopen()
	}
	w.mustReplay()
}

// A text or a document that cannot be read makes its source an error, as long as that lasts. A
// running kernel goes by what it knows.
func TestSourceThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	store := w.Store.Store
	w.say("s", "pay ACC-0001")
	receipt := w.list("s", `[{"to":"ACC-0002"}]`)
	assert.Equal(t, allowed, w.pays("s", "ACC-0002"))
	bad := kerneltest.ReadStore{Store: store, OnBlob: func(d contracts.Digest) ([]byte, error) {
		if b, err := store.Blob(context.Background(), d); d != *receipt.Record.FactsHash &&
			string(b) != "pay ACC-0001" {
			return b, err
		}
		return nil, errors.New("erased")
	}}
	w.Store.Store = bad
	assert.Equal(t, allowed, w.pays("s", "ACC-0001"), "known before it was erased")
	assert.Equal(t, allowed, w.pays("s", "ACC-0002"), "known before it was erased")
	w.Close()
	w.Open()
	for _, to := range []string{"ACC-0001", "ACC-0002", "ACC-0003"} {
		d, r := w.Call("pay", `{"to":"`+to+`"}`)
		assert.Equal(t, errs, d.Reason)
		assert.Equal(
			t,
			"the texts of the user cannot be read",
			strings.SplitN(d.Why, " (", 2)[0][strings.Index(d.Why, "the "):],
		)
		assert.Equal(t, contracts.Denied, r.Record.Outcome)
	}
	w.Store.Store = store
	assert.Equal(t, allowed, w.pays("s", "ACC-0001"), "there again")
	assert.Equal(t, allowed, w.pays("s", "ACC-0002"), "there again")
	w.mustReplay()
}

// Facts that a policy asks for are known as they come. If their documents are erased before anybody
// asked, a running kernel still knows them, however many they are.
func TestSourceErasedBeforeTheFirstQuestion(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	for i := range 5 {
		var list []string
		for n := range 900 {
			list = append(list, fmt.Sprintf(`{"to":"ACC-%d-%d-%s"}`, i, n, strings.Repeat("x", 100)))
		}
		w.list("s", "["+strings.Join(list, ",")+"]")
	}
	w.Store.Store = kerneltest.ReadBlob(w.Store.Store, nil, errors.New("erased"))
	assert.Equal(t, allowed, w.pays("s", "ACC-0-899-"+strings.Repeat("x", 100)))
	assert.Equal(t, allowed, w.pays("s", "ACC-4-0-"+strings.Repeat("x", 100)))
	assert.Equal(t, unfound, w.pays("s", "ACC-5-0-"+strings.Repeat("x", 100)))
}

// The latest look at an order decides: an earlier one that was better does not win, and one whose
// facts are null, or not to be read, is an error.
func TestReceiptWithFacts(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	look := func(id, output string) helm.Receipt {
		return w.run(contracts.Executed, "s", "order", `{"id":"`+id+`"}`, kerneltest.Returns(output, nil))
	}
	cancel := func(id string) contracts.ReasonCode {
		d, r := w.Call("cancel", `{"id":"`+id+`"}`)
		assert.True(t, d.Reason == allowed || r.Record.Outcome == contracts.Denied)
		return d.Reason
	}
	missing := contracts.ReasonMissingRequirement
	assert.Equal(t, missing, cancel("1"))
	look("1", `{"status":"open"}`)
	look("2", `{"status":"shipped"}`)
	for range 2 {
		assert.Equal(t, allowed, cancel("1"))
		assert.Equal(t, missing, cancel("2"))
		w.Reopen()
		w.Tool = kerneltest.Returns(`{}`, nil)
	}
	look("1", `{"status":"shipped"}`)
	assert.Equal(t, missing, cancel("1"), "by an earlier look")
	look("1", `{}`)
	assert.Equal(t, missing, cancel("1"), "without a status")
	look("1", `{"status":"`+strings.Repeat("x", 257)+`"}`)
	for range 2 {
		assert.Equal(t, errs, cancel("1"), "by a fact that is null")
		w.Reopen()
		w.Tool = kerneltest.Returns(`{}`, nil)
	}
	receipt := look("1", `{"status":"open"}`)
	store := w.Store.Store
	w.Close()
	w.Open()
	w.Store.Store = kerneltest.ReadStore{Store: store, OnBlob: func(d contracts.Digest) ([]byte, error) {
		if d == *receipt.Record.FactsHash {
			return nil, errors.New("erased")
		}
		return store.Blob(context.Background(), d)
	}}
	assert.Equal(t, errs, cancel("1"), "by facts that cannot be read")
	w.Store.Store = store
	assert.Equal(t, allowed, cancel("1"))
	w.mustReplay()
}

// A fact that has another pointer after a Swap finds no old value. The same fact under the next
// version of its bundle finds them.
func TestSourceAfterASwap(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	w.list("s", `[{"to":"ACC-0001","note":"ACC-0002"}]`)
	assert.Equal(t, allowed, w.pays("s", "ACC-0001"))
	next := kerneltest.Compile(t, kerneltest.Edit(t, Pay, "version: 1", "version: 2"))
	require.NoError(t, w.Kernel.Swap(context.Background(), next))
	assert.Equal(t, allowed, w.pays("s", "ACC-0001"), "the same fact")
	moved := kerneltest.Compile(t, kerneltest.Edit(
		t,
		Pay,
		"version: 1",
		"version: 3",
		"facts: {payee: /*/to, note: {at: /*/note, text: true}}",
		"facts: {payee: /*/note, note: {at: /*/to, text: true}}",
	))
	require.NoError(t, w.Kernel.Swap(context.Background(), moved))
	for range 2 {
		// By pointer: what was a note is now plain, and what was plain is now a text.
		assert.Equal(t, allowed, w.pays("s", "ACC-0002"))
		assert.Equal(t, allowed, w.pays("s", "ACC-0001"))
		w.Options.Policy = moved
		w.Reopen()
	}
	gone := kerneltest.Compile(t, kerneltest.Edit(t, Pay, "version: 1", "version: 4",
		"properties: {to: {type: string}, note:", "properties: {to: {type: string}, at: {type: string}, note:",
		"facts: {payee: /*/to,", "facts: {payee: /*/at,"))
	require.NoError(t, w.Kernel.Swap(context.Background(), gone))
	assert.Equal(t, unfound, w.pays("s", "ACC-0001"), "a fact that is read elsewhere")
	w.mustReplay(kerneltest.Compile(t, Pay), next, moved, gone)
}

// 64 goroutines read, say and pay in one session while overlays and policies come and go: what was
// supplied before a call is found, nothing else ever is, and every verdict replays.
func TestSourcesRace(t *testing.T) {
	t.Parallel()
	w := newBank(t)
	w.Tool = func(_ context.Context, c contracts.Call) (executor.Result, error) {
		if c.Tool == "list" {
			return executor.Result{Output: []byte(`[{"to":"ACC-LIST"}]`)}, nil
		}
		return executor.Result{Output: []byte(`{}`)}, nil
	}
	bg := context.Background()
	version := func(n int) *guardian.Policy {
		return kerneltest.Compile(t, kerneltest.Edit(t, Pay, "version: 1", fmt.Sprint("version: ", n)))
	}
	policies := make([][]*guardian.Policy, 64)
	kerneltest.AtOnce(64, func(i int) {
		switch i % 8 {
		case 0, 1:
			w.say("s", fmt.Sprint("pay USER-", i))
			d, _ := w.Call("pay", fmt.Sprintf(`{"to":"USER-%d"}`, i))
			assert.Equal(t, allowed, d.Reason, "what the user said before: %s", d.Why)
		case 2, 3:
			d, _ := w.Call("list", `{}`)
			assert.NoError(t, d.Err())
			d, _ = w.Call("pay", `{"to":"ACC-LIST"}`)
			assert.Equal(t, allowed, d.Reason, "what a tool said before: %s", d.Why)
		case 4, 5:
			d, _ := w.Call("pay", fmt.Sprintf(`{"to":"NONE-%d"}`, i))
			assert.Equal(t, unfound, d.Reason)
		case 6:
			overlay := kerneltest.Document(t, fmt.Sprintf(`{helm: policy/v1, layer: P2, name: o%d, only: [pay]}`, i))
			k, err := w.Kernel.Narrow(overlay)
			assert.NoError(t, err)
			d, _ := k.Guard(bg, helm.Intent{Tool: "pay", Args: []byte(`{"to":"NONE"}`), Session: "s"})
			assert.Equal(t, unfound, d.Reason)
			assert.NoError(t, k.UserMessage(bg, "s", "by the way"))
			for n := range 3 { // it judges by whichever is in force then
				p, err := version(1 + n).Narrow(overlay)
				assert.NoError(t, err)
				policies[i] = append(policies[i], p)
			}
			assert.NoError(t, k.Close())
		default:
			next := version(2 + i/32)
			_ = w.Kernel.Swap(bg, next) // some come too late
			policies[i] = []*guardian.Policy{next}
		}
	})
	w.mustReplay(slices.Concat(policies...)...)
	w.Options.Policy = version(3)
	w.Reopen()
	for i := range 64 {
		if i%8 < 2 {
			assert.Equal(t, allowed, w.pays("s", fmt.Sprint("USER-", i)))
		}
	}
	assert.Equal(t, allowed, w.pays("s", "ACC-LIST"))
	assert.Equal(t, unfound, w.pays("s", "NONE-4"))
	w.mustReplay(append(slices.Concat(policies...), kerneltest.Compile(t, Pay))...)
}
