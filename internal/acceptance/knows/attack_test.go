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
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Attacked is a policy that asks who supplied a payee, a reference and a code: the user, or a tool
// in its facts.
const Attacked = `
helm: policy/v1
layer: P1
bundle: {name: pay, version: 1}
tools:
  list:
    effect: read
    trusted: true
    input: {type: object, properties: {q: {type: string}}}
    output: {type: array, items: {type: object, properties: {
      to: {type: string}, note: {type: string}, code: {type: [string, number]}, memo: {type: string}}}}
    limits: {output: 4MiB, timeout: 1s}
    facts: {payee: /*/to, note: {at: /*/note, text: true}, code: /*/code}
  book:
    effect: read
    trusted: true
    input: {type: object, properties: {}}
    output: {type: array, items: {type: string}}
    facts: {name: /*}
  web:
    effect: read
    input: {type: object, properties: {}}
    output: {type: object, properties: {to: {type: string}}}
    facts: {to: /to}
  pay:
    effect: write
    input: {type: object, required: [to], properties: {
      to: {type: string}, ref: {type: string}, code: {type: [string, number]}}}
  tip:
    effect: write
    input: {type: object, properties: {to: {type: string, default: ACC-0001}}}
rules:
  - {id: stranger, deny: [pay, tip], unless: {arg: /to, from: [user, "list#payee", "list#note", "book#name"]}}
  - {id: ref, deny: pay, unless: {arg: /ref, from: [user], absent: true}}
  - {id: code, deny: pay, unless: {arg: /code, from: [user, "list#code"], absent: true}}
  - {id: all, allow: [list, book, web, pay, tip]}
`

// An answer is a verdict as the caller gets it, and as it is recorded. from are the sources that
// were asked, in the order of the record, with how many messages or documents each had, and the
// arguments that it has.
type answer struct {
	reason contracts.ReasonCode
	rule   string
	why    string
	from   string
}

func passes(from string) answer { return answer{contracts.ReasonAllow, "P1:pay:all", "", from} }

func denies(rule, why, from string) answer {
	return answer{contracts.ReasonPolicyViolation, "P1:pay:" + rule, "P1:pay:" + rule + ": " + why, from}
}

func fails(why, from string) answer { return answer{contracts.ReasonFailClosedError, "", why, from} }

const strange = "/to: not from user, list#payee, list#note, book#name"

// told returns the answer for a payee that nobody told: the user sent so many messages, and list
// and book so many documents.
func told(user, list, book int) answer {
	return denies("stranger", strange, asked(user, list, book))
}

func asked(user, list, book int) string {
	return fmt.Sprintf("book#name %d, list#note %d, list#payee %d, user %d", book, list, list, user)
}

// An attacked is the world of the attack table.
type attacked struct{ bank }

func newAttacked(t *testing.T, files bool) (w *attacked, reopen func()) {
	t.Helper()
	reopenStore := func() {}
	w = &attacked{newBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, Attacked)
		o.Drivers["book"], o.Drivers["web"] = o.Drivers["list"], o.Drivers["list"]
		delete(o.Drivers, "order")
		delete(o.Drivers, "cancel")
		if files {
			reopenStore = kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
		}
	})}
	return w, func() { w.Close(); reopenStore(); w.Open() }
}

// must makes a call and compares all of the answer: to the caller, in the record, and in the inputs
// that it was judged by. A denial leaves a receipt and runs nothing. Nobody is told a value.
func (w *attacked) must(is answer, session, tool, args string, after []helm.Receipt) {
	w.T.Helper()
	w.Runs.Store(0)
	d, r := w.Call(tool, args, kerneltest.InSession(session), func(in *helm.Intent) {
		for _, r := range after {
			in.After = append(in.After, r.Ref())
		}
	})
	b, err := w.Store.Store.Blob(context.Background(), d.Record.InputsHash)
	require.NoError(w.T, err)
	in, err := contracts.ParseInputs(b)
	require.NoError(w.T, err)
	var from []string
	for _, s := range in.State.From {
		text, found := fmt.Sprint(s.Source, " ", s.Count), 0
		for it := in.Args.Iter(); it.Next(); {
			if slices.Contains(s.Found, crypto.Sum(it.Value().Append(nil))) {
				text, found = text+" has "+string(it.Key()), found+1
			}
		}
		assert.Len(w.T, s.Found, found, "what is no argument was found")
		from = append(from, text)
	}
	got := answer{d.Reason, d.Record.Rule, d.Why, strings.Join(from, ", ")}
	assert.Equal(w.T, is, got)
	assert.Equal(w.T, d.Reason, d.Record.Reason)
	wants := uint64(5)
	switch {
	case is.reason == contracts.ReasonAllow:
		wants = 8
		assert.Equal(w.T, contracts.Executed, r.Record.Outcome)
		assert.EqualValues(w.T, 1, w.Runs.Load())
	default:
		assert.Equal(w.T, contracts.Denied, r.Record.Outcome)
		require.NotNil(w.T, r.Record.Decision, "the receipt of a denial has all of it")
		assert.True(w.T, r.Record.Decision.Equal(&d.Record))
		assert.Zero(w.T, w.Runs.Load(), "ran")
	}
	assert.EqualValues(w.T, wants, d.Record.Condition)
	spoken := fmt.Sprintf("%s %v %+v", d.Why, d.Err(), w.Events)
	for it := in.Args.Iter(); it.Next(); {
		if s := it.Value().Text(); len(s) > 3 {
			assert.NotContains(w.T, spoken, s, "a value is told")
		}
	}
}

