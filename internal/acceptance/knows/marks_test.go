package knows

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Mail is a policy that denies what is sent from a session by what the session has read.
const Mail = `
helm: policy/v1
layer: P1
bundle: {name: mail, version: 1}
labels: [web, pii]
tools:
  web:   {effect: read, input: {type: object, properties: {}}, output: {type: object}, labels: [web], limits: {timeout: 1s}}
  notes: {effect: read, input: {type: object, properties: {}}, output: {type: object}, trusted: true}
  crm:   {effect: read, input: {type: object, properties: {}}, output: {type: object}, trusted: true, labels: [pii]}
  tell:  {effect: write, input: {type: object, properties: {}}, trusted: true}
  post:  {effect: write, input: {type: object, properties: {}}, trusted: true}
  save:  {effect: write, input: {type: object, properties: {}}, trusted: true}
  never: {effect: write, input: {type: object, properties: {}}, trusted: true}
rules:
  - {id: tainted, deny: tell, when: {session: tainted, eq: true}}
  - {id: pii, deny: post, when: {session: labels, has: pii}}
  - {id: web, deny: save, when: {session: labels, has: web}}
  - {id: all, allow: [web, notes, crm, tell, post, save]}
`

type office struct{ *kerneltest.World }

func newOffice(t *testing.T, change ...func(*helm.Options)) office {
	t.Helper()
	return office{kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, Mail)
		for _, tool := range []string{"web", "notes", "crm", "tell", "post", "save", "never"} {
			o.Drivers[tool] = o.Drivers["echo"]
		}
		for _, tool := range []string{"echo", "pinned", "slow", "scoped", "closed"} {
			delete(o.Drivers, tool)
		}
	}}, change...)...)}
}

// do makes a call that is caused by others.
func (w office) do(session, tool string, after ...helm.Receipt) (helm.Decision, helm.Receipt) {
	return w.Call(tool, `{}`, kerneltest.InSession(session), func(in *helm.Intent) {
		for _, r := range after {
			in.After = append(in.After, r.Ref())
		}
	})
}

// mustDo makes a call that must be executed.
func (w office) mustDo(session, tool string, after ...helm.Receipt) helm.Receipt {
	w.T.Helper()
	d, r := w.do(session, tool, after...)
	require.NoError(w.T, d.Err())
	return r
}

// marks returns what a session has read, as three tools are told. after are the causes of the calls
// that ask.
func (w office) marks(session string, after ...helm.Receipt) (marks string) {
	w.T.Helper()
	does := w.Tool
	defer func() { w.Tool = does }()
	w.Tool = kerneltest.Returns(`{}`, nil)
	for _, x := range []struct{ tool, mark string }{{"tell", "T"}, {"post", "p"}, {"save", "w"}} {
		d, r := w.do(session, x.tool, after...)
		switch d.Reason {
		case contracts.ReasonAllow:
			continue
		case contracts.ReasonPolicyViolation:
			marks += x.mark
			require.Equal(w.T, contracts.Denied, r.Record.Outcome, "no receipt")
		default:
			w.T.Fatalf("%s in %s: %s (%s)", x.tool, session, d.Reason, d.Why)
		}
	}
	return marks
}

