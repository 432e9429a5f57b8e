package helmtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// A toyLoop is a framework of plain Go with its adapter: it has tools by name, aliases, hooks,
// calls side by side, a registry and interrupts. A broken toy has another function in one of its
// fields.
type toyLoop struct {
	resumes  bool          // it has interrupts
	patience time.Duration // that the suite has

	read   func(args []byte) []byte                                   // the framework takes the arguments
	find   func(t Turn, name string) (judged string, x *ScriptedTool) // the tool of a call
	guard  func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt)
	run    func(ctx context.Context, x *ScriptedTool, args []byte) (string, error)
	show   func(d helm.Decision, r helm.Receipt) (text string, failed bool)
	call   func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest)
	finish func(a *Answer)
	answer func(ctx context.Context, ask *question, r Reply) Answer // resume
}

// A question is what a toy keeps of a turn that was interrupted.
type question struct {
	turn  Turn
	calls []Call
	ctx   context.Context // of the turn
}

func honestToy() *toyLoop {
	f := &toyLoop{resumes: true, patience: patience}
	f.read = func(args []byte) []byte { return args }
	f.find = findTool
	f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
		return k.Guard(ctx, in)
	}
	f.run = runTool
	f.show = func(d helm.Decision, r helm.Receipt) (string, bool) { return d.ForModel(r) }
	f.call = f.honestCall
	f.finish = func(*Answer) {}
	f.answer = f.honestAnswer
	return f
}

func findTool(t Turn, name string) (string, *ScriptedTool) {
	if of, ok := t.Alias[name]; ok {
		name = of
	}
	for _, x := range slices.Concat(t.Tools, t.Late) {
		if x.Name == name {
			return name, x
		}
	}
	return name, nil
}

func runTool(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
	switch {
	case x == nil:
		return "", errors.New("there is no such tool")
	case x.Kind != "streamed":
		return x.Run(ctx, args)
	}
	all := ""
	for chunk, err := range x.Stream(ctx, args) {
		if err != nil {
			return "", err
		}
		all += chunk
	}
	return all, ctx.Err()
}

func (f *toyLoop) honestCall(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
	args := f.read(c.Args)
	if t.Hook != nil {
		args = t.Hook(args)
	}
	name, x := f.find(t, c.Tool)
	d, r := f.guard(ctx, t.Kernel, helm.Intent{Tool: name, Args: args, Driver: f.driver(x)})
	text, failed := f.show(d, r)
	return Shown{Call: c.ID, Text: text, Failed: failed}, d.Pending
}

func (f *toyLoop) driver(x *ScriptedTool) helm.Driver {
	return helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		text, err := f.run(ctx, x, args)
		return json.RawMessage(text), err
	})
}

func (f *toyLoop) adapter() Adapter {
	a := Adapter{
		Name: "toy", Kinds: []string{"plain", "streamed"}, Ways: []string{"registry"}, Turn: f.turn,
	}
	if f.resumes {
		a.Resume = func(ctx context.Context, a Answer, r Reply) Answer {
			return f.answer(ctx, a.State.(*question), r)
		}
	}
	return a
}

func (f *toyLoop) turn(ctx context.Context, t Turn) Answer {
	a := Answer{Text: t.Text}
	for _, calls := range t.Model {
		if f.step(ctx, t, calls, &a); f.resumes && a.Pending != nil {
			a.Text = ""
			break
		}
	}
	f.finish(&a)
	return a
}

// step makes the calls of one answer of the model, side by side.
func (f *toyLoop) step(ctx context.Context, t Turn, calls []Call, a *Answer) {
	var mu sync.Mutex
	var all sync.WaitGroup
	ask := &question{turn: t, ctx: ctx}
	for _, c := range calls {
		all.Go(func() {
			shown, pending := f.call(ctx, t, c)
			mu.Lock()
			defer mu.Unlock()
			if pending != nil {
				a.Pending = append(a.Pending, *pending)
				if f.resumes {
					ask.calls, a.State = append(ask.calls, c), ask
					return
				}
			}
			a.Shown = append(a.Shown, shown)
		})
	}
	all.Wait()
}

func (f *toyLoop) honestAnswer(ctx context.Context, ask *question, r Reply) Answer {
	var p struct {
		Approvals []helm.Envelope `json:"approvals"`
	}
	_ = json.Unmarshal(r.Payload, &p) // what is no approval approves nothing
	ctx = helm.With(ctx, helm.Intent{Approvals: p.Approvals})
	a := Answer{Text: ask.turn.Text}
	for _, c := range ask.calls {
		if c.ID != r.Call {
			continue
		}
		if r.Args != nil {
			c.Args = r.Args
		}
		f.step(ctx, ask.turn, []Call{c}, &a)
	}
	if a.Pending != nil {
		a.Text = ""
	}
	f.finish(&a)
	return a
}
