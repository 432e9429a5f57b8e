package executor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/cell"
)

// A slot is a place in a log.
type slot struct {
	entry    contracts.Entry
	decision *contracts.DecisionRecord
	err      error
}

func (s *slot) Durable() (contracts.Entry, *contracts.DecisionRecord, error) {
	return s.entry, s.decision, s.err
}

// permitted returns a durable ALLOW and the call that it is for.
func permitted() (*slot, contracts.Call) {
	call := contracts.Call{Tool: "fs.read", Args: []byte(`{"path":"/srv/a"}`), Session: "chat/1",
		Caller: contracts.Caller{ID: "alice", Tenant: "acme", Roles: []string{"clerk", "owner"}}}
	d := &contracts.DecisionRecord{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, Condition: 8,
		Tool:     call.Tool,
		ArgsHash: crypto.Sum(call.Args), Caller: call.Caller, ID: "chat/1/7", Expires: 1767225600123}
	return &slot{entry: contracts.Entry(`{"payload":"…"}`), decision: d}, call
}

func admit(t testing.TB) *Permit {
	t.Helper()
	s, call := permitted()
	p, err := Admit(s, call)
	require.NoError(t, err)
	return p
}

// driver is a function as a driver.
type driver func(context.Context, contracts.Call) (Result, error)

func (d driver) Run(ctx context.Context, call contracts.Call) (Result, error) { return d(ctx, call) }

// A sandboxed driver has a cell. Its own Run is never to be called.
type sandboxed struct{ cell *cell.Cell }

func (s *sandboxed) Cell() *cell.Cell { return s.cell }

func (s *sandboxed) Run(context.Context, contracts.Call) (Result, error) {
	panic("the driver's own Run")
}

// boxed returns a driver in a sandbox that grants nothing.
func boxed(d driver) *sandboxed { return inSandbox(pure, d) }

func inSandbox(info contracts.SandboxInfo, d driver) *sandboxed {
	s := new(sandboxed)
	s.cell = cell.New(s, info, nil, d)
	return s
}

var (
	pure     = contracts.SandboxInfo{Profile: "wasi", Meter: 1, Grants: new(contracts.Sandbox)}
	reported = contracts.SandboxInfo{Profile: contracts.ProfileReported}
)

func returns(output string, err error) driver {
	return func(context.Context, contracts.Call) (Result, error) {
		return Result{Output: []byte(output), Gas: 7}, err
	}
}

// ample limits are never reached by a driver that returns; brief ones are reached at once by one
// that does not.
var (
	ample = Limits{Timeout: time.Hour, Output: 1 << 10}
	brief = Limits{Timeout: time.Millisecond, Output: 1 << 10}
)

var errOwn = errors.New("no such file")

func try(t testing.TB, ctx context.Context, d Driver, l Limits) Outcome {
	t.Helper()
	return Run(ctx, admit(t), d, l)
}
