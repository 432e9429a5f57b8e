package helmtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// A loop is a framework of plain Go with its adapter: tools by name, hooks, aliases, a registry,
// and an interrupt. Its functions are the places at which a toy is broken.
type loop struct {
	guard   guardFunc
	resumes bool
}

// A guardFunc makes one call of the model, and returns what the model is shown.
type guardFunc func(ctx context.Context, k *helm.Kernel, name string, args []byte, tool *ScriptedTool) (
	text string, failed bool, pending *contracts.ApprovalRequest)

func honestLoop() *loop { return &loop{guard: guardTool, resumes: true} }

type asked struct {
	turn    Turn
	calls   []Call
	args    map[string][]byte
	pending map[string]contracts.ApprovalRequest
}

func guardTool(
	ctx context.Context, k *helm.Kernel, name string, args []byte, tool *ScriptedTool,
) (string, bool, *contracts.ApprovalRequest) {
	if len(args) == 0 {
		args = []byte("{}")
	}
	in := helm.Intent{Tool: name, Args: args}
	in.Driver = driver(tool)
	d, r := k.Guard(ctx, in)
	text, failed := d.ForModel(r)
	return text, failed, d.Pending
}

func driver(tool *ScriptedTool) helm.Driver {
	return helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if tool == nil {
			return nil, errors.New("no such tool")
		}
		if tool.Kind == "streamed" {
			var all []byte
			for chunk, err := range tool.Stream(ctx, args) {
				if err != nil {
					return nil, err
				}
				all = append(all, chunk...)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return all, nil
		}
		text, err := tool.Run(ctx, args)
		return json.RawMessage(text), err
	})
}

func (l *loop) adapter() Adapter {
	a := Adapter{Name: "toy", Kinds: []string{"plain", "streamed"}, Ways: []string{"registry"}, Turn: l.turn}
	if l.resumes {
		a.Resume = l.resume
	}
	return a
}

func (l *loop) turn(ctx context.Context, t Turn) Answer {
	a := Answer{Text: t.Text}
	for _, step := range t.Model {
		args := map[string][]byte{}
		for _, c := range step {
			args[c.ID] = slices.Clone(c.Args)
		}
		l.step(ctx, t, step, args, &a)
		if a.Pending != nil {
			a.Text = ""
			return a
		}
	}
	return a
}

func (l *loop) step(ctx context.Context, t Turn, calls []Call, args map[string][]byte, a *Answer) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := &asked{turn: t, args: args, pending: map[string]contracts.ApprovalRequest{}}
	for _, c := range calls {
		given := args[c.ID]
		wg.Go(func() {
			name := c.Tool
			if real, ok := t.Alias[name]; ok {
				name = real
			}
			var tool *ScriptedTool
			for _, x := range slices.Concat(t.Tools, t.Late) {
				if x.Name == name {
					tool = x
				}
			}
			if t.Hook != nil {
				given = t.Hook(given)
			}
			text, failed, q := l.guard(ctx, t.Kernel, name, given, tool)
			mu.Lock()
			defer mu.Unlock()
			if q != nil && l.resumes {
				ask.pending[c.ID] = *q
				ask.calls = append(ask.calls, c)
				a.Pending = append(a.Pending, *q)
				a.State = ask
				return
			}
			a.Shown = append(a.Shown, Shown{Call: c.ID, Text: text, Failed: failed})
		})
	}
	wg.Wait()
}

func (l *loop) resume(ctx context.Context, a Answer, r Reply) Answer {
	ask := a.State.(*asked)
	var p struct {
		Approvals []helm.Envelope `json:"approvals"`
	}
	_ = json.Unmarshal(r.Payload, &p)
	ctx = helm.With(ctx, helm.Intent{Approvals: p.Approvals})
	if r.Args != nil {
		ask.args[r.Call] = r.Args
	}
	next := Answer{Text: ask.turn.Text}
	for _, c := range ask.calls {
		if c.ID == r.Call {
			l.step(ctx, ask.turn, []Call{c}, ask.args, &next)
		}
	}
	if next.Pending != nil {
		next.Text = ""
	}
	return next
}

func TestAdapterSuite(t *testing.T) {
	AdapterSuite(t, honestLoop().adapter())
}
