package program

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// A Demand is a profile that a document demands of the driver of a tool.
type Demand struct {
	Document string // layer:name
	Name     string // of the profile
	Grants   contracts.Sandbox
	Args     bool               // the driver's arguments must be those of Grants
	Modules  []contracts.Digest // one of which the driver must run; nil: any
}

// Demands are those of all documents, in stack order. Each must be met.
type Demands []*Demand

// Unmet says which demand a sandbox does not meet first, and in what; "" if it meets all. A driver
// without a sandbox has nil.
func (x Demands) Unmet(of *contracts.SandboxInfo) string {
	for _, d := range x {
		if d.Name == contracts.ProfileReported && x.divided() {
			return "no driver meets the sandbox " + d.Document + ":" + d.Name + ": another is demanded, too"
		}
		if what := d.unmet(of); what != "" {
			return "the driver does not meet the sandbox " + d.Document + ":" + d.Name + ": " + what
		}
	}
	return ""
}

// divided reports whether the profile reported is demanded, and another.
func (x Demands) divided() bool {
	return slices.ContainsFunc(x, func(d *Demand) bool {
		return (d.Name == contracts.ProfileReported) != (x[0].Name == contracts.ProfileReported)
	})
}

// Possible reports whether a driver can meet all. The least grants are within those of every
// profile, so only what must be equal can keep it from that.
func (x Demands) Possible() bool {
	var args *Demand
	var modules []contracts.Digest // that every demand so far lists
	for _, d := range x {
		if d.Args && args != nil && !slices.Equal(d.Grants.Args, args.Grants.Args) {
			return false
		}
		if d.Args {
			args = d
		}
		if d.Modules == nil {
			continue
		}
		if modules == nil {
			modules = d.Modules
		}
		modules = slices.DeleteFunc(slices.Clone(modules), func(m contracts.Digest) bool {
			return !slices.Contains(d.Modules, m)
		})
		if len(modules) == 0 {
			return false
		}
	}
	return !x.divided()
}

// unmet says in what a sandbox does not meet the demand; "" if it does.
func (d *Demand) unmet(of *contracts.SandboxInfo) string {
	switch {
	case of == nil:
		return "it declares none"
	case d.Name == contracts.ProfileReported && of.Profile != contracts.ProfileReported:
		return "it does not report what ran elsewhere"
	case d.Name == contracts.ProfileReported:
		return ""
	case of.Profile == contracts.ProfileReported || of.Grants == nil:
		return "it reports what ran elsewhere, and has no grants"
	case d.Args && !slices.Equal(of.Grants.Args, d.Grants.Args):
		return "its args are not those of the profile"
	}
	if field := of.Grants.Beyond(d.Grants); field != "" {
		return "its grant of " + field + " is more than the profile's"
	}
	if d.Modules != nil && !slices.Contains(d.Modules, of.Module) {
		return "its module is not among modules"
	}
	return ""
}