// Each row of the table: what an outcome of each tool brings to its session, before and after a
// restart.
func TestMarksByOutcome(t *testing.T) {
	t.Parallel()
	ok := kerneltest.Returns(`{}`, nil)
	failed := func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(`{}`), Failed: true}, nil
	}
	late := func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
		<-ctx.Done()
		return executor.Result{}, ctx.Err()
	}
	panics := func(context.Context, contracts.Call) (executor.Result, error) { panic("tool") }
	for name, c := range map[string]struct {
		tool    string
		does    kerneltest.Tool
		outcome contracts.Outcome
		marks   string
	}{
		"executed":                      {"web", ok, contracts.Executed, "Tw"},
		"failed":                        {"web", kerneltest.NoOutput(kerneltest.ErrTool), contracts.Failed, "Tw"},
		"failed, with an output":        {"web", failed, contracts.Failed, "Tw"},
		"panicked":                      {"web", panics, contracts.Failed, "Tw"},
		"out of time":                   {"web", late, contracts.Indeterminate, "Tw"},
		"withheld":                      {"web", kerneltest.Returns(`[]`, nil), contracts.Withheld, ""},
		"denied":                        {"never", ok, contracts.Denied, ""},
		"of a trusted tool":             {"notes", ok, contracts.Executed, ""},
		"of a labelled one":             {"crm", ok, contracts.Executed, "p"},
		"failed, of a labelled one":     {"crm", failed, contracts.Failed, "p"},
		"withheld, of a labelled one":   {"crm", kerneltest.Returns(`[]`, nil), contracts.Withheld, ""},
		"out of time, of a trusted one": {"notes", panics, contracts.Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newOffice(t)
			assert.Empty(t, w.marks("s"), "before")
			w.Tool = c.does
			_, r := w.do("s", c.tool)
			require.Equal(t, c.outcome, r.Record.Outcome)
			assert.Equal(t, c.marks, w.marks("s"))
			assert.Empty(t, w.marks("t"), "of another session")
			assert.Equal(t, c.marks, w.marks("u", r), "of a session that the receipt caused")
			assert.Equal(t, c.marks, w.marks("u"), "and later")
			w.Reopen()
			assert.Equal(t, c.marks, w.marks("s"), "after a restart")
			assert.Equal(t, c.marks, w.marks("u"), "after a restart, caused")
			assert.Equal(t, c.marks, w.marks("v", r), "caused after a restart")
			assert.Empty(t, w.marks("t"), "of another session, after a restart")
			w.MustVerify()
		})
	}
}

// Marks flow along the causes of calls, over three sessions of which the second is closed, and go
// where a denial goes too. They are those that the session had just after the entry, and no later
// ones.
func TestMarksAlongAfter(t *testing.T) {
	t.Parallel()
	for _, files := range []bool{false, true} {
		var reopenStore func()
		w := newOffice(t, func(o *helm.Options) {
			if files {
				reopenStore = kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
			}
		})
		reopen := func() {
			w.Close()
			if files {
				reopenStore()
			}
			w.Open()
		}
		w.Tool = kerneltest.Returns(`{}`, nil)
		clean := w.mustDo("a", "notes")
		web := w.mustDo("a", "web")
		crm := w.mustDo("a", "crm")
		assert.Empty(t, w.marks("b0", clean), "of an entry before")
		assert.Equal(t, "Tw", w.marks("b1", web), "of an entry between")
		assert.Equal(t, "Tpw", w.marks("b2", crm))
		assert.Equal(t, "Tpw", w.marks("b3", clean, crm), "of the one of two that has them")
		_, denied := w.do("b", "never", web)
		require.Equal(t, contracts.Denied, denied.Record.Outcome)
		assert.Equal(t, "Tw", w.marks("b"), "brought by a denial")
		require.NoError(t, w.Kernel.CloseSession(context.Background(), "b"))
		_, refused := w.do("b", "notes", web)
		require.Equal(t, contracts.ReasonSessionClosed, refused.Record.Decision.Reason)
		assert.Empty(t, w.marks("c0", refused), "of @refused")
		assert.Equal(t, "Tw", w.marks("c1", denied), "of a closed session")
		reopen()
		assert.Equal(t, "Tw", w.marks("c2", denied), "of a closed session, after a restart")
		assert.Empty(t, w.marks("c3", refused), "of @refused, after a restart")
		assert.Empty(t, w.marks("c4", clean), "of an entry before, after a restart")
		assert.Equal(t, "Tpw", w.marks("c5", crm, clean), "of both, after a restart")
		assert.Equal(t, "Tw", w.marks("c1"), "of the third, after a restart")
		last := w.mustDo("c1", "notes")
		reopen()
		assert.Equal(t, "Tw", w.marks("d", last), "of the third, by an entry that brings nothing itself")
		w.MustVerify()
	}
}

