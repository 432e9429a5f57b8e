package forge

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/receipts"
)

// SandboxPolicy has tools that take what a [Machine] is to do. One lists the module that may run.
var SandboxPolicy = `{"bundle":{"name":"box","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":["calc","pinned",` +
	`"plain"],"id":"all"}],"sandboxes":{"box":{"files":{"/data":"read","/tmp/in":"read"},"modules":["` +
	crypto.Sum(Module).String() + `"]}},"tools":{` +
	`"calc":{"effect":"read","input":{"properties":{"do":{"type":"string"}},"required":["do"],"type":"object"},` +
	`"limits":{"output":"1KiB"}},` +
	`"pinned":{"effect":"read","input":{"properties":{"do":{"type":"string"}},"required":["do"],"type":"object"},` +
	`"output":{"properties":{"sum":{"type":"string"}},"required":["sum"],"type":"object"},"sandbox":"box"},` +
	`"plain":{"effect":"read","input":{"type":"object"}}}}`

// Module is the module of SandboxLog that is kept. No engine would run it: a Machine does.
var Module = []byte("\x00asm\x01\x00\x00\x00 of a machine")

// Machine stands for a sandbox: what it returns is a function of what it is told, as it is of a
// module in a closed sandbox. Of the decision it depends if it is told to do "seeded", of the time
// with "timed"; "say " is before what it returns, in hex. Modules are at hand that come with their
// bytes, and the first meter.
func Machine(_ context.Context, r contracts.Rerunnable) (contracts.RerunResult, error) {
	x := contracts.RerunResult{Held: crypto.Sum(r.Bytes) == r.Module, Metered: r.Meter == 1}
	if !x.Held || !x.Metered {
		return x, nil
	}
	granted := r.Grants.Gas
	var args struct{ Do string }
	if err := json.Unmarshal(r.Args, &args); err != nil {
		return x, err
	}
	r.Bytes, r.Grants.Gas = nil, 0
	if args.Do != "seeded" {
		r.Decision = contracts.Digest{}
	}
	if args.Do != "timed" {
		r.Time = 0
	}
	told, err := json.Marshal(r)
	if err != nil {
		return x, err
	}
	sum := crypto.Sum(told)
	x.Reason, x.Gas = contracts.ReasonAllow, 1000+uint64(len(args.Do))
	switch args.Do {
	case "text":
		x.Output = fmt.Appendf(nil, "the sum is %s\n", sum)
	case "none":
	case "long":
		x.Output = fmt.Appendf(nil, `{"sum":"%s%s"}`, sum, strings.Repeat("0", 1<<10))
	case "wide": // as it is returned it keeps to the limit
		x.Output = []byte("[1e20" + strings.Repeat(",1e20", 150) + "]")
	case "fail":
		x.Reason = contracts.ReasonToolError
	case "spin":
		x.Gas = 1 << 60
	case "grow":
		x.Reason = contracts.ReasonMemoryExhausted
	case "flood":
		x.Reason = contracts.ReasonOutputExhausted
	default:
		x.Output = fmt.Appendf(nil, "{ \"sum\": %q }\n", sum)
		if said, ok := strings.CutPrefix(args.Do, "say "); ok {
			if x.Output, err = hex.DecodeString(said); err != nil {
				return x, err
			}
		}
	}
	if x.Gas > granted {
		x = contracts.RerunResult{Held: true, Metered: true, Reason: contracts.ReasonGasExhausted, Gas: granted}
	}
	return x, nil
}

// Pure is the sandbox of SandboxLog that is closed, around a module.
func Pure(module []byte) *contracts.SandboxInfo {
	grants := contracts.Sandbox{Args: []string{"-q"}, Gas: 1e6, Files: map[string]string{
		"/data": contracts.Hashed("a tree"), "/tmp/in": contracts.Hashed("another")}}.Filled()
	return &contracts.SandboxInfo{Profile: "box", Module: crypto.Sum(module), Meter: 1, Grants: &grants}
}

// Boxed ends a call as the executor does that runs a [Machine] in the sandbox of the call. The
// module is kept.
func (c *Called) Boxed(module []byte) contracts.Digest {
	c.m.Helper()
	s := c.inputs.Sandbox
	got, err := Machine(c.m.Context(), contracts.Rerunnable{Module: s.Module, Bytes: module, Meter: 1, Grants: *s.Grants,
		Tool: c.inputs.Tool, Args: c.inputs.Args.Append(nil), Decision: c.Entry, Time: c.inputs.Time})
	require.True(c.m, err == nil && got.Held, "%+v, %v", got, err)
	r := receipts.Result{Reason: got.Reason, Sandbox: use(s, got.Gas)}
	if got.Reason == contracts.ReasonAllow {
		permit, err := executor.Admit(c.slot, contracts.Call{Tool: c.inputs.Tool, Args: c.inputs.Args.Append(nil),
			Session: c.inputs.Session, Caller: c.inputs.Caller})
		require.NoError(c.m, err)
		limits, _ := c.policy.Limits(c.inputs.Tool)
		l := executor.Limits{Timeout: limits.Timeout, Output: limits.Output}
		if c.policy.HasOutput(c.inputs.Tool) {
			l.Check = func(v crypto.Value) bool { _, ok := c.policy.CheckOutput(c.inputs.Tool, v); return ok }
		}
		o := executor.Run(c.m.Context(), permit, executor.Func(
			func(context.Context, json.RawMessage) (json.RawMessage, error) { return got.Output, nil }), l)
		r.Reason, r.Output, r.Form = o.Reason, o.Output, o.Form
	}
	c.module = module
	return c.End(r, true)
}

