// Package cell holds a claim and what runs under it in one value: the sandbox that a driver says
// its tool runs in, and the function that runs it there.
//
// The type stands below internal/, so no module outside this library can name it, and every field
// is unexported, so none can be set from outside, by reflection either. Code that holds a cell may
// copy it, embed its driver, or overwrite it: none of that makes a cell that runs other code. The
// methods of a cell are therefore few: most of what reads it is a function of this package.
package cell

import (
	"context"
	"reflect"

	"github.com/helmkernel/helm/contracts"
)

// A Cell is a sandbox and what runs in it. The zero Cell runs nothing.
type Cell struct{ claim *claim }

// A claim never changes once it is made. Code that overwrites a Cell replaces all of its claim.
type claim struct {
	owner  any
	info   contracts.SandboxInfo // frozen
	module []byte
	run    func(context.Context, contracts.Call) (Result, error)
}

// A Result is what a driver returns; see executor.Result, which is an alias of it.
type Result struct {
	// Output is JSON, or any other bytes. Empty means no output.
	Output []byte

	// Raw means that Output is text: it is released byte for byte and never read as JSON, so that
	// 1.10 stays 1.10. If the tool has a pinned response schema, text does not conform to it.
	Raw bool

	// Failed means that the tool failed, and that Output is what the model is to read of it: the
	// outcome is TOOL_ERROR. Such an output has a size limit, a hash and a release as any other,
	// but is not compared with the pinned response schema.
	Failed bool

	Gas uint64 // used, by a driver in a sandbox
}

// New returns the cell of owner, which must be the pointer that is bound as the driver. The cell
// keeps a deep copy of info, and module as it is: the bytes must not change any more, and may be
// nil. If owner is no pointer, info is outside its limits or run is nil, the cell runs nothing.
func New(
	owner any, info contracts.SandboxInfo, module []byte,
	run func(context.Context, contracts.Call) (Result, error),
) *Cell {
	if owner == nil || reflect.TypeOf(owner).Kind() != reflect.Pointer || run == nil || info.Check() != nil {
		return new(Cell)
	}
	return &Cell{&claim{owner, info.Frozen(), module, run}}
}

// Info returns a deep copy of the sandbox. A cell that runs nothing has the zero SandboxInfo.
func (c *Cell) Info() contracts.SandboxInfo {
	if c == nil || c.claim == nil {
		return contracts.SandboxInfo{}
	}
	return c.claim.info.Clone()
}

// Take returns a copy of c, which nobody else holds, if c is a cell of driver that can run, and nil
// if it is not.
func Take(c *Cell, driver any) *Cell {
	if c == nil {
		return nil
	}
	taken := *c
	if taken.claim == nil || taken.claim.owner != driver {
		return nil
	}
	return &taken
}

// Declared returns the sandbox of a cell that was taken. It must not be changed.
func Declared(c *Cell) *contracts.SandboxInfo { return &c.claim.info }

// Module returns the bytes of the module of a cell that was taken, or nil. They must not change.
func Module(c *Cell) []byte { return c.claim.module }

// Run calls what runs in a cell that was taken.
func Run(ctx context.Context, c *Cell, call contracts.Call) (Result, error) {
	return c.claim.run(ctx, call)
}