const acc = "ACC-0001"

// TestAttackTable: who supplied a value decides, in whatever form and place a stranger wrote it.
// Every row has its verdict, reason, rule, Why and record, at once and after a restart, in memory
// and in files, and every verdict is judged again from the log.
func TestAttackTable(t *testing.T) {
	t.Parallel()
	for _, row := range slices.Concat(saidAttacks(), typeAttacks(), placeAttacks(), limitAttacks()) {
		for _, files := range []bool{false, true} {
			if files && row.slow {
				continue
			}
			t.Run(fmt.Sprint(row.name, " files ", files), func(t *testing.T) {
				t.Parallel()
				w, reopen := newAttacked(t, files)
				var after []helm.Receipt
				if row.before != nil {
					after = row.before(w)
				}
				w.Tool = kerneltest.Returns(`{}`, nil)
				session, tool := row.session, "pay"
				if row.tool != "" {
					tool = row.tool
				}
				if session == "" {
					session = "s"
				}
				w.must(row.is, session, tool, row.args, after)
				reopen()
				later := row.is
				if row.restarted != nil {
					later = *row.restarted
				}
				w.must(later, session, tool, row.args, after)
				w.mustReplay()
			})
		}
	}
}

type attack struct {
	name       string
	before     func(w *attacked) []helm.Receipt
	session    string // s
	tool, args string // pay
	is         answer
	restarted  *answer // nil: the same
	slow       bool    // in memory alone
}

// saidAttacks are those in which the user said something, and a call asks for something else.
func saidAttacks() (list []attack) {
	for _, x := range []struct {
		name, said, to string
		found          bool
	}{
		{"as it was said", "pay ACC-0001", acc, true},
		{"before a full stop", "pay ACC-0001.", acc, true},
		{"before a comma", "pay ACC-0001, then rest", acc, true},
		{"between commas", "ACC-0000,ACC-0001,ACC-0002", acc, true},
		{"before a colon", "ACC-0001: 900", acc, true},
		{"after a colon", "to:ACC-0001", acc, true},
		{"in brackets", "(ACC-0001) [ACC-0002]", acc, true},
		{"before a question mark", "did you pay ACC-0001?", acc, true},
		{"in a script without blanks", "请支付给ACC-0001。谢谢", acc, true},

		{"a substring at its end", "pay ACC-00012", acc, false},
		{"a substring at its beginning", "pay MYACC-0001", acc, false},
		{"a substring that a hyphen ends", "pay ACC-0001-9", acc, false},
		{"a host of an address", "write to bob@evil-corp.com", "corp.com", false},
		{"an address of a longer host", "write to bob@corp.com.evil.io", "bob@corp.com", false},
		{"a URL without its query", "see https://a.com/x?id=7", "https://a.com/x", false},
		{"a URL with a query", "see https://a.com/x", "https://a.com/x?q=secret", false},
		{"two words as one", "ACC and 0001", acc, false},
		{"put together of two", "bob works at corp.com", "bob@corp.com", false},

		{"another case", "pay acc-0001", acc, false},
		{"a composed letter", "pay cafe\u0301", "caf\u00e9", false},
		{"a decomposed letter", "pay caf\u00e9", "cafe\u0301", false},
		{"a wide form", "pay ＡＣＣ-0001", acc, false},
		{"a letter of another script", "pay АCC-0001", acc, false},
		{"a zero-width character said", "pay ACC\u200b-0001", acc, false},
		{"a zero-width character asked", "pay ACC-0001", "ACC\u200b-0001", false},
		{"a zero-width character beside it", "pay \u200bACC-0001", acc, false},
		{"percent-encoded", "write to bob@corp.com", "bob%40corp.com", false},
		{"decoded", "write to bob%40corp.com", "bob@corp.com", false},
		{"an escape of JSON", `pay \u0041CC-0001`, acc, false},
		{"a part of a date", "on June 13", "13", false},
		{"nothing", "pay ACC-0001", "", false},
	} {
		is := told(1, 0, 0)
		if x.found {
			is = passes("user 1 has to")
		}
		list = append(list, attack{name: x.name, is: is, args: argsOf("to", x.to),
			before: func(w *attacked) []helm.Receipt {
				w.say("s", x.said)
				return nil
			}})
	}
	// Each piece of what was said, in an argument of its own.
	say := func(w *attacked) []helm.Receipt { w.say("s", "pay ACC-0001, for INV-77"); return nil }
	return append(list,
		attack{name: "split over two arguments", before: say, args: argsOf("to", "ACC-", "ref", "0001"),
			is: told(1, 0, 0)},
		attack{name: "the second of two arguments", before: say, args: argsOf("to", acc, "ref", "INV-7"),
			is: denies("ref", "/ref: not from user", "user 1 has to")},
		attack{name: "both of two arguments", before: say, args: argsOf("to", acc, "ref", "INV-77"),
			is: passes("user 1 has ref has to")},
		attack{name: "split over two messages", args: argsOf("to", acc), is: told(2, 0, 0),
			before: func(w *attacked) []helm.Receipt {
				w.say("s", "pay ACC-")
				w.say("s", "0001")
				return nil
			}},
	)
}

