package policytest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/cell"
)

// A Replay judges the calls of a transcript again, in order and in one session. No tool runs: a
// stub returns what the transcript recorded.
type Replay struct {
	// Guard judges a call, as [helm.Kernel.Guard] does. The kernel must have no drivers of its own
	// for the tools: each call has the stub as its driver.
	Guard func(context.Context, helm.Intent) (helm.Decision, helm.Receipt)

	// Words takes a text of a user turn, as [helm.Kernel.UserMessage] does. Nil: no text is the
	// user's, because a role proves nothing.
	Words func(ctx context.Context, session, text string) error

	Policy  *guardian.Policy       // that Guard judges by: its definitions are those of the stubs
	Caller  contracts.Caller       // of all calls
	Session string                 // of all calls
	Sandbox *contracts.SandboxInfo // that the stubs of tools declare which demand one; nil: none
	Values  bool                   // verdicts have the arguments of their calls
}

// Verdicts are what a policy says of the calls of a transcript.
type Verdicts struct {
	Allow  int           `json:"allow"`
	Deny   int           `json:"deny"`   // without those that wait for a person
	Person int           `json:"person"` // denied until a person says yes
	First  int           `json:"first"`  // number of the first call that differs from the recording; 0: none
	Calls  []CallVerdict `json:"calls"`
}

// A CallVerdict is what became of one call.
type CallVerdict struct {
	Number      int                  `json:"number"` // from 1 on
	Turn        int                  `json:"turn"`   // index of the message, from 0 on
	Tool        string               `json:"tool"`   // cut short and quoted if the policy does not declare it
	Args        string               `json:"args,omitempty"`
	Verdict     contracts.Verdict    `json:"verdict"`
	Reason      contracts.ReasonCode `json:"reason"`
	Rule        string               `json:"rule,omitempty"`
	Why         string               `json:"why,omitempty"`
	Condition   int                  `json:"condition"`
	Person      bool                 `json:"person"`
	Ran         bool                 `json:"ran"`
	NoResult    bool                 `json:"noResult"`          // the transcript has none: the stub returned null
	AfterDenial bool                 `json:"afterDenial"`       // the model would have gone on otherwise
	Differs     string               `json:"differs,omitempty"` // from the recording, and how
	Decision    helm.Decision        `json:"-"`
}

// Run judges the calls of the turns, which [Transcript] read. An error is a text that Words did not
// take, or the end of ctx.
//
// A call differs from the recording if a result of it was recorded and is not released now.
func (r Replay) Run(ctx context.Context, turns []Turn) (*Verdicts, error) {
	v := &Verdicts{}
	denied := false
	for _, t := range turns {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.Words != nil && t.Role == "user" {
			for _, text := range t.Texts {
				if err := r.Words(ctx, r.Session, text); err != nil {
					return nil, fmt.Errorf("policytest: message %d: %w", t.Index, err)
				}
			}
		}
		if t.Call == nil {
			continue
		}
		x := r.call(ctx, t.Call)
		x.Number, x.Turn, x.AfterDenial = len(v.Calls)+1, t.Index, denied
		v.count(&x)
		denied = denied || x.Verdict == contracts.Deny
		v.Calls = append(v.Calls, x)
	}
	return v, nil
}

func (v *Verdicts) count(x *CallVerdict) {
	switch {
	case x.Verdict == contracts.Allow:
		v.Allow++
	case x.Person:
		v.Person++
	default:
		v.Deny++
	}
	if x.Differs != "" && v.First == 0 {
		v.First = x.Number
	}
}

