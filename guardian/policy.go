package guardian

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/compile"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/threat"
	"github.com/helmkernel/helm/internal/several"
	"github.com/helmkernel/helm/trust/registry"
)

// Versions of what judges, in every PolicyHash: another engine is another policy.
const (
	engineRules  = 2
	engineThreat = threat.Table
)

// Engine returns the version of what judges here. See [CompileFor] for others.
func Engine() contracts.Engine { return contracts.Engine{Rules: engineRules, Threat: engineThreat} }

// Policy is a compiled stack of documents. It never changes, and is safe for concurrent use by
// multiple goroutines. The nil and the zero Policy have no tools: they deny every call.
type Policy struct {
	hash    contracts.Digest
	record  contracts.PolicyRecord
	stack   compile.Stack
	scratch *sync.Pool // of *scratch, for all policies narrowed from one
}

// Compile returns the policy of floors (P0), bundles (P1) and overlays (P2), any number of each, in
// whatever order they come. The error joins a *[LoadError] for each fault of each document, so that
// errors.As finds the first, and Unwrap() []error of an error that is no *LoadError itself returns
// them: in the order of the stack, documents whose layer cannot be read before all others, and in
// that of the document. It holds 20 of them, and its text says how many more there are.
//
// What may be right once another error is mended is not refused: what a document says of a tool
// whose declaration is refused, for example. A schema and a predicate on one value are each read as
// far as the first error. If a rule is wrong in one place for several tools the error is about the
// first of them. Requirements that no call can meet are looked for if there is no other error.
//
// Compile keeps copies of the documents.
func Compile(docs ...contracts.Document) (*Policy, error) { return CompileFor(Engine(), docs...) }

// CompileFor is like [Compile], but for judging again what that engine judged: the present one, or
// one with the same rules and an earlier table of threat signals. Table 0 is none: nothing is
// scanned.
func CompileFor(engine contracts.Engine, docs ...contracts.Document) (*Policy, error) {
	if engine.Rules != engineRules || engine.Threat > engineThreat {
		return nil, errors.New("guardian: verdicts of that engine cannot be replayed by this one")
	}
	stack, err := compile.Documents(cloned(docs))
	if err != nil {
		return nil, err
	}
	return policyOf(stack, new(sync.Pool), engine), nil
}

// Narrow returns the policy of this stack with overlays (P2) at its end. Their order is part of the
// PolicyHash. The policy itself is not changed: the new one shares it, and holds what the overlays
// say of the tools that they name. The error is as that of [Compile], the same as if all documents
// were compiled.
func (p *Policy) Narrow(overlays ...contracts.Document) (*Policy, error) {
	if p == nil || len(p.stack.Documents) == 0 {
		return nil, &LoadError{What: "no policy to narrow", Remedy: "narrow one that Compile made"}
	}
	stack, err := p.stack.Narrow(cloned(overlays))
	if err != nil {
		return nil, err
	}
	return policyOf(stack, p.scratch, p.record.Engine), nil
}

func policyOf(stack *compile.Stack, scratch *sync.Pool, engine contracts.Engine) *Policy {
	p := &Policy{
		stack: *stack, scratch: scratch,
		record: contracts.PolicyRecord{Documents: stack.Records, Engine: engine},
	}
	p.hash = p.record.Hash()
	p.record.Policy = p.hash
	return p
}

func cloned(docs []contracts.Document) []contracts.Document {
	out := make([]contracts.Document, len(docs))
	for i, d := range docs {
		out[i] = contracts.Document{Name: d.Name, Canonical: bytes.Clone(d.Canonical), Lines: maps.Clone(d.Lines)}
	}
	return out
}

// Hash returns the PolicyHash, the SHA-256 of the canonical JSON of the stack's documents and
// engine; zero for the zero Policy. Documents are hashed in the order of layers and names, but for
// overlays added by [Policy.Narrow], which follow in the order of narrowing.
func (p *Policy) Hash() contracts.Digest {
	if p == nil {
		return contracts.Digest{}
	}
	return p.hash
}

// Record returns what a policy entry says of the stack.
func (p *Policy) Record() contracts.PolicyRecord {
	if p == nil {
		return contracts.PolicyRecord{}
	}
	r := p.record
	r.Documents = slices.Clone(r.Documents)
	return r
}

// Documents returns copies of the documents in stack order.
func (p *Policy) Documents() []contracts.Document {
	if p == nil {
		return nil
	}
	return cloned(p.stack.Documents)
}

// Document returns a copy of the document at a place of the stack, or the zero Document if there is
// none. [Policy.Documents] copies all, which may be large.
func (p *Policy) Document(at int) contracts.Document {
	if p == nil || at < 0 || at >= len(p.stack.Documents) {
		return contracts.Document{}
	}
	return cloned(p.stack.Documents[at : at+1])[0]
}

// Expired joins, as [Compile] does, a *[LoadError] for each document that has expired at t. An
// expired policy still judges, and denies the tools or calls that the document is about, but none
// should be taken into use: New, Narrow and Swap of package helm refuse it.
func (p *Policy) Expired(t contracts.Time) error {
	if p == nil {
		return nil
	}
	var all []error
	for _, x := range p.stack.Expiring {
		if t >= x.At {
			all = append(all, &x.Err)
		}
	}
	return several.Join(all...)
}