// A tool's own calls in another session have its decision as cause: what was read before, and not
// what the tool says in the end.
func TestMarksOfCallsFromInside(t *testing.T) {
	t.Parallel()
	w := newOffice(t)
	inner := func(session string) kerneltest.Tool {
		return func(ctx context.Context, c contracts.Call) (executor.Result, error) {
			if c.Tool == "web" {
				d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "notes", Args: json.RawMessage(`{}`), Session: session})
				assert.NoError(t, d.Err())
			}
			return executor.Result{Output: []byte(`{}`)}, nil
		}
	}
	w.Tool = inner("t1")
	w.mustDo("s", "web")
	assert.Empty(t, w.marks("t1"), "of what the tool had not said yet")
	w.Tool = inner("t2")
	w.mustDo("s", "web")
	assert.Equal(t, "Tw", w.marks("t2"))
	w.Reopen()
	assert.Empty(t, w.marks("t1"))
	assert.Equal(t, "Tw", w.marks("t2"))
}

// Nothing takes marks back: no Swap by whose policy the tool is trusted and has no labels, no
// overlay, no denial, no repeat of an idempotency key, no restart under another policy.
func TestMarksAreNotCleared(t *testing.T) {
	t.Parallel()
	w := newOffice(t, func(o *helm.Options) { o.Keep.Outputs = true })
	w.Tool = kerneltest.Returns(`{}`, nil)
	web := w.mustDo("s", "web")
	_, first := w.Call("crm", `{}`, kerneltest.InSession("s"), kerneltest.WithKey("k"))
	const before = `output: {type: object}, labels: [web], limits`
	trusting := kerneltest.Compile(t, kerneltest.Edit(t, Mail, before, `output: {type: object}, trusted: true, limits`,
		`trusted: true, labels: [pii]`, `trusted: true`, `version: 1`, `version: 2`))
	require.NoError(t, w.Kernel.Swap(context.Background(), trusting))
	assert.Equal(t, "Tpw", w.marks("s"), "after a Swap")
	assert.Equal(t, "Tw", w.marks("t", web), "of an entry before the Swap")
	_, again := w.Call("crm", `{}`, kerneltest.InSession("s"), kerneltest.WithKey("k"))
	require.Equal(t, first.Index, again.Index, "a repeat")
	assert.Equal(t, "Tpw", w.marks("u", again), "of a repeat")
	w.mustDo("v", "web")
	assert.Empty(t, w.marks("v"), "under the policy that trusts it")
	task, err := w.Kernel.Narrow(kerneltest.Document(t, `
helm: policy/v1
layer: P2
name: task
only: [tell, post, save]
`))
	require.NoError(t, err)
	for i, tool := range []string{"tell", "post", "save"} {
		d, _ := task.Guard(context.Background(), helm.Intent{Tool: tool, Args: []byte(`{}`), Session: "s"})
		assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason, "%d", i)
		d, _ = task.Guard(context.Background(), helm.Intent{Tool: tool, Args: []byte(`{}`), Session: "v"})
		assert.NoError(t, d.Err())
	}
	w.Options.Policy = trusting
	w.Reopen()
	assert.Equal(t, "Tpw", w.marks("s"), "after a restart under the policy that trusts")
	assert.Empty(t, w.marks("v"), "after a restart under the policy that trusts")
	w.MustVerify()
}

// A process that ends between permission and receipt: the outcome is unknown, and the session has
// what the tool may have said.
func TestMarksOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for how, f := range map[string]func(error) error{
		"the receipt was not written":       nil,
		"the receipt was, and nobody knows": func(error) error { return kerneltest.ErrDisk },
	} {
		w := newOffice(t)
		w.Tool = kerneltest.Returns(`{}`, nil)
		w.Store.OnFail = f
		w.Store.FailIn(2)
		w.do("s", "web")
		w.Store.Heal()
		w.Open()
		assert.Equal(t, "Tw", w.marks("s"), how)
		w.Reopen()
		assert.Equal(t, "Tw", w.marks("s"), how)
		w.MustVerify()
	}
}