// typeAttacks are those in which a value is of another type than it was told.
func typeAttacks() (list []attack) {
	for _, x := range []struct {
		name, said, code, arg string
		found                 string
	}{
		{"a number as it was told", "", `1250`, `1250`, "list#code 1 has code"},
		{"a number in another form", "", `1250.0`, `1.25e3`, "list#code 1 has code"},
		{"a number as a text", "", `1250`, `"1250"`, ""},
		{"a text as a number", "", `"1250"`, `1250`, ""},
		{"a text as it was told", "", `"1250"`, `"1250"`, "list#code 1 has code"},
		{"a text in another case", "", `"AB12"`, `"ab12"`, ""},
		{"a text with a blank", "", `"AB12"`, `"AB12 "`, ""},
		{"a number that the user said", "sum 1250", `0`, `1250`, "user 2 has code"},
		{"a text that the user said as a number", "sum 1250", `0`, `"1250"`, "user 2 has code"},
		{"a number of a longer one", "sum 1250,50", `0`, `1250`, ""},
		{"a number below the floor", "on June 13", `0`, `13`, ""},
		{"a number at no floor", "", `13`, `13`, "list#code 1 has code"},
	} {
		user, is := 1, answer{}
		if x.said != "" {
			user = 2
		}
		switch strings.Fields(x.found + " -")[0] {
		case "list#code":
			is = passes(fmt.Sprintf("%s, user %d has to", x.found, user))
		case "user":
			is = passes("user 2 has code has to")
		default:
			is = denies("code", "/code: not from user, list#code", fmt.Sprintf("list#code 1, user %d has to", user))
		}
		list = append(list, attack{name: x.name, is: is, args: `{"to":"ACC-0001","code":` + x.arg + `}`,
			before: func(w *attacked) []helm.Receipt {
				w.say("s", "pay ACC-0001")
				if x.said != "" {
					w.say("s", x.said)
				}
				w.list("s", `[{"code":`+x.code+`}]`)
				return nil
			}})
	}
	return list
}

