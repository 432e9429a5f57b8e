package helm

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/cell"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/drivers"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A call is one Guard: the request, in the form in which it is judged and recorded. It is
// reused, so nothing that outlives a Guard may refer to its buffers.
type call struct {
	k         *Kernel // the kernel that judges it
	ctx       context.Context
	done      <-chan struct{} // of ctx
	context   carried         // the values of ctx
	orphan    bool            // ctx is that of no kernel
	inputs    contracts.Inputs
	parents   []contracts.Digest
	ancestors []uint64 // the indexes of parents
	legal     bool     // the session has a legal name
	bound     boundDriver
	flaws     flaws
	policy    *guardian.Policy // for which the arguments were read, and by which the call is judged
	state     *registry.State  // the trust state under which it is judged
	priors    priors
	reserved  reservation
	drafts    drafts
	held      int           // weight held of the kernel's admission queue
	repeated  bool          // an idempotency key of an earlier call
	took      time.Duration // of the driver, if there is an observer
	buffers   *buffers
}

// flaws are found in a call before it is judged. Of each kind only the first counts.
type flaws struct {
	malformed       string // a field outside its limits
	syntax          string // why the arguments are not strict JSON
	unrepresentable string // why a wrapped function's Go type cannot hold the arguments
	fault           string // the context ended, or code of the caller's panicked
	cause           error  // of the fault, if there is one
	confirmed       bool   // that of a repeat: see call.unconfirmed
	moved           int    // how often the log moved under it: see call.again
}

// A reservation is taken together with the place in the log, before any other call can take it.
type reservation struct {
	charges []contracts.Charge
	nonces  []string // of the requests that it consumes
	lost    bool     // another call took the budget first
}

// drafts are the entries that a call writes: that of its decision and, if it ran, its receipt.
type drafts struct {
	decision *placement
	take     func(proofgraph.Place) error                         // call.reserve, made once
	write    func(proofgraph.Place) (*contracts.Statement, error) // call.compose, made once
	receipt  recording
}

// empty returns drafts of no entries, for the next call.
func (d *drafts) empty() drafts {
	return drafts{take: d.take, write: d.write, receipt: recording{settles: d.receipt.settles, write: d.receipt.write}}
}

// buffers are reused by the next call.
type buffers struct {
	tree     crypto.Tree
	reader   contracts.Reader
	raw      []byte // the arguments as received
	args     []byte // their canonical form, after defaults
	spare    []byte
	document []byte // the inputs
}

// A boundDriver is the driver of a call, with its declarations.
type boundDriver struct {
	driver executor.Driver
	count  uint64 // how many drivers there are
	drivers.Declaration
}

// A judgement is the decision about a call.
type judgement struct {
	d       Decision // as it was before anything ran, so its Verdict is Deny
	faulty  bool     // denied for a fault of the caller's
	repeats *binding // the call that this one repeats; then nothing was decided
	decided bool     // by the policy, and not by the kernel alone
}

// A placement is a judgement in its place in the log, and its execution.
type placement struct {
	judgement
	session *session
	closing <-chan struct{}  // not nil: the session is closing, and nothing was decided
	full    bool             // there was no room: nothing was signed
	stale   bool             // another stack judges now, or under another trust state: nothing was signed
	slot    *proofgraph.Slot // nil: the kernel is sealed, and err says why
	entry   contracts.Statement
	denial  contracts.Receipt
	err     error
	unread  error        // the session cannot be read: nothing was decided
	pending *pendingCall // the repeated call if it still runs; this one if it has an idempotency key
	run     execution
}

// receive copies the intent and calls every caller-supplied method that might panic (context,
// driver), so that nothing can panic once judging has begun.
func (c *call) receive(in Intent) {
	c.buffers.raw = append(c.buffers.raw[:0], in.Args...)
	var err error
	c.context, c.done, err = inspect(c.ctx)
	if err != nil {
		c.fail("the context ended, or panicked", err)
	}
	if k := c.context.kernel.under(c.k); k != nil {
		c.k = k
	} else {
		c.orphan = true
	}
	sh := c.k.shared
	c.priors = priors{ledger: sh.ledger, used: sh.used, marks: sh.marks, others: sh.others,
		from: logReader{sh.options.Store, sh.log}}
	anyTool := c.context.layer.fill(&in, sh.log)
	c.names(&in)
	if anyTool {
		c.malformed("idempotency: from a With without Tool, so that every call would have the key: set Tool")
	}
	c.caller(in.Caller)
	c.presented(&in)
	c.after(in.After)
	c.bind(&in)
}

// fail notes the first failure in code of the caller's. Observers see the description, so it must
// have no text of the caller's.
func (c *call) fail(what string, cause error) {
	if c.flaws.fault == "" {
		c.flaws.fault, c.flaws.cause = what, cause
	}
}

// malformed notes the first field that is outside its limits.
func (c *call) malformed(what string) {
	if c.flaws.malformed == "" {
		c.flaws.malformed = what
	}
}

