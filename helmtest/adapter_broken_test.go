package helmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// A fault is a toy that is broken in one way: its name says what it does wrong, and the suite says
// so in the words that it must find.
type toyFault struct {
	name  string
	says  string
	plant func(f *toyLoop)
}

type toyFaults struct {
	attack string
	toys   []toyFault
}

// inPlace has calls of some tools made by something else than the adapter.
func inPlace(f *toyLoop, of func(t Turn, c Call) bool, call func(context.Context, Turn, Call) (Shown, error)) {
	f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
		if !of(t, c) {
			return f.honestCall(ctx, t, c)
		}
		s, err := call(ctx, t, c)
		s.Call = c.ID
		if err != nil {
			s.Text, s.Failed = err.Error(), true
		}
		return s, nil
	}
}

// unguarded runs a tool without a question.
func (f *toyLoop) unguarded(ctx context.Context, t Turn, c Call) (s Shown, err error) {
	_, x := f.find(t, c.Tool)
	s.Text, err = f.run(ctx, x, c.Args)
	return s, err
}

func named(list ...string) func(Turn, Call) bool {
	return func(_ Turn, c Call) bool { return slices.Contains(list, c.Tool) }
}

// through changes arguments by way of a Go value, as decoders of frameworks do.
func through[T any](args []byte) []byte {
	var v T
	if json.Unmarshal(args, &v) != nil {
		return args
	}
	b, err := json.Marshal(v)
	if err != nil {
		return args
	}
	return b
}

type note struct {
	Text   string   `json:"text"`
	N      *float64 `json:"n,omitempty"`
	Urgent bool     `json:"urgent,omitempty"`
}

// afterJudging changes what the tool gets of what was judged.
func afterJudging(change func(t Turn, sent, judged []byte) []byte) func(f *toyLoop) {
	return func(f *toyLoop) {
		f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
			name, x := f.find(t, c.Tool)
			d, r := t.Kernel.Guard(ctx, helm.Intent{Tool: name, Args: c.Args, Driver: helm.Func(
				func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
					text, err := f.run(ctx, x, change(t, c.Args, args))
					return json.RawMessage(text), err
				})})
			text, failed := d.ForModel(r)
			return Shown{Call: c.ID, Text: text, Failed: failed}, d.Pending
		}
	}
}

func shows(change func(text string) string) func(f *toyLoop) {
	return func(f *toyLoop) {
		f.show = func(d helm.Decision, r helm.Receipt) (string, bool) {
			text, failed := d.ForModel(r)
			if !failed {
				text = change(text)
			}
			return text, failed
		}
	}
}

func readsAs(read func([]byte) []byte) func(f *toyLoop) {
	return func(f *toyLoop) { f.read = read }
}

func finishes(finish func(a *Answer)) func(f *toyLoop) {
	return func(f *toyLoop) { f.finish = finish }
}

// runsAs has another function run tools.
func runsAs(run func(ctx context.Context, x *ScriptedTool, args []byte) (string, error)) func(f *toyLoop) {
	return func(f *toyLoop) { f.run = run }
}

const (
	noAllow   = "ran without a durable ALLOW of its own"
	noReceipt = "has no receipt"
)