// Unapprovable joins, as [Compile] does, a *[LoadError] for each approval of the stack that nobody
// in the trust state could ever give: it has no roots, who may add keys, and too few approvers of
// the roles. A call that needs it would be asked for in vain: New, Narrow and Swap of package helm
// refuse the policy.
func (p *Policy) Unapprovable(trust *registry.State) error {
	const ever = math.MaxInt64 // no index is higher
	if p == nil || len(p.stack.Asked) == 0 || len(trust.Keys(registry.Root, ever)) > 0 {
		return nil
	}
	holders := map[string][]string{} // by role
	for _, key := range trust.Keys(registry.Approver, ever) {
		holder, _ := trust.Holder(crypto.KeyID(key), registry.Approver, ever)
		for _, role := range holder.Roles {
			holders[role] = append(holders[role], holder.Name)
		}
	}
	var all []error
	for _, x := range p.stack.Asked {
		people := map[string]bool{}
		for _, role := range x.Roles {
			for _, name := range holders[role] {
				people[name] = true
			}
		}
		if n := uint64(len(people)); n < x.Quorum {
			err := x.Err
			err.What = "nobody can ever give the approval: it takes " + strconv.FormatUint(x.Quorum, 10) +
				" of the roles " + strings.Join(x.Roles, ", ") + ", the trust state has " + strconv.FormatUint(n, 10) +
				", and no roots who could add one"
			err.Remedy = "add keys of approvers with such a role, or roots, to the initial trust state"
			all = append(all, &err)
		}
	}
	return several.Join(all...)
}

func (p *Policy) tool(name string) *program.Tool {
	if p == nil {
		return nil
	}
	return p.stack.Tools[name]
}

// Limits are what one run of a tool may take.
type Limits struct {
	Args    int // bytes of the canonical arguments
	Output  int // bytes of the output
	Timeout time.Duration
}

// Limits returns those of a declared tool, each the lowest of its own and of every ceiling.
func (p *Policy) Limits(tool string) (Limits, bool) {
	if t := p.tool(tool); t != nil {
		return Limits(t.Limits), true
	}
	return Limits{}, false
}

// AppendDefaults appends the canonical form of args with the defaults of the tool's input filled
// in. It returns dst as it was, and false, if nothing was missing or the tool is not declared.
func (p *Policy) AppendDefaults(dst []byte, tool string, args crypto.Value) ([]byte, bool) {
	if t := p.tool(tool); t != nil {
		return t.Input.AppendDefaults(dst, args)
	}
	return dst, false
}

// Definition returns the digest that the tool pins of its definition, and false if it pins none.
// Only a driver that declares this digest may be bound to the tool: see executor.Defined.
func (p *Policy) Definition(tool string) (contracts.Digest, bool) {
	t := p.tool(tool)
	if t == nil || t.Driver.Definition == (contracts.Digest{}) {
		return contracts.Digest{}, false
	}
	return t.Driver.Definition, true
}

// A Demand is a sandbox profile that a document demands of the driver of a tool. The driver meets
// it if its grants are within those of the profile, if its arguments are those of the profile, and
// if it runs one of the modules. The profile named reported is met by its name alone, and only if
// no other is demanded.
type Demand struct {
	Document string             // layer:name of the document
	Name     string             // of the profile, in that document
	Grants   contracts.Sandbox  // with defaults filled in; zero for the profile reported
	Args     bool               // the driver's arguments must be those of Grants
	Modules  []contracts.Digest // digests of the modules that may run; nil: any may
}

// Sandboxes returns what is demanded of the sandbox of the tool's driver, in stack order. Each must
// be met.
func (p *Policy) Sandboxes(tool string) []Demand {
	t := p.tool(tool)
	if t == nil {
		return nil
	}
	var list []Demand
	for _, d := range t.Driver.Demands {
		x := Demand(*d)
		x.Grants, x.Modules = x.Grants.Clone(), slices.Clone(x.Modules)
		list = append(list, x)
	}
	return list
}

// Compared returns, for each way in which the policy compares later calls with those of the tool,
// the JSON Pointers to the values in its arguments that must be the same: see [past.Session.Watch].
func (p *Policy) Compared(tool string) [][]string {
	t := p.tool(tool)
	if t == nil {
		return nil
	}
	var list [][]string
	for _, of := range [...][][]string{t.Compared, p.stack.More(tool).Compared} {
		for _, pointers := range of {
			list = append(list, slices.Clone(pointers))
		}
	}
	return list
}

// HasOutput reports whether the tool pins the schema of its output.
func (p *Policy) HasOutput(tool string) bool {
	t := p.tool(tool)
	return t != nil && t.Output.Schema != nil
}

// CheckOutput reports whether an output is valid by the schema that the tool pins, and if not, why.
// Every output is valid if no schema is pinned, and none if the tool is not declared.
func (p *Policy) CheckOutput(tool string, output crypto.Value) (Why, bool) {
	t := p.tool(tool)
	switch {
	case t == nil:
		return Why{What: "the tool is not declared"}, false
	case t.Output.Schema == nil:
		return Why{}, true
	}
	if v := t.Output.Schema.Validate(output); v != nil {
		return Why{Pointer: v.Pointer, What: v.Constraint}, false
	}
	return Why{}, true
}
