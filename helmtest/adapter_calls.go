package helmtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// kinds: a call that is allowed runs once, and one that is denied does not.
func kinds(x *attack) {
	x.play(scene{
		Turn: Turn{Tools: []*ScriptedTool{x.tool("note_add"), x.tool("vault_open"), x.tool("price_list")}},
		steps: steps(
			one("note_add", `{"text":"first"}`, runs),
			one("vault_open", `{"text":"please"}`, denial),
			one("note_add", `{"n":51,"text":"too much"}`, denial),
			one("price_list", `{}`, runs),
			one("note_add", `{ "text" : "last", "n" : 50 }`, runs),
		),
	})
	sealed(x)
}

// sealed: a kernel that takes no calls any more records none, and no tool runs.
func sealed(x *attack) {
	y, err := newAttack(x.adapter, x.kind, x.patience)
	if err == nil {
		err = y.kernel.Close()
	}
	if err != nil {
		x.breach("%v", err)
		return
	}
	a, _ := y.play(scene{
		Turn:  Turn{Tools: []*ScriptedTool{y.tool("note_add")}},
		steps: steps(one("note_add", `{"text":"a"}`, receipt)), loose: true,
	})
	x.breaches = append(x.breaches, y.breaches...)
	for _, s := range a.Shown {
		if !strings.Contains(s.Text, string(contracts.ReasonKernelSealed)) {
			x.fault("the kernel is closed, and the model was shown %s", brief([]byte(s.Text)))
		}
	}
}

// unknownTool: the model makes up a tool, writes a name that is none, and uses a tool that no
// policy declares.
func unknownTool(x *attack) {
	notFound := because(contracts.ReasonToolNotFound)
	list := steps(
		one("ghost", `{"text":"a"}`, notFound),
		one("undeclared", `{"text":"a"}`, notFound),
		one("note add", `{"text":"a"}`, because(contracts.ReasonIntentMalformed)),
		one("note_add", `{"text":"after"}`, runs),
	)
	list[2][0].judged = []string{contracts.Hashed(list[2][0].tool)} // as a record names it
	x.play(scene{Turn: Turn{Tools: []*ScriptedTool{x.tool("note_add"), x.tool("undeclared")}}, steps: list})
}

// aliases: the model calls tools by other names. The tool that runs is judged, and not what the
// model calls it: one that is allowed runs, so that the suite knows that the framework has aliases.
func aliases(x *attack) {
	list := steps(
		one("peek", `{"text":"a"}`, denial), one("price_list", `{}`, receipt), one("jot", `{"text":"a"}`, runs))
	list[0][0].judged = []string{"vault_open", "peek"}
	list[1][0].judged = []string{"vault_open", "price_list"}
	list[2][0].judged = []string{"note_add"}
	x.play(scene{
		Turn: Turn{
			Tools: []*ScriptedTool{x.tool("vault_open"), x.tool("note_add")},
			Alias: map[string]string{"peek": "vault_open", "price_list": "vault_open", "jot": "note_add"},
		},
		steps: list,
	})
}

// inParallel: 32 calls in one answer of the model, of which every fourth is denied.
func inParallel(x *attack) {
	const n = 32
	var now, most atomic.Int64
	tool := x.does("note_add", func(ctx context.Context, run int, args []byte) iter.Seq2[string, error] {
		for at := now.Add(1); ; {
			m := most.Load()
			if at <= m || most.CompareAndSwap(m, at) {
				break
			}
		}
		return func(yield func(string, error) bool) {
			defer now.Add(-1)
			pause, cancel := context.WithTimeout(ctx, 5*time.Millisecond) // let others begin
			defer cancel()
			<-pause.Done()
			plainAnswer(ctx, run, args)(yield)
		}
	})
	var list []proposal
	for i := range n {
		p := one("note_add", fmt.Sprintf(`{"text":"note %d"}`, i), runs)
		if i%4 == 3 {
			p = one("vault_open", fmt.Sprintf(`{"text":"note %d"}`, i), denial)
		}
		list = append(list, p)
	}
	x.play(scene{
		Turn:  Turn{Tools: []*ScriptedTool{tool, x.tool("vault_open")}},
		steps: [][]proposal{list},
	})
	x.note("at most %d calls ran at once", most.Load())
}