var brokenToys = []toyFaults{
	{"01-kinds", []toyFault{
		{"runs what was denied", noAllow, func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				s, q := f.honestCall(ctx, t, c)
				if s.Failed {
					_, _ = f.unguarded(ctx, t, c)
				}
				return s, q
			}
		}},
		{"leaves tools that stream to the framework", "streamed: note_add ran without", func(f *toyLoop) {
			inPlace(f, func(t Turn, _ Call) bool { return t.Tools[0].Kind == "streamed" }, f.unguarded)
		}},
		{"refuses without a receipt", noReceipt, func(f *toyLoop) {
			inPlace(f, named("vault_open"), func(context.Context, Turn, Call) (Shown, error) {
				return Shown{}, errors.New("not today")
			})
		}},
		{"asks twice", "for no call that was proposed", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				f.honestCall(ctx, t, c)
				return f.honestCall(ctx, t, c)
			}
		}},
		{"words a denial itself", "not the words of Decision.ForModel", func(f *toyLoop) {
			f.show = func(d helm.Decision, r helm.Receipt) (string, bool) {
				text, failed := d.ForModel(r)
				return strings.Replace(text, "was denied", "is not allowed", 1), failed
			}
		}},
		{"says nothing of a denial", "has no result that the model was shown", func(f *toyLoop) {
			f.finish = func(a *Answer) { a.Shown = slices.DeleteFunc(a.Shown, func(s Shown) bool { return s.Failed }) }
		}},
		{"shows a result twice", "has 2 results that the model was shown", finishes(func(a *Answer) {
			a.Shown = append(a.Shown, a.Shown[0])
		})},
		{"shows a result of no call", "and it proposed no such call", finishes(func(a *Answer) {
			a.Shown = append(a.Shown, Shown{Call: "another"})
		})},
		{"calls a result a failure", "ran, and the model was told that it failed", finishes(func(a *Answer) {
			for i := range a.Shown {
				a.Shown[i].Failed = true
			}
		})},
		{"marks one denial of two", "and of another that it did not", finishes(func(a *Answer) {
			for i := range a.Shown {
				if a.Shown[i].Failed {
					a.Shown[i].Failed = false
					return
				}
			}
		})},
		{"makes calls for nobody", "was judged for another caller than the host's", func(f *toyLoop) {
			f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
				return k.Guard(context.WithoutCancel(context.Background()), in)
			}
		}},
		{"makes a session for each turn", "was judged in another session than the host's", func(f *toyLoop) {
			f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
				in.Session = "mine"
				return k.Guard(ctx, in)
			}
		}},
		{"allows without running", "was allowed, and no tool ran", runsAs(
			func(context.Context, *ScriptedTool, []byte) (string, error) { return "{}", nil })},
		{"runs tools without a kernel", "plain: note_add ran without a durable ALLOW of its own", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				if t.Kernel.Err() == nil {
					return f.honestCall(ctx, t, c)
				}
				s, _ := f.unguarded(ctx, t, c)
				s.Call = c.ID
				return s, nil
			}
		}},
		{"hangs", "the turn did not return", func(f *toyLoop) {
			f.patience = 2 * time.Second
			f.finish = func(*Answer) { time.Sleep(3 * time.Second) }
		}},
		{"says too late what it cannot do", "ran tools and then said that it is not supported", finishes(
			func(a *Answer) { a.Err = errors.ErrUnsupported })},
		{"panics", "the turn panicked", func(f *toyLoop) {
			f.finish = func(*Answer) { panic("a bug") }
		}},
	}},
	{"02-changed", []toyFault{
		{"runs what a hook made of the judged arguments", noAllow + ", though with other arguments", afterJudging(
			func(t Turn, _, judged []byte) []byte { return t.Hook(judged) })},
		{"has no hook", "the hook was not called", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				t.Hook = nil
				return f.honestCall(ctx, t, c)
			}
		}},
	}},
	{"03-defaults", []toyFault{
		{"fills in defaults after judging", noAllow + ", though with other arguments", afterJudging(
			func(t Turn, _, judged []byte) []byte {
				if t.Hook != nil {
					return t.Hook(judged)
				}
				return judged
			})},
		{"runs what the model wrote", noAllow + ", though with other arguments", func(f *toyLoop) {
			plant := afterJudging(func(_ Turn, sent, _ []byte) []byte { return sent })
			plant(f)
		}},
	}},
	{"04-keys", []toyFault{
		{"decodes arguments to a map", `"{\"text\":\"a\",\"n\":51,\"n\":5}": ALLOW`, readsAs(through[map[string]any])},
		{"decodes arguments to a struct", `"{\"TEXT\":\"a\"}": ALLOW`, readsAs(through[note])},
		{"drops keys that it does not know", `"{\"text\":\"a\",\"extra\":true}": ALLOW`, readsAs(through[note])},
		{"takes the caller from the arguments", "was judged for another caller than the host's", func(f *toyLoop) {
			f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
				var says struct{ Caller struct{ ID string } }
				if json.Unmarshal(in.Args, &says) == nil && says.Caller.ID != "" {
					in.Caller.ID = says.Caller.ID
				}
				return k.Guard(ctx, in)
			}
		}},
	}},
	{"05-numbers", []toyFault{
		{"decodes numbers to float64", "-9007199254740993}\": ALLOW", readsAs(through[map[string]any])},
		{"mends strings", `"{\"text\":\"\\ud800\"}": ALLOW`, readsAs(through[map[string]any])},
		{"refuses what is no JSON by itself", noReceipt, func(f *toyLoop) {
			inPlace(f, func(_ Turn, c Call) bool { return !json.Valid(c.Args) },
				func(context.Context, Turn, Call) (Shown, error) { return Shown{}, errors.New("no JSON") })
		}},
		{"mends what is no JSON", `: ALLOW, want a denial`, readsAs(func(args []byte) []byte {
			if !json.Valid(args) {
				return append(bytes.Clone(args), '}')
			}
			return args
		})},
	}},
	{"06-unknown", []toyFault{
		{"answers for a tool that does not exist", noReceipt, func(f *toyLoop) {
			inPlace(f, named("ghost"), func(context.Context, Turn, Call) (Shown, error) {
				return Shown{}, errors.New("ghost: tool not found")
			})
		}},
		{"runs a tool that no policy declares", noAllow, func(f *toyLoop) {
			inPlace(f, named("undeclared"), f.unguarded)
		}},
		{"ends the loop at a tool that does not exist", "the loop ended with an error", func(f *toyLoop) {
			f.finish = func(a *Answer) {
				for _, s := range a.Shown {
					if strings.HasPrefix(s.Text, "ghost") {
						a.Err = errors.New("ghost: tool not found")
					}
				}
			}
		}},
		{"never comes to an answer", "the loop did not go on", finishes(func(a *Answer) { a.Text = "" })},
	}},
	{"07-alias", []toyFault{
		{"judges a tool by what the model calls it", noAllow, func(f *toyLoop) {
			f.find = func(t Turn, name string) (string, *ScriptedTool) {
				_, x := findTool(t, name)
				return name, x
			}
		}},
		{"knows no alias", "jot has a receipt (DENY_TOOL_NOT_FOUND)", func(f *toyLoop) {
			f.find = func(t Turn, name string) (string, *ScriptedTool) {
				t.Alias = nil
				return findTool(t, name)
			}
		}},
		{"runs an alias without a question", noAllow, func(f *toyLoop) {
			inPlace(f, func(t Turn, c Call) bool { return t.Alias[c.Tool] != "" }, f.unguarded)
		}},
	}},
	{"08-streams", []toyFault{
		{"takes what came before an error for the output", "ALLOW, want TOOL_ERROR", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				all := ""
				for chunk, err := range x.Stream(ctx, args) {
					if err != nil {
						return all, nil
					}
					all += chunk
				}
				return all, ctx.Err()
			})},
		{"takes an end for the end", "ALLOW, want TOOL_TIMEOUT", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				text, err := runTool(ctx, x, args)
				if ctx.Err() != nil {
					return text, nil
				}
				return text, err
			})},
		{"shows what came before an error", "the model was shown half of an answer", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				all := ""
				for chunk, err := range x.Stream(ctx, args) {
					if err != nil {
						return "", fmt.Errorf("%w, after %s", err, all)
					}
					all += chunk
				}
				return all, ctx.Err()
			})},
		{"words an error itself", "not the tool's own error", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				text, err := runTool(ctx, x, args)
				if err != nil && ctx.Err() == nil {
					err = errors.New("it failed")
				}
				return text, err
			})},
	}},
	{"09-parallel", []toyFault{
		{"loses a result", "has no result that the model was shown", finishes(func(a *Answer) {
			a.Shown = slices.DeleteFunc(a.Shown, func(s Shown) bool { return s.Call == a.Shown[0].Call })
		})},
		{"mixes up two results", "not the bytes that were released", finishes(func(a *Answer) {
			slices.SortFunc(a.Shown, func(x, y Shown) int { return strings.Compare(x.Text, y.Text) })
			last := len(a.Shown) - 1 // notes that were denied come first
			a.Shown[0].Text, a.Shown[last].Text = a.Shown[last].Text, a.Shown[0].Text
		})},
		{"has one place for the arguments of all", "though with other arguments", func(f *toyLoop) {
			var mu sync.Mutex
			var first []byte
			afterJudging(func(_ Turn, _, judged []byte) []byte {
				mu.Lock()
				defer mu.Unlock()
				if first == nil {
					first = judged
				}
				return first
			})(f)
		}},
	}},
	{"10-siblings", []toyFault{
		{"drops all results when one is denied", "has no result that the model was shown", finishes(func(a *Answer) {
			if slices.ContainsFunc(a.Shown, func(s Shown) bool { return s.Failed }) {
				a.Shown = nil
			}
		})},
		{"ends the loop at a denial", "the loop ended with an error", finishes(func(a *Answer) {
			if slices.ContainsFunc(a.Shown, func(s Shown) bool { return s.Failed }) {
				a.Err = helm.ErrDenied
			}
		})},
	}},
	{"11-approval", []toyFault{
		{"takes approved: true for an approval", noAllow, func(f *toyLoop) {
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				if bytes.Contains(r.Payload, []byte(`"approved":true`)) {
					s, _ := f.unguarded(ctx, ask.turn, ask.calls[0])
					return Answer{Shown: []Shown{s}, Text: ask.turn.Text}
				}
				return f.honestAnswer(ctx, ask, r)
			}
		}},
		{"runs a call that comes with an approval", noAllow, func(f *toyLoop) {
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				if bytes.Contains(r.Payload, []byte(`"approvals":[{`)) {
					s, _ := f.unguarded(ctx, ask.turn, ask.calls[0])
					return Answer{Shown: []Shown{s}, Text: ask.turn.Text}
				}
				return f.honestAnswer(ctx, ask, r)
			}
		}},
		{"resumes for the first caller", "was judged for another caller than the host's", func(f *toyLoop) {
			f.answer = func(_ context.Context, ask *question, r Reply) Answer { return f.honestAnswer(ask.ctx, ask, r) }
		}},
		{"runs an input that was never judged", "though with other arguments", func(f *toyLoop) {
			var other []byte
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				other, r.Args = r.Args, nil
				return f.honestAnswer(ctx, ask, r)
			}
			afterJudging(func(_ Turn, _, judged []byte) []byte {
				if other != nil {
					return other
				}
				return judged
			})(f)
		}},
		{"runs again what ran before the interrupt", "tools ran when one call was approved", func(f *toyLoop) {
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				a := f.honestAnswer(ctx, ask, r)
				if len(ask.turn.Model[0]) > 1 {
					f.step(ctx, ask.turn, ask.turn.Model[0][:1], &a)
				}
				return a
			}
		}},
		{"ends the turn for good", "a call that was approved ran 0 times", func(f *toyLoop) {
			f.answer = func(_ context.Context, ask *question, _ Reply) Answer { return Answer{Text: ask.turn.Text} }
		}},
		{"hands no request to the host", "the adapter hands 0 requests to the host", func(f *toyLoop) {
			f.finish = func(a *Answer) { a.Pending = nil }
		}},
		{"asks for the approval of another call", "the request is about another call", func(f *toyLoop) {
			f.finish = func(a *Answer) {
				for i := range a.Pending {
					a.Pending[i].ArgsHash = contracts.Digest{1}
				}
			}
		}},
		{"takes a word in the arguments for an approval", noAllow, func(f *toyLoop) {
			f.resumes = false
			inPlace(f, func(_ Turn, c Call) bool {
				return bytes.Contains(c.Args, []byte(`"approved":true`))
			}, f.unguarded)
		}},
		{"keeps what was approved", noAllow, func(f *toyLoop) {
			f.resumes = false
			ran := map[string]bool{}
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				if ran[string(c.Args)] {
					s, _ := f.unguarded(ctx, t, c)
					s.Call = c.ID
					return s, nil
				}
				s, q := f.honestCall(ctx, t, c)
				ran[string(c.Args)] = !s.Failed
				return s, q
			}
		}},
		{"knows no approvals", "APPROVAL_REQUIRED, want ALLOW", func(f *toyLoop) {
			f.resumes = false
			f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
				in.Approvals = []helm.Envelope{helm.Envelope("none")}
				return k.Guard(ctx, in)
			}
		}},
	}},
	{"12-context", []toyFault{
		{"runs tools under its own context", "the tool's context does not end at its time limit", func(f *toyLoop) {
			f.patience = 4 * time.Second
			f.run = func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
				defer cancel()
				return runTool(limit, x, args)
			}
		}},
		{"hides the time limit", "the tool's context has no deadline", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
				defer context.AfterFunc(ctx, cancel)()
				return runTool(inner, x, args)
			})},
		{"takes the end of a context for an answer", "ALLOW, want TOOL_TIMEOUT", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				text, err := runTool(ctx, x, args)
				if ctx.Err() != nil {
					return "ended", nil
				}
				return text, err
			})},
		{"leaves the host's context", "the tool's context does not end with the host's", func(f *toyLoop) {
			f.patience = 4 * time.Second
			f.guard = func(ctx context.Context, k *helm.Kernel, in helm.Intent) (helm.Decision, helm.Receipt) {
				return k.Guard(context.WithoutCancel(ctx), in)
			}
		}},
	}},
	{"13-panic", []toyFault{
		{"takes a panic for an output", "ALLOW, want TOOL_PANIC", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (text string, err error) {
				defer func() {
					if p := recover(); p != nil {
						text = fmt.Sprint(p)
					}
				}()
				return runTool(ctx, x, args)
			})},
		{"shows the text of a panic", "the model was shown the text of a panic", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (text string, err error) {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				return runTool(ctx, x, args)
			})},
	}},
	{"14-repeat", []toyFault{
		{"runs a call that failed again", noAllow, runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				text, err := runTool(ctx, x, args)
				if err != nil {
					return runTool(ctx, x, args)
				}
				return text, err
			})},
		{"answers a repeat from memory", noReceipt, func(f *toyLoop) {
			had := map[string]Shown{}
			inPlace(f, func(Turn, Call) bool { return true }, func(ctx context.Context, t Turn, c Call) (Shown, error) {
				if s, ok := had[string(c.Args)]; ok {
					return s, nil
				}
				s, _ := f.honestCall(ctx, t, c)
				had[string(c.Args)] = s
				return s, nil
			})
		}},
		{"takes the model's name of a call for its key", "two calls that have one name ran 1 times", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				return f.honestCall(helm.With(ctx, helm.Intent{Tool: c.Tool, Idempotency: c.ID}), t, c)
			}
		}},
		{"repeats without being asked", "two calls that were proposed ran 3 times", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				s, q := f.honestCall(ctx, t, c)
				if s.Failed {
					s, q = f.honestCall(ctx, t, c)
				}
				return s, q
			}
		}},
	}},
	{"15-ways", []toyFault{
		{"names a way that leads nowhere", "by way of registry: note_add", func(f *toyLoop) {
			f.find = func(t Turn, name string) (string, *ScriptedTool) {
				if t.Way != "" {
					return name, nil
				}
				return findTool(t, name)
			}
		}},
		{"leaves the registry to the framework", "by way of registry: ", func(f *toyLoop) {
			inPlace(f, func(t Turn, _ Call) bool { return t.Way == "registry" }, f.unguarded)
		}},
	}},
	{"16-nested", []toyFault{
		{"runs tools under the framework's context", "is not chained to the tool's own call", func(f *toyLoop) {
			f.call = func(outer context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				name, x := f.find(t, c.Tool)
				d, r := t.Kernel.Guard(outer, helm.Intent{Tool: name, Args: c.Args, Driver: helm.Func(
					func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
						text, err := f.run(outer, x, args)
						return json.RawMessage(text), err
					})})
				text, failed := d.ForModel(r)
				return Shown{Call: c.ID, Text: text, Failed: failed}, d.Pending
			}
		}},
		{"runs tools under no context", "was judged for another caller than the host's", runsAs(
			func(_ context.Context, x *ScriptedTool, args []byte) (string, error) {
				return runTool(context.Background(), x, args)
			})},
		{"runs tools under a context that has ended", "a call that a tool made was FAIL_CLOSED_ERROR", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				ctx, cancel := context.WithCancel(ctx)
				cancel()
				return x.Run(ctx, args)
			})},
	}},
	{"17-bytes", []toyFault{
		{"trims what it shows", "not the bytes that were released", shows(strings.TrimSpace)},
		{"escapes what it shows", "not the bytes that were released", shows(func(text string) string {
			return strings.ReplaceAll(text, "<", "\\u003c")
		})},
		{"cuts what it shows", "not the bytes that were released", shows(func(text string) string {
			return text[:min(len(text), 4096)]
		})},
		{"shows what the tool returned", "not the bytes that were released", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				name, x := f.find(t, c.Tool)
				var text string
				d, _ := t.Kernel.Guard(ctx, helm.Intent{Tool: name, Args: c.Args, Driver: helm.Func(
					func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
						var err error
						text, err = f.run(ctx, x, args)
						return json.RawMessage(text), err
					})})
				return Shown{Call: c.ID, Text: text}, d.Pending
			}
		}},
		{"returns another output than the tool's", "the model was not shown what the tool returned", runsAs(
			func(ctx context.Context, x *ScriptedTool, args []byte) (string, error) {
				_, err := runTool(ctx, x, args)
				return "done", err
			})},
	}},
	{"18-late", []toyFault{
		{"wraps the tools of its construction only", noAllow, func(f *toyLoop) {
			inPlace(f, func(t Turn, c Call) bool {
				return slices.ContainsFunc(t.Late, func(x *ScriptedTool) bool { return x.Name == c.Tool })
			}, f.unguarded)
		}},
	}},
	{"story", []toyFault{
		{"forgets the session after an interrupt", "was judged in another session than the host's", func(f *toyLoop) {
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				return f.honestAnswer(helm.With(ctx, helm.Intent{Session: "resumed"}), ask, r)
			}
		}},
		{"takes a refusal for an answer", noAllow, func(f *toyLoop) {
			f.answer = func(ctx context.Context, ask *question, r Reply) Answer {
				a := f.honestAnswer(ctx, ask, r)
				if slices.ContainsFunc(a.Shown, func(s Shown) bool { return s.Failed }) {
					_, _ = f.unguarded(ctx, ask.turn, ask.calls[0])
				}
				return a
			}
		}},
		{"sends a letter that was denied", "these ran: ", func(f *toyLoop) {
			f.call = func(ctx context.Context, t Turn, c Call) (Shown, *contracts.ApprovalRequest) {
				s, q := f.honestCall(ctx, t, c)
				if s.Failed && c.Tool == "mail_send" {
					_, _ = f.unguarded(ctx, t, c)
				}
				return s, q
			}
		}},
	}},
}