// placeAttacks are those in which the value stands somewhere that is no source.
func placeAttacks() []attack {
	const some = `[{"to":"ACC-0001"}]`
	late := func(ctx context.Context, _ contracts.Call) (executor.Result, error) {
		<-ctx.Done()
		return executor.Result{Output: []byte(some)}, ctx.Err()
	}
	failed := func(context.Context, contracts.Call) (executor.Result, error) {
		return executor.Result{Output: []byte(some), Failed: true}, nil
	}
	runs := func(outcome contracts.Outcome, does kerneltest.Tool) func(w *attacked) []helm.Receipt {
		return func(w *attacked) []helm.Receipt {
			return []helm.Receipt{w.run(outcome, "s", "list", `{}`, does)}
		}
	}
	to := argsOf("to", acc)
	return []attack{
		{name: "told by nobody", args: to, is: told(0, 0, 0)},
		{name: "a plain fact", args: to, before: runs(contracts.Executed, kerneltest.Returns(some, nil)),
			is: passes("list#payee 1 has to, user 0")},
		{name: "a text fact", args: to, is: passes("list#note 1 has to, list#payee 1, user 0"),
			before: runs(contracts.Executed, kerneltest.Returns(`[{"note":"was ACC-0001."}]`, nil))},
		{name: "a plain fact is no text", args: to,
			before: runs(contracts.Executed, kerneltest.Returns(`[{"to":"pay ACC-0001"}]`, nil)), is: told(0, 1, 0)},
		{name: "in a tool's error", args: to, is: told(0, 0, 0),
			before: runs(contracts.Failed, kerneltest.NoOutput(errors.New("pay "+acc)))},
		{name: "in a failed output", args: to, before: runs(contracts.Failed, failed), is: told(0, 0, 0)},
		{name: "in a withheld output", args: to, is: told(0, 0, 0),
			before: runs(contracts.Withheld, kerneltest.Returns(`[{"to":"ACC-0001"},1]`, nil))},
		{name: "of an outcome that is not known", args: to, is: told(0, 0, 0), slow: true,
			before: runs(contracts.Indeterminate, late)},
		{name: "in an output that is no fact", args: to, is: told(0, 1, 0),
			before: runs(contracts.Executed, kerneltest.Returns(`[{"memo":"ACC-0001"}]`, nil))},
		{name: "in a fact that does not vouch", args: to, is: told(0, 0, 0),
			before: func(w *attacked) []helm.Receipt {
				w.run(contracts.Executed, "s", "web", `{}`, kerneltest.Returns(`{"to":"ACC-0001"}`, nil))
				return nil
			}},
		{name: "in the arguments of another call", args: to, is: told(0, 1, 0),
			before: func(w *attacked) []helm.Receipt {
				w.run(contracts.Executed, "s", "list", argsOf("q", acc), kerneltest.Returns(`[]`, nil))
				return nil
			}},
		{name: "in another session", args: to, is: told(0, 0, 0),
			before: func(w *attacked) []helm.Receipt {
				w.say("t", "pay ACC-0001")
				w.list("t", some)
				return nil
			}},
		{name: "in the session of a parent", args: to, is: told(0, 0, 0),
			before: func(w *attacked) []helm.Receipt {
				w.say("p", "pay ACC-0001")
				return []helm.Receipt{w.list("p", some)}
			}},
		{name: "in the session of a call from inside", args: to, is: told(0, 0, 1),
			before: func(w *attacked) []helm.Receipt {
				return []helm.Receipt{w.run(contracts.Executed, "s", "book", `{}`,
					func(ctx context.Context, c contracts.Call) (executor.Result, error) {
						if c.Tool == "list" {
							return executor.Result{Output: []byte(some)}, nil
						}
						d, _ := w.Kernel.Guard(ctx, helm.Intent{Tool: "list", Args: []byte(`{}`), Session: "inner"})
						assert.NoError(w.T, d.Err())
						return executor.Result{Output: []byte(`[]`)}, nil
					})}
			}},
		{name: "in main", session: "main", args: to,
			before: func(w *attacked) []helm.Receipt { return []helm.Receipt{w.list("main", some)} },
			is: fails("P1:pay:stranger: /to: the session is the one of all calls that name none: name a session",
				"")},
		{name: "filled in by a default", tool: "tip", args: `{}`, is: told(0, 0, 0)},
		{name: "filled in by a default, and told", tool: "tip", args: `{}`, is: passes("user 1 has to"),
			before: func(w *attacked) []helm.Receipt { w.say("s", "tip ACC-0001"); return nil }},
	}
}

