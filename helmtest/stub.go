package helmtest

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/cell"
)

// A stub is what runs in one call. It notes what it is given.
type stub struct {
	fn         executor.Func
	within     executor.Driver // runs in place of fn, if it is there
	definition contracts.Digest
	sandbox    *contracts.SandboxInfo

	mu   sync.Mutex // protects runs
	runs [][]byte   // arguments
}

// stub returns what runs when a tool is called now.
func (b *bench) stub(tool string) *stub {
	b.mu.Lock()
	s := &stub{fn: b.tools[tool]}
	b.mu.Unlock()
	s.definition, _ = b.policy.Definition(tool)
	demands := b.policy.Sandboxes(tool)
	for _, d := range demands {
		info := contracts.SandboxInfo{Profile: d.Name}
		if d.Name != contracts.ProfileReported {
			info = contracts.SandboxInfo{Profile: d.Name, Meter: 1, Grants: &d.Grants}
		}
		if d.Modules != nil {
			info.Module = d.Modules[0]
		}
		narrowest := !slices.ContainsFunc(demands, func(x guardian.Demand) bool { return !d.Grants.Within(x.Grants) })
		if s.sandbox == nil || narrowest {
			s.sandbox = &info
		}
	}
	return s
}

// driver is the stub as the kernel takes it.
func (s *stub) driver() executor.Driver {
	if s.sandbox == nil {
		return s
	}
	x := &sandboxed{stub: s}
	x.cell = cell.New(x, *s.sandbox, nil, s.Run)
	return x
}

// A sandboxed stub declares what the policy demands.
type sandboxed struct {
	*stub
	cell *cell.Cell
}

func (s *sandboxed) Cell() *cell.Cell { return s.cell }

func (s *stub) Definition() contracts.Digest { return s.definition }

func (s *stub) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	s.mu.Lock()
	s.runs = append(s.runs, bytes.Clone(c.Args))
	s.mu.Unlock()
	switch {
	case s.within != nil:
		return s.within.Run(ctx, c)
	case s.fn == nil:
		return executor.Result{}, nil
	}
	return s.fn.Run(ctx, c)
}

// taken returns the arguments of the runs so far.
func (s *stub) taken() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.runs)
}