// call judges one call.
func (r Replay) call(ctx context.Context, c *Call) CallVerdict {
	rec := &recording{call: c}
	in := helm.Intent{Tool: c.Tool, Args: json.RawMessage(c.Args), Caller: r.Caller, Session: r.Session, Driver: rec}
	if c.Args == "" {
		in.Args = json.RawMessage("{}")
	}
	x := CallVerdict{Tool: shown(c.Tool), NoResult: !c.Recorded}
	if r.Policy != nil {
		if _, declared := r.Policy.Limits(c.Tool); declared {
			x.Tool = c.Tool
		}
		rec.definition, _ = r.Policy.Definition(c.Tool)
		if r.Sandbox != nil && len(r.Policy.Sandboxes(c.Tool)) > 0 {
			in.Driver = rec.within(*r.Sandbox)
		}
	}
	d, _ := r.Guard(ctx, in)
	x.Verdict, x.Reason, x.Rule, x.Why = d.Verdict, d.Reason, d.Record.Rule, d.Why
	x.Condition, x.Person, x.Ran, x.Decision = d.Record.Condition, d.Pending != nil, rec.ran, d
	if r.Values {
		x.Args = c.Args
	}
	switch {
	case !c.Recorded || d.Allowed():
	case rec.ran:
		x.Differs = "its result was released then"
	default:
		x.Differs = "it ran then"
	}
	return x
}

// A recording is a driver that returns the result of a transcript. It runs nothing.
type recording struct {
	call       *Call
	definition contracts.Digest
	ran        bool
}

func (r *recording) Definition() contracts.Digest { return r.definition }

func (r *recording) Run(context.Context, contracts.Call) (executor.Result, error) {
	r.ran = true
	switch c := r.call; {
	case c.Failed:
		return executor.Result{}, errors.New(c.Result)
	case c.Recorded:
		return executor.Result{Output: outputOf(c.Result)}, nil
	}
	return executor.Result{}, nil
}

// outputOf returns a result as JSON: what is strict JSON as it is, other text as a string.
func outputOf(result string) []byte {
	var tree crypto.Tree
	if tree.Parse([]byte(result), crypto.Limits{Bytes: len(result), Depth: contracts.MaxRecordDepth}) == nil {
		return []byte(result)
	}
	return crypto.AppendString(nil, result)
}

// confined is a recording whose cell declares a sandbox.
type confined struct {
	*recording
	cell *cell.Cell
}

func (c *confined) Cell() *cell.Cell { return c.cell }

func (r *recording) within(info contracts.SandboxInfo) executor.Driver {
	c := &confined{recording: r}
	c.cell = cell.New(c, info, nil, r.Run)
	return c
}

// String is the table of the verdicts, below a line that counts them.
func (v *Verdicts) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "calls %d: allow %d, deny %d, to a person %d", len(v.Calls), v.Allow, v.Deny, v.Person)
	if v.First > 0 {
		differs := v.Calls[v.First-1].Differs
		fmt.Fprintf(&b, "; the first that differs from the recording: #%d (%s)", v.First, differs)
	}
	b.WriteString("\n")
	var lines strings.Builder
	table := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tturn\ttool\tverdict\treason\trule\twhy")
	for i := range v.Calls {
		fmt.Fprintln(table, &v.Calls[i])
	}
	table.Flush() // into memory
	for line := range strings.Lines(lines.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// String is a line of the table.
func (x *CallVerdict) String() string {
	why := []string{}
	if x.Why != "" {
		why = append(why, x.Why)
	}
	if x.Person {
		why = append(why, "a person is asked")
	}
	if x.Differs != "" {
		why = append(why, x.Differs)
	}
	if x.NoResult && x.Ran {
		why = append(why, "no recorded result: null")
	}
	if x.AfterDenial {
		why = append(why, "after a denial")
	}
	tool := x.Tool
	if x.Args != "" {
		tool += " " + printable(x.Args)
	}
	return fmt.Sprintf("%d\t%d\t%s\t%v\t%s\t%s\t%s", x.Number, x.Turn, tool, x.Verdict, x.Reason, x.Rule,
		strings.Join(why, "; "))
}

// printable returns arguments for one line of a table.
func printable(s string) string {
	for _, r := range s {
		if r < ' ' || r == utf8.RuneError || r > '~' {
			return fmt.Sprintf("%+q", s)
		}
	}
	return s
}