// limitAttacks are those in which a source is full, or gone.
func limitAttacks() []attack {
	to := argsOf("to", acc)
	lists := func(w *attacked, n int, one string) {
		for range n {
			w.list("s", one)
		}
	}
	full := func(what string) string {
		parts := []string{strange}
		for _, source := range strings.Fields(what) {
			parts = append(parts, source+" is full: later values are no source")
		}
		return strings.Join(parts, "; ")
	}
	thousand := "[" + strings.TrimSuffix(strings.Repeat(`{"to":"x"},`, 1000), ",") + "]"
	text := `[{"note":"` + strings.Repeat("x", contracts.MaxFactText) + `"}]`
	// erase erases what the nth entry of s names.
	erase := func(w *attacked, n uint64) {
		for index, st := range w.Statements() {
			if st.Session == "s" && st.Seq == n {
				which := erasure.Selection{Entries: []uint64{index}}
				gone, err := erasure.Erase(context.Background(), w.Store.Store, which)
				require.NoError(w.T, err)
				require.NotEmpty(w.T, gone.Erased)
				w.erased += len(gone.Calls)
			}
		}
	}
	unread := func(what string) *answer {
		a := fails("P1:pay:stranger: /to: "+what+" cannot be read", "")
		return &a
	}
	unreadFacts := unread("the facts of list")
	unreadFacts.from = "user 0"
	return []attack{
		{name: "a document over its limits", args: to, is: told(0, 1, 0),
			before: func(w *attacked) []helm.Receipt {
				w.list("s", strings.Replace(thousand, "[", `[{"to":"ACC-0001"},`, 1))
				return nil
			}},
		{name: "the 10,000th value", args: to, is: passes("list#payee 10 has to, user 0"),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 9, thousand)
				w.list("s", strings.Replace(thousand, `"x"`, `"ACC-0001"`, 1))
				return nil
			}},
		{name: "the 10,001st value", args: to,
			is: denies("stranger", full("list#payee list#note"), asked(0, 11, 0)),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 10, thousand)
				w.list("s", `[{"to":"ACC-0001"}]`)
				return nil
			}},
		{name: "262,144 bytes of text", args: to, is: passes("list#note 5 has to, list#payee 5, user 0"),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 3, text)
				w.list("s", strings.Replace(text, "xxxxxxxx", "", 1))
				w.list("s", `[{"note":"ACC-0001"}]`)
				return nil
			}},
		{name: "262,145 bytes of text", args: to,
			is: denies("stranger", full("list#payee list#note"), asked(0, 5, 0)),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 3, text)
				w.list("s", strings.Replace(text, "xxxxxxx", "", 1))
				w.list("s", `[{"note":"ACC-0001"}]`)
				return nil
			}},
		{name: "262,145 bytes of the user", args: to, is: told(1, 0, 0),
			before: func(w *attacked) []helm.Receipt {
				w.say("s", strings.Repeat("x", contracts.MaxMessage-7))
				require.Error(w.T, w.Kernel.UserMessage(context.Background(), "s", acc))
				return nil
			}},
		{name: "a tool that floods, and the user", args: to, is: passes("user 1 has to"),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 11, thousand)
				w.say("s", "pay ACC-0001")
				return nil
			}},
		{name: "a tool that floods, and another tool", args: to,
			is: passes("book#name 1 has to, list#note 11, list#payee 11, user 0"),
			before: func(w *attacked) []helm.Receipt {
				lists(w, 11, thousand)
				w.run(contracts.Executed, "s", "book", `{}`, kerneltest.Returns(`["ACC-0001"]`, nil))
				return nil
			}},
		{name: "a text that was erased", args: to, is: passes("user 1 has to"),
			restarted: unread("the texts of the user"),
			before:    func(w *attacked) []helm.Receipt { w.say("s", "pay ACC-0001"); erase(w, 0); return nil }},
		{name: "another text that was erased", args: to, is: passes("user 2 has to"),
			restarted: unread("the texts of the user"),
			before: func(w *attacked) []helm.Receipt {
				w.say("s", "hello")
				w.say("s", "pay ACC-0001")
				erase(w, 0)
				return nil
			}},
		{name: "facts that were erased", args: to, is: passes("list#payee 1 has to, user 0"), restarted: unreadFacts,
			before: func(w *attacked) []helm.Receipt { w.list("s", `[{"to":"ACC-0001"}]`); erase(w, 1); return nil }},
		{name: "facts that were erased, and the user", args: to, is: passes("user 1 has to"),
			before: func(w *attacked) []helm.Receipt {
				w.list("s", `[{"to":"ACC-0001"}]`)
				erase(w, 1)
				w.say("s", "pay ACC-0001")
				return nil
			}},
	}
}

// argsOf returns an object of texts.
func argsOf(members ...string) string {
	m := map[string]string{}
	for i := 0; i < len(members); i += 2 {
		m[members[i]] = members[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}