// siblings: of several calls in one answer some are denied, and one fails. The others keep their
// results, and the loop goes on.
func siblings(x *attack) {
	failed := errors.New("the list is being printed")
	x.play(scene{
		Turn: Turn{Tools: []*ScriptedTool{
			x.tool("note_add"), x.tool("vault_open"), x.tool("order_find"), x.does("price_list", fails(failed)),
		}},
		steps: [][]proposal{
			{
				one("note_add", `{"text":"first"}`, runs),
				one("vault_open", `{}`, denial),
				one("ghost", `{}`, denial),
				one("price_list", `{}`, want{reason: contracts.ReasonToolError, error: failed.Error()}),
				one("order_find", `{"number":"4711"}`, runs),
			},
			{one("note_add", `{"text":"after"}`, runs)},
		},
	})
}

// repeats: the framework, and then the model, repeat a call that failed. Each run has an ALLOW and
// a receipt of its own.
func repeats(x *attack) {
	failed := errors.New("the list is being printed")
	notYet := want{reason: contracts.ReasonToolError, error: failed.Error()}
	again := func(limit int) *ScriptedTool {
		n := 0
		return x.does("price_list", func(ctx context.Context, run int, args []byte) iter.Seq2[string, error] {
			if n++; n <= limit {
				return fails(failed)(ctx, run, args)
			}
			return plainAnswer(ctx, run, args)
		})
	}
	before := x.ran()
	_, ok := x.play(scene{
		Turn:  Turn{Tools: []*ScriptedTool{again(1)}},
		steps: steps(one("price_list", `{}`, notYet), one("price_list", `{}`, runs)),
	})
	if ran := x.ran() - before; ok && ran != 2 {
		x.fault("two calls that were proposed ran %d times", ran)
	}
	// models name their calls as they like: a name that comes again is another call
	before = x.ran()
	var list [2]proposal
	for i := range list {
		list[i] = one("price_list", `{}`, runs)
		list[i].id = "call-0"
		x.play(scene{
			Turn: Turn{Tools: []*ScriptedTool{x.tool("price_list")}}, steps: steps(list[i]), session: "again",
		})
	}
	if ran := x.ran() - before; ok && ran != 2 {
		x.fault("two calls that have one name ran %d times", ran)
	}
	x.play(scene{
		Turn:     Turn{Tools: []*ScriptedTool{again(2)}, Repeat: true},
		steps:    steps(one("price_list", `{}`, receipt)),
		optional: "the framework repeats no call", loose: true,
	})
}

// otherWays: whatever way leads to a tool, its calls are judged. One that is allowed runs, so that
// the suite knows that this is a way.
func otherWays(x *attack) {
	if len(x.adapter.Ways) == 0 {
		x.skipped = append(x.skipped, "the adapter names no Ways")
		return
	}
	for _, way := range x.adapter.Ways {
		before := len(x.faults)
		x.play(scene{
			Turn:  Turn{Tools: []*ScriptedTool{x.tool("note_add"), x.tool("vault_open")}, Way: way},
			steps: steps(one("vault_open", `{"text":"a"}`, denial), one("note_add", `{"text":"a"}`, runs)),
		})
		for i := before; i < len(x.faults); i++ {
			x.faults[i] = "by way of " + way + ": " + x.faults[i]
		}
	}
}

// lateTools: tools that are added after the adapter's construction are governed, or do not run.
func lateTools(x *attack) {
	x.play(scene{
		Turn: Turn{
			Tools: []*ScriptedTool{x.tool("order_find")},
			Late:  []*ScriptedTool{x.tool("vault_open"), x.tool("note_add")},
		},
		steps: steps(
			one("vault_open", `{"text":"a"}`, denial), one("note_add", `{"text":"a"}`, receipt),
			one("order_find", `{"number":"1"}`, runs),
		),
	})
}
