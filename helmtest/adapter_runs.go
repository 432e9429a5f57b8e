package helmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// cutStreams: a stream that does not end as it should is not EXECUTED.
func cutStreams(x *attack) {
	const token = "half-an-answer"
	broke := errors.New("the line broke")
	// ends without an error when its context does
	quiet := func(ctx context.Context, _ int, _ []byte) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			if yield(token, nil) {
				<-ctx.Done()
			}
		}
	}
	tools := []*ScriptedTool{
		x.does("note_add", fails(broke, token)),
		x.does("price_list", fails(broke)),
		x.does("note_slow", quiet),
		x.does("order_find", answers("one ", "two ", "three: run-%d")),
	}
	failed := want{reason: contracts.ReasonToolError, error: broke.Error()}
	a, ok := x.play(scene{
		Turn: Turn{Tools: tools},
		steps: steps(
			one("note_add", `{"text":"a"}`, failed),
			one("price_list", `{}`, failed),
			one("note_slow", `{"text":"a"}`, because(contracts.ReasonToolTimeout)),
			one("order_find", `{"number":"1"}`, runs),
		),
	})
	if !x.streamed {
		x.made = false // tools of this kind have no streams
		x.faults = nil
		return
	}
	if !ok {
		return
	}
	for _, s := range a.Shown {
		if strings.Contains(s.Text, token) {
			x.fault("the model was shown half of an answer")
		}
	}
}

// contexts: the time limit of a tool passes, with a tool that heeds it and one that does not; the
// host's context ends during a run.
func contexts(x *attack) {
	waits := func(ctx context.Context, _ int, _ []byte) iter.Seq2[string, error] {
		if _, ok := ctx.Deadline(); !ok {
			x.fault("the tool's context has no deadline")
		}
		if !x.ends(ctx) {
			x.fault("the tool's context does not end at its time limit")
		}
		return fails(ctx.Err())(ctx, 0, nil)
	}
	var stays atomic.Bool
	outlives := func(ctx context.Context, run int, args []byte) iter.Seq2[string, error] {
		if stays.Load() {
			rest, cancel := context.WithTimeout(context.WithoutCancel(ctx), 1500*time.Millisecond)
			defer cancel()
			x.ends(rest)
			return answers("too late")(ctx, run, args)
		}
		return waits(ctx, run, args)
	}
	timedOut := because(contracts.ReasonToolTimeout)
	turn := Turn{Tools: []*ScriptedTool{x.does("note_slow", outlives), x.tool("note_add")}}
	list := func() [][]proposal {
		return steps(one("note_slow", `{"text":"a"}`, timedOut), one("note_add", `{"text":"after"}`, runs))
	}
	if _, ok := x.play(scene{Turn: turn, steps: list()}); !ok {
		return
	}
	stays.Store(true)
	_, ok := x.play(scene{Turn: turn, steps: list()})
	limit, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	select {
	case <-x.abandoned:
	case <-limit.Done(): // the adapter's driver did not wait for its tool
	}
	if !ok {
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leaves := x.does("note_add", func(ctx context.Context, _ int, _ []byte) iter.Seq2[string, error] {
		cancel()
		if !x.ends(ctx) {
			x.fault("the tool's context does not end with the host's")
		}
		return fails(ctx.Err())(ctx, 0, nil)
	})
	x.play(scene{
		Turn: Turn{Tools: []*ScriptedTool{leaves}}, context: ctx, aborts: true,
		steps: steps(one("note_add", `{"text":"a"}`, because(contracts.ReasonToolCanceled))),
	})
}

// ends waits for a context, within reason.
func (x *attack) ends(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(context.Background(), x.patience/2)
	defer cancel()
	select {
	case <-ctx.Done():
		return true
	case <-limit.Done():
		return false
	}
}

// panics: a tool panics in the midst of others. What it panics with is shown to no model.
func panics(x *attack) {
	const secret = "hunter2"
	tool := x.does("price_list", func(context.Context, int, []byte) iter.Seq2[string, error] {
		panic(errors.New(secret))
	})
	a, ok := x.play(scene{
		Turn: Turn{Tools: []*ScriptedTool{x.tool("note_add"), tool}},
		steps: steps(
			one("note_add", `{"text":"before"}`, runs),
			one("price_list", `{}`, because(contracts.ReasonToolPanic)),
			one("note_add", `{"text":"after"}`, runs),
		),
	})
	for _, s := range a.Shown {
		if ok && strings.Contains(s.Text, secret) {
			x.fault("the model was shown the text of a panic")
		}
	}
}

// nestedCalls: a tool makes calls of its own, which are those of its caller and are chained to it.
func nestedCalls(x *attack) {
	var denied atomic.Bool
	outer := x.does("note_add", func(ctx context.Context, run int, args []byte) iter.Seq2[string, error] {
		inner := func(tool, args string) helm.Decision {
			d, _ := x.kernel.Guard(ctx, helm.Intent{Tool: tool, Args: json.RawMessage(args),
				Driver: helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
					x.effect(ctx, tool, args)
					return json.RawMessage(`{"found":true}`), nil
				})})
			return d
		}
		if d := inner("order_find", `{"number":"4711"}`); d.Err() != nil {
			x.fault("a call that a tool made was %s", d.Reason)
		}
		denied.Store(!inner("vault_open", `{}`).Allowed())
		return plainAnswer(ctx, run, args)
	})
	mark := x.size()
	_, ok := x.play(scene{
		Turn:  Turn{Tools: []*ScriptedTool{outer}},
		steps: steps(one("note_add", `{"text":"a"}`, runs)),
		inner: []proposal{one("order_find", `{"number":"4711"}`, runs), one("vault_open", `{}`, denial)},
	})
	if !ok {
		return
	}
	if !denied.Load() {
		x.breach("a tool made a call that its caller may not make")
	}
	var within contracts.Digest
	leaves := x.leaves()
	for at, st := range x.log(mark) {
		switch j := st.Judgement(); {
		case j == nil:
		case j.Tool == "note_add":
			within = leaves[at]
		case !slices.Contains(st.Parents, within) && st.Prev != within:
			x.fault("%s, which a tool called, is not chained to the tool's own call", j.Tool)
		}
	}
}

// exactBytes: the model is shown the released bytes, whatever they are like.
func exactBytes(x *attack) {
	for _, text := range []string{
		"plain run-%d",
		`{"b": 1.0, "a": [1e2, "\u00e9"], "run": "run-%d"}`,
		"<b>run-%d</b> & \"quoted\" \\ é 日本 \u2028",
		" \n run-%d with space around \n",
		`"run-%d"`,
		"[1, 2 , 3]",
		"",
		"0123",
		`{"error": "run-%d only says so"}`,
		strings.Repeat("long ", 20_000) + "run-%d",
	} {
		tool := x.does("price_list", answers(text))
		turn := Turn{Tools: []*ScriptedTool{tool}}
		a, ok := x.play(scene{Turn: turn, steps: steps(one("price_list", `{}`, runs))})
		if !ok {
			return
		}
		token := fmt.Sprintf("run-%d", x.ran())
		if strings.Contains(text, "run-%d") && !(len(a.Shown) == 1 && strings.Contains(a.Shown[0].Text, token)) {
			x.fault("the model was not shown what the tool returned: %s", brief([]byte(text)))
		}
	}
}