func (c *call) names(in *Intent) {
	c.inputs.Tool, c.inputs.Session, c.inputs.Idempotency = in.Tool, in.Session, in.Idempotency
	if in.Session == "" {
		c.inputs.Session = contracts.DefaultSession
	}
	if c.legal = contracts.IsSession(c.inputs.Session); !c.legal {
		c.inputs.Session = contracts.Hashed(c.inputs.Session)
		c.malformed("session: not 1 to 128 letters, digits and . _ : @ / -, the first not @")
	}
	if !contracts.IsTool(in.Tool) {
		c.inputs.Tool = contracts.Hashed(in.Tool)
		c.malformed("tool: not 1 to 128 letters, digits and . _ : @ / -")
	}
	if in.Idempotency != "" && !contracts.IsWords(in.Idempotency, contracts.MaxCallerID) {
		c.inputs.Idempotency = contracts.Hashed(in.Idempotency)
		c.malformed("idempotency: more than 256 bytes, or control characters")
	}
	if in.Idempotency != "" && c.inputs.Session == contracts.DefaultSession {
		c.malformed("idempotency: name a session: main never ends, and would keep the key for ever")
	}
}

func (c *call) caller(who Caller) {
	limit := func(s *string, what string) {
		if *s != "" && !contracts.IsWords(*s, contracts.MaxCallerID) {
			*s = contracts.Hashed(*s)
			c.malformed(what + ": more than 256 bytes, or control characters")
		}
	}
	limit(&who.ID, "caller id")
	limit(&who.Tenant, "caller tenant")
	if len(who.Roles) > 0 {
		roles := slices.Clone(who.Roles)
		slices.Sort(roles)
		roles = slices.Compact(roles)
		illegal := func(role string) bool { return !contracts.IsWords(role, contracts.MaxRole) }
		if len(roles) > contracts.MaxRoles || slices.ContainsFunc(roles, illegal) {
			c.malformed("caller roles: more than 32, or not 1 to 64 bytes without control characters")
			roles = []string{hashedRoles(roles)}
		}
		who.Roles = roles
	} else {
		who.Roles = nil
	}
	c.inputs.Caller = who
}

// hashedRoles returns the one role under which roles outside their limits are recorded: the digest
// of their canonical array. It has no "sha256:" prefix, which would make it longer than a role may
// be.
func hashedRoles(roles []string) string {
	b := []byte{'['}
	for i, r := range roles {
		if i > 0 {
			b = append(b, ',')
		}
		b = crypto.AppendString(b, r)
	}
	return crypto.Sum(append(b, ']')).String()
}

// presented keeps the envelopes that have the form of one, without repeats. A malformed approval
// changes nothing. A malformed delegation must not just fall away, because the call is made
// under it.
func (c *call) presented(in *Intent) {
	if len(in.Delegation)+len(in.Approvals)+len(in.Attestations) == 0 {
		return
	}
	size := 0
	keep := func(list []contracts.Envelope, what string) (out []contracts.Envelope) {
		if len(list) > contracts.MaxListed {
			c.malformed(what + ": more than 16")
			list = list[:contracts.MaxListed]
		}
		for _, e := range list {
			e = slices.Clone(e)
			if _, err := c.buffers.reader.Open(e); err != nil {
				if what == "delegation" {
					c.malformed("delegation: not the envelope of a grant")
				}
				continue
			}
			if !slices.ContainsFunc(out, func(x contracts.Envelope) bool { return string(x) == string(e) }) {
				size += len(e)
				out = append(out, e)
			}
		}
		return out
	}
	c.inputs.Envelopes = contracts.Envelopes{
		Approvals:    keep(in.Approvals, "approvals"),
		Attestations: keep(in.Attestations, "attestations"),
		Delegation:   keep(in.Delegation, "delegation"),
	}
	if size > contracts.MaxPresented {
		c.malformed("envelopes: more than 1 MiB together")
		c.inputs.Envelopes = contracts.Envelopes{}
	}
}

// after makes the parents of the entry. An unknown one would be a lie in the graph, so there are
// none then, and the call is denied.
func (c *call) after(refs []contracts.Ref) {
	sh := c.k.shared
	for _, r := range refs {
		found, err := false, error(nil)
		if len(refs) <= contracts.MaxParents {
			found, err = sh.older.find(sh.log, sh.marks, r)
		}
		if err != nil {
			c.fail("after: the store cannot be read", err)
			c.parents, c.ancestors = c.parents[:0], c.ancestors[:0]
			return
		}
		if !found {
			c.unknown()
			return
		}
		c.parents, c.ancestors = append(c.parents, r.Hash), append(c.ancestors, r.Index)
	}
}

func (c *call) unknown() {
	c.malformed("after: more than 32 entries, or one that is not in this log, or that it has let go of")
	c.parents, c.ancestors = c.parents[:0], c.ancestors[:0]
}

