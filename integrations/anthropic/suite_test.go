package anthropic_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/toolrunner"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/helmtest"
	helmanthropic "github.com/helmkernel/helm/integrations/anthropic"
	"github.com/helmkernel/helm/integrations/anthropic/internal/scripted"
)

// TestAdapterSuite: the attacks that every adapter is tried with, under both runners. A hook is a
// middleware of the SDK, which changes a message before it is decoded.
func TestAdapterSuite(t *testing.T) {
	t.Parallel()
	helmtest.AdapterSuite(t, helmtest.Adapter{
		Name:  "anthropic",
		Kinds: []string{"plain", "streaming"},
		Ways:  []string{"another-loop"},
		Turn:  turn,
		Lacks: map[string]string{
			"07-alias":   "the SDK has no aliases: a name is that of a tool",
			"08-streams": "the SDK has no tools that stream",
		},
	})
}

func turn(ctx context.Context, t helmtest.Turn) (a helmtest.Answer) {
	if len(t.Alias) > 0 {
		return helmtest.Answer{Err: errors.ErrUnsupported}
	}
	var mu sync.Mutex
	ctx = helmanthropic.Ask(ctx, func(d helm.Decision) {
		mu.Lock()
		defer mu.Unlock()
		a.Pending = append(a.Pending, *d.Pending)
	})
	model := &scripted.Model{Text: t.Text}
	for i, calls := range t.Model {
		step := scripted.Step{}
		for _, c := range calls {
			step.Calls = append(step.Calls, scripted.Call{ID: c.ID, Tool: c.Tool, Args: string(c.Args)})
		}
		if i > 0 && t.Repeat {
			return helmtest.Answer{Err: errors.ErrUnsupported}
		}
		model.Steps = append(model.Steps, step)
	}
	if t.Repeat { // the request with the results fails once, and the step is made again
		model.Steps = append(model.Steps, scripted.Step{Fails: true})
	}
	options := model.Options()
	if t.Hook != nil {
		options = append(options, option.WithMiddleware(
			func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
				model.Change(func(args string) string { return string(t.Hook([]byte(args))) })
				return next(r)
			}))
	}
	client := anthropic.NewClient(options...)
	var list []anthropic.BetaTool
	for _, s := range t.Tools {
		list = append(list, scriptedTool(s))
	}
	params := anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{Model: "scripted",
		MaxTokens: 99, Messages: []anthropic.BetaMessageParam{
			anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock("Go on."))}}}
	failures := 0
	if t.Repeat {
		failures = 1
	}
	var last *anthropic.BetaMessage
	if t.Tools[0].Kind == "plain" {
		r, err := helmanthropic.NewToolRunner(t.Kernel, &client.Beta.Messages, list, params)
		if err != nil {
			return helmtest.Answer{Err: err}
		}
		for _, s := range t.Late {
			a.Err = errors.Join(a.Err, r.AddTools(scriptedTool(s)))
		}
		if t.Way != "" {
			_, a.Err = r.RunToCompletion(ctx)
		}
		for a.Err == nil && !r.IsCompleted() {
			if _, a.Err = r.NextMessage(ctx); a.Err != nil && failures > 0 {
				a.Err, failures = nil, failures-1
			}
		}
		last = r.LastMessage()
	} else {
		r, err := helmanthropic.NewToolRunnerStreaming(t.Kernel, &client.Beta.Messages, list, params)
		if err != nil {
			return helmtest.Answer{Err: err}
		}
		for _, s := range t.Late {
			a.Err = errors.Join(a.Err, r.AddTools(scriptedTool(s)))
		}
		for t.Way != "" && a.Err == nil && !r.IsCompleted() {
			for _, err := range r.NextStreaming(ctx) {
				a.Err = errors.Join(a.Err, err)
			}
		}
		for events := range r.AllStreaming(ctx) {
			for _, err := range events {
				a.Err = errors.Join(a.Err, err)
			}
			if a.Err != nil && failures > 0 {
				a.Err, failures = nil, failures-1
			}
			if a.Err != nil {
				break
			}
		}
		last = r.LastMessage()
	}
	if last != nil && last.StopReason == "end_turn" {
		a.Text = last.Content[0].Text
	}
	for _, told := range model.Told() {
		text := told.Text
		if told.Error {
			text = strings.TrimPrefix(text, "Error: ") // the SDK's
		}
		a.Shown = append(a.Shown, helmtest.Shown{Call: told.Call, Text: text, Failed: told.Error})
	}
	return a
}

func scriptedTool(s *helmtest.ScriptedTool) anthropic.BetaTool {
	tool, err := toolrunner.NewBetaToolFromBytes(s.Name, s.Description, s.Schema,
		func(ctx context.Context, args json.RawMessage) (anthropic.BetaToolResultBlockParamContentUnion, error) {
			text, err := s.Run(ctx, args)
			block := &anthropic.BetaTextBlockParam{Text: text}
			return anthropic.BetaToolResultBlockParamContentUnion{OfText: block}, err
		})
	if err != nil {
		panic(err) // of the suite's schemas
	}
	return tool
}
