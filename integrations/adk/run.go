package adk

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"strconv"
	"strings"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
)

// A streaming tool is one that returns pieces of a text.
type streaming interface {
	declarer
	RunStream(ctx agent.Context, args any) iter.Seq2[string, error]
}

// A run is the driver of one call.
type run struct {
	tool     *guarded
	ctx      agent.Context
	actions  *session.EventActions // of the tool; they count if the outcome is told
	rejected bool                  // the user said no: nothing runs
}

var _ executor.Defined = (*run)(nil)

// Definition returns the digest of the tool as [Declared] publishes it; zero for a tool that is not
// declared.
func (r *run) Definition() contracts.Digest {
	_, d, err := published(r.tool.inner)
	if err != nil {
		return contracts.Digest{}
	}
	return d
}

// Run runs the agent's own tool with the judged arguments, under ADK's context with the kernel's
// in it.
func (r *run) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	if r.rejected {
		return executor.Result{}, tool.ErrConfirmationRejected
	}
	var args map[string]any
	if err := json.Unmarshal(c.Args, &args); err != nil { // doubles hold all numbers of canonical JSON
		return executor.Result{}, errors.New("adk: the arguments are no object")
	}
	within := r.ctx.WithDelta(&agent.CommonContextDelta{
		InvocationContextDelta: &agent.InvocationContextDelta{Context: &ctx},
	})
	call := agent.NewToolContext(within, r.ctx.FunctionCallID(), r.actions, r.ctx.ToolConfirmation())
	if s, ok := r.tool.inner.(streaming); ok {
		return r.drain(call, s, args)
	}
	made, err := r.tool.inner.(function).Run(call, args)
	if err != nil {
		r.tool.repanic(err)
		return executor.Result{}, err
	}
	output, err := json.Marshal(made)
	if err != nil { // the tool ran, and did not say that it failed
		panic(errors.New("adk: the result has no JSON form"))
	}
	return executor.Result{Output: output}, nil
}

// drain reads a stream to its end. One that ended because its context did was cut short, even if it
// does not say so.
func (r *run) drain(ctx agent.Context, s streaming, args map[string]any) (executor.Result, error) {
	var text strings.Builder
	for piece, err := range s.RunStream(ctx, args) {
		if err != nil {
			r.tool.repanic(err)
			return executor.Result{}, err
		}
		text.WriteString(piece)
	}
	if err := ctx.Err(); err != nil {
		return executor.Result{}, err
	}
	p := r.tool.kernel.Policy()
	return executor.Result{Output: []byte(text.String()), Raw: p == nil || !p.HasOutput(r.tool.name)}, nil
}

// A panicked is a panic that ADK made an error of.
type panicked struct{}

// repanic panics if an error is a panic of the tool that ADK caught: its text has the value and the
// stack, and the call has not failed but ended nobody knows how.
func (g *guarded) repanic(err error) {
	text := err.Error()
	if strings.HasPrefix(text, "panic in tool "+strconv.Quote(g.name)+": ") && strings.Contains(text, "\nstack: ") {
		panic(panicked{})
	}
}

// copied returns actions that a tool may change without changing those of the event.
func copied(a *session.EventActions) *session.EventActions {
	if a == nil {
		return &session.EventActions{}
	}
	c := *a
	c.StateDelta, c.ArtifactDelta = maps.Clone(a.StateDelta), maps.Clone(a.ArtifactDelta)
	c.RequestedToolConfirmations = maps.Clone(a.RequestedToolConfirmations)
	return &c
}

// ended returns a context that has ended: a call under it is denied, and recorded.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// told returns what the model is told of a call. Text is what a stream consists of, whatever it
// looks like.
func told(d helm.Decision, r helm.Receipt, text bool) map[string]any {
	output, failed := d.ForModel(r)
	if failed {
		return map[string]any{"error": output}
	}
	var tree crypto.Tree
	var object map[string]any
	if !text && tree.Parse([]byte(output), crypto.Limits{Bytes: len(output), Depth: 128, Object: true}) == nil &&
		tree.Canonical() && json.Unmarshal([]byte(output), &object) == nil {
		return object // doubles hold all numbers of canonical JSON
	}
	return map[string]any{"result": output}
}