// use is what a receipt says of a sandbox.
func use(s *contracts.SandboxInfo, gas uint64) *contracts.SandboxUse {
	return &contracts.SandboxUse{Gas: gas, Grants: s.GrantsHash(), Module: s.Module, Profile: s.Profile}
}

// Sandboxes is a log of calls that ran in sandboxes, with the indexes of their decisions by name.
type Sandboxes struct {
	*Maker
	At map[string]int
}

// Ran are the calls of SandboxLog that can be run again, in log order.
var Ran = strings.Fields("seeded timed ok again text none long wide pinned drift fail spin grow flood")

// SandboxLog has a call of each end that a sandbox can have, and of each that RERUN passes over.
func SandboxLog(t testing.TB) Sandboxes {
	t.Helper()
	m := NewMaker(t)
	m.Use(SandboxPolicy)
	log := Sandboxes{m, map[string]int{}}
	call := func(name, tool, do string, s *contracts.SandboxInfo, drop bool) *Called {
		t.Helper()
		c := m.Allowed(Ask{Session: "main", Tool: tool, Args: fmt.Sprintf(`{"do":%q}`, do), Who: Reader, sandbox: s,
			Drop: drop})
		log.At[name] = int(c.index)
		return c
	}
	for _, do := range Ran {
		tool := "calc"
		if do == "pinned" || do == "drift" {
			tool = "pinned"
		}
		call(do, tool, strings.Replace(do, "drift", "text", 1), Pure(Module), false).Boxed(Module)
	}
	ended := func(name string, reason contracts.ReasonCode, s *contracts.SandboxInfo, gas uint64) {
		t.Helper()
		r := receipts.Result{Reason: reason}
		if s != nil && reason != contracts.ReasonOutcomeUnknown {
			r.Sandbox = use(s, gas)
		}
		if reason == contracts.ReasonAllow {
			r.Output, r.Form = []byte(`"whatever"`), "jcs"
		}
		call(name, "calc", name, s, name == "dropped").End(r, true)
	}
	open := Pure(Module)
	open.Grants.Clock = "real"
	ended("open", contracts.ReasonAllow, open, 7)
	ended("time", contracts.ReasonTimeExhausted, Pure(Module), 1e6)
	ended("panic", contracts.ReasonToolPanic, Pure(Module), 0)
	ended("late", contracts.ReasonToolTimeout, Pure(Module), 7)
	ended("gone", contracts.ReasonToolCanceled, Pure(Module), 7)
	ended("lost", contracts.ReasonOutcomeUnknown, Pure(Module), 0)
	ended("dropped", contracts.ReasonAllow, Pure(Module), 7)
	ended("away", contracts.ReasonAllow, Pure([]byte("nowhere")), 7)
	newer := Pure(Module)
	newer.Meter = 2
	ended("newer", contracts.ReasonAllow, newer, 7)
	elsewhere := &contracts.SandboxInfo{Profile: contracts.ProfileReported, Module: crypto.Sum([]byte("a definition"))}
	ended("reported", contracts.ReasonAllow, elsewhere, 0)
	ended("reported late", contracts.ReasonToolCanceled, elsewhere, 0)
	m.Allowed(Ask{Session: "main", Tool: "plain", Args: `{}`, Who: Reader}).Ran(`[]`)
	m.Checkpoint()
	return log
}

// Receipt returns the entry with the receipt of a call of the log that m was taken from.
func (l Sandboxes) Receipt(m *Model, name string) *Node {
	n := m.Nodes[l.At[name]+1]
	require.True(m, n.decision == m.Nodes[l.At[name]], "%s has no receipt there", name)
	return n
}

// ModulesLog has a call of each module.
func ModulesLog(t testing.TB, modules ...[]byte) *Maker {
	t.Helper()
	m := NewMaker(t)
	m.Use(SandboxPolicy)
	for _, module := range modules {
		m.Run("calc", "it", module)
	}
	m.Checkpoint()
	return m
}

// Run has a Machine do something, in the closed sandbox of a module.
func (m *Maker) Run(tool, do string, module []byte) {
	m.Helper()
	args := append(crypto.AppendString([]byte(`{"do":`), do), '}')
	m.Allowed(Ask{Session: "main", Tool: tool, Args: string(args), Who: Reader, sandbox: Pure(module)}).Boxed(module)
}