// bind finds the driver and asks for its declarations. One that is not asked, or does not answer,
// has none, and the call is refused: a kernel that takes no calls never takes any again.
func (c *call) bind(in *Intent) {
	b := &c.bound
	for _, d := range [...]executor.Driver{c.k.shared.options.Drivers[in.Tool], in.Driver} {
		if isDriver(d) {
			b.count++
			b.driver = d
		}
	}
	if b.count != 1 || c.flaws.fault != "" {
		return
	}
	defined, _ := b.driver.(executor.Defined)
	sandboxed, _ := b.driver.(executor.Sandboxed)
	if defined == nil && sandboxed == nil || c.orphan || c.k.Err() != nil {
		return
	}
	said, err := c.k.shared.abandoned.Ask(c.counted(), defined, sandboxed, c.done)
	switch {
	case err == drivers.ErrEnded:
		c.fail("the context ended", nil)
	case err != nil:
		c.fail(err.Error(), err)
	}
	b.Declaration = said
}

// isDriver reports whether d is a driver. A nil Func is none, nor is a nil Text.
func isDriver(d executor.Driver) bool {
	switch f := d.(type) {
	case nil:
		return false
	case executor.Func:
		return f != nil
	case executor.Text:
		return f != nil
	}
	return true
}

// counted returns the name by which abandoned goroutines of the tool's driver are counted. All
// tools that the policy does not declare have one, because a model can think of any number of them.
func (c *call) counted() string {
	if _, declared := c.k.current().Limits(c.inputs.Tool); declared {
		return c.inputs.Tool
	}
	return ""
}

// applyPin sets the drivers that the guardian counts. One driver that does not declare the
// definition which the policy pins counts as none, and so does one whose cell is not its own. Two
// count as two, whatever they declare.
func (c *call) applyPin() {
	b := &c.bound
	c.inputs.Drivers, c.inputs.Sandbox = b.count, nil
	if b.Cell != nil {
		c.inputs.Sandbox = cell.Declared(b.Cell)
	}
	pinned, ok := c.policy.Definition(c.inputs.Tool)
	if b.count == 1 && (b.Wraps || ok && b.Definition != pinned) {
		c.inputs.Drivers, c.inputs.Sandbox = 0, nil
	}
}

// wraps reports whether a call was denied because the cell of its driver is not its own.
func (c *call) wraps(reason contracts.ReasonCode) bool {
	return c.bound.Wraps && (reason == contracts.ReasonSandboxViolation || reason == contracts.ReasonDriverNotBound)
}

// parse reads the arguments, fills in the tool's defaults, and hashes the result: from then on
// these are the arguments. Arguments that cannot be read, be it through a fault of ours, are
// recorded as raw bytes.
func (c *call) parse() {
	if err := c.read(); err != nil {
		c.inputs.Args, c.inputs.ArgsForm, c.inputs.ArgsHash = crypto.Value{}, "raw", crypto.Sum(c.buffers.raw)
		c.flaws.syntax = "args: " + strings.TrimPrefix(err.Error(), "crypto: json: ")
		if f, ok := c.bound.driver.(typed); ok {
			c.flaws.unrepresentable = f.unrepresentable(nil)
		}
	}
}

func (c *call) read() (err error) {
	defer contain.Error(&err, "reading the arguments")
	b := c.buffers
	if b.args, err = b.tree.ParseArgs(b.args[:0], b.raw); err != nil {
		return err
	}
	var filled bool
	if b.spare, filled = c.policy.AppendDefaults(b.spare[:0], c.inputs.Tool, b.tree.Root()); filled {
		if b.args, err = b.tree.ParseArgs(b.args[:0], b.spare); err != nil {
			return err
		}
	}
	c.inputs.Args, c.inputs.ArgsHash = b.tree.Root(), crypto.Sum(b.args)
	if f, ok := c.bound.driver.(typed); ok {
		c.flaws.unrepresentable = f.unrepresentable(b.args)
	}
	return nil
}

// follow reads the call again if another stack judges now: its defaults and limits may differ. It
// looks the parents up again, of which a condense entry may have let go. The caller holds no lock.
func (c *call) follow() {
	for i, p := range c.parents {
		_, ok := c.k.shared.log.Lookup(p)
		if !ok && c.k.shared.joined {
			var err error
			ok, err = c.k.shared.log.Find(context.Background(), contracts.Ref{Index: c.ancestors[i], Hash: p})
			if err != nil {
				c.fail("after: the store cannot be read", err)
				break
			}
		}
		if !ok {
			c.unknown()
			break
		}
	}
	policy := c.k.current()
	if policy == c.policy {
		return
	}
	c.policy = policy
	limits, _ := policy.Limits(c.inputs.Tool)
	c.k.extend(limits.Timeout)
	c.applyPin()
	c.reread()
}

// shed drops what was read of the arguments, before the call waits. What remains is their bytes as
// received.
func (c *call) shed() {
	c.inputs.Args = crypto.Value{}
	c.buffers = &buffers{raw: bytes.Clone(c.buffers.raw)}
}

// reread parses the arguments again.
func (c *call) reread() {
	c.inputs.ArgsForm, c.flaws.syntax, c.flaws.unrepresentable = "", "", ""
	c.parse()
}

// typed is a driver that knows before it runs whether its Go type can hold the arguments.
type typed interface {
	// unrepresentable returns why it cannot, "" if it can. Arguments that Guard cannot read are
	// nil.
	unrepresentable(args []byte) string
}