// In the session of all calls that name none nobody may ask, but marks go on to sessions that its
// entries cause.
func TestMarksOfMain(t *testing.T) {
	t.Parallel()
	w := newOffice(t)
	w.Tool = kerneltest.Returns(`{}`, nil)
	r := w.mustDo("", "web")
	d, denied := w.do("", "tell")
	assert.Equal(t, contracts.ReasonFailClosedError, d.Reason)
	assert.Equal(t, contracts.Denied, denied.Record.Outcome)
	assert.Equal(t, "Tw", w.marks("s", r))
	w.Reopen()
	assert.Equal(t, "Tw", w.marks("t", r))
	assert.Equal(t, "Tw", w.marks("u", denied))
	w.MustVerify()
}

// The documents of an earlier policy say what its tools brought. If the store has lost one, New
// does not guess.
func TestMarksNeedTheDocuments(t *testing.T) {
	t.Parallel()
	w := newOffice(t)
	w.Tool = kerneltest.Returns(`{}`, nil)
	w.mustDo("s", "web")
	store := w.Store.Store
	w.Close()
	for name, bad := range map[string]kerneltest.ReadStore{
		"other bytes": kerneltest.ReadBlob(store, []byte(`{}`), nil),
		"gone":        kerneltest.ReadBlob(store, nil, fmt.Errorf("gone")),
		"a panic":     kerneltest.PanicBlob(store),
	} {
		w.Store.Store = bad
		o := w.Options
		_, err := helm.New(o)
		assert.Error(t, err, name)
	}
	w.Store.Store = store
	w.Open()
	assert.Equal(t, "Tw", w.marks("s"))
}

// 64 goroutines read, ask and cause one another over four sessions: no session loses what it has.
func TestMarksRace(t *testing.T) {
	t.Parallel()
	w := newOffice(t)
	w.Tool = kerneltest.Returns(`{}`, nil)
	web, clean := w.mustDo("s0", "web"), w.mustDo("clean", "notes")
	kerneltest.AtOnce(64, func(i int) {
		session := fmt.Sprint("s", i%4)
		switch i % 8 {
		case 0, 1, 2, 3:
			w.do(session, "notes", web)
			d, _ := w.do(session, "tell")
			assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason, "%s after what taints it", session)
		case 4, 5:
			d, _ := w.do("s0", "tell", clean)
			assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason)
		case 6:
			w.do(session, "crm")
			d, _ := w.do(session, "post")
			assert.Equal(t, contracts.ReasonPolicyViolation, d.Reason)
		default:
			d, _ := w.do(fmt.Sprint("clean-", i), "tell", clean)
			assert.NoError(t, d.Err())
		}
	})
	w.Reopen()
	assert.Equal(t, "Tpw", w.marks("s2"))
	assert.Empty(t, w.marks("clean"))
	w.MustVerify()
}

// Labels stand in inputs in the order of their canonical form, which is not that of their bytes: in
// JSON a quote ends a text, and one in a text has a backslash before it.
func TestLabelsInCanonicalOrder(t *testing.T) {
	t.Parallel()
	w := newOffice(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, kerneltest.Edit(t, Mail, "labels: [web, pii]\n",
			`labels: [web, pii, "web 2", "web!", "web#", "we\"", "we\\", "we"]`+"\n",
			"labels: [web], limits", `labels: [web, "web 2", "web!", "web#", "we\"", "we\\", "we"], limits`))
	})
	w.Tool = kerneltest.Returns(`{}`, nil)
	w.mustDo("s", "web")
	d, _ := w.do("s", "post")
	b, err := w.Store.Store.Blob(context.Background(), d.Record.InputsHash)
	require.NoError(t, err)
	in, err := contracts.ParseInputs(b)
	require.NoError(t, err, "%s", b)
	assert.Equal(t, &[]string{"we", `we"`, `we\`, "web 2", "web!", "web", "web#"}, in.State.Labels)
	w.MustVerify()
}
