package helm

import (
	"fmt"
	"maps"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
)

// What runs, and what it declares: the sandbox that it runs in, and the definition that it serves.

// bound tells whether there is a driver. A nil Func is none.
func bound(d executor.Driver) bool {
	f, ok := d.(executor.Func)
	return d != nil && !(ok && f == nil)
}

// bind finds what runs, and asks it what it declares.
func (c *call) bind(in *Intent) {
	for _, d := range [...]executor.Driver{c.options.Drivers[in.Tool], in.Driver} {
		if bound(d) {
			c.bound++
			c.driver = d
		}
	}
	if c.bound != 1 {
		return
	}
	if d, ok := c.driver.(executor.Defined); ok {
		c.defined = d.Definition()
	}
	if s, ok := c.driver.(executor.Sandboxed); ok {
		info := s.Sandbox()
		if !contracts.IsWords(info.Profile, contracts.MaxWords) {
			c.bad("driver: its sandbox profile is not 1 to 128 bytes without control characters")
			return
		}
		c.sandbox = &info
	}
}

// fit tells the guardian what is bound: one driver that does not declare the definition which the policy pins is none. Two are two, whatever
// they declare.
func (c *call) fit() {
	c.inputs.Drivers, c.inputs.Sandbox = c.bound, c.sandbox
	if pinned, ok := c.policy.Definition(c.inputs.Tool); ok && c.bound == 1 && c.defined != pinned {
		c.inputs.Drivers, c.inputs.Sandbox = 0, nil
	}
}

// declare is an error where a driver of the options does not declare the definition that a policy pins of its tool: no call of it could run.
// The caller holds no lock, for drivers are asked.
func (p *prepared) declare(policy *guardian.Policy) error {
	for _, tool := range slices.Sorted(maps.Keys(p.options.Drivers)) {
		pinned, ok := policy.Definition(tool)
		if !ok {
			continue
		}
		var now contracts.Digest
		if d, ok := p.options.Drivers[tool].(executor.Defined); ok {
			if err := contained("its Definition", func() { now = d.Definition() }); err != nil {
				return fmt.Errorf("Options.Drivers: %q: %w", tool, err)
			}
		}
		switch now {
		case pinned:
		case contracts.Digest{}:
			return fmt.Errorf("Options.Drivers: %q: the policy pins a definition of this tool, and the driver declares none: give an executor.Defined", tool)
		default:
			return fmt.Errorf("Options.Drivers: %q: the definition is %v now, and the policy pins %v: look at what changed, then pin it in a later version of the bundle",
				tool, now, pinned)
		}
	}
	return nil
}
