package helm

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
)

// call is one Guard: what was asked, in the form in which it is judged and recorded. It is reused, so nothing that outlives a Guard may
// refer to its buffers.
type call struct {
	*Kernel
	ctx     context.Context
	inputs  contracts.Inputs
	parents []contracts.Digest
	driver  executor.Driver
	policy  *guardian.Policy // for which the arguments were read, and by which the call is judged
	state   *registry.State  // the trust state that it is judged under
	layer   *layer           // what the context carries
	outer   *running         // calls under whose drivers we are
	used    *used            // kernels whose context it is
	orphan  bool             // one of them is none
	done    <-chan struct{}
	here    *session // whose lock it holds while it is judged
	legal   bool     // the session has a legal name
	holds   int      // of the kernel's room

	bound   uint64                 // drivers
	sandbox *contracts.SandboxInfo // what the one driver declares; nil: none
	defined contracts.Digest       // likewise; zero: none

	malformed string // what is outside its limits
	syntax    string // why the arguments are not strict JSON
	fault     string // what of the caller's failed: the context ended, something panicked
	cause     error  // of that, where there is one
	unread    error  // why it cannot be told what was before the call
	repeated  bool   // an idempotency key of an earlier call
	misfit    string // a wrapped function's type cannot hold the arguments

	tree    crypto.Tree
	reader  contracts.Reader
	earlier *contracts.Reader // of the inputs of earlier calls, which may be large: it goes with the call
	raw     []byte            // the arguments as received
	args    []byte            // their canonical form, after defaults
	spare   []byte
	scratch []byte // the inputs document

	charges []contracts.Charge // to reserve with the call's place
	nonces  []string           // of the requests that it consumes then
	lost    bool               // others took what they were to be made of

	taken func(uint64) error // made once
}

var calls = sync.Pool{New: func() any {
	c := new(call)
	c.taken = c.take
	return c
}}

// maxScratch is how much memory a call may leave to the next one.
const maxScratch = 64 << 10

func (c *call) free() {
	if cap(c.raw)+cap(c.args)+cap(c.spare)+cap(c.scratch) > 4*maxScratch || len(c.raw) > maxScratch {
		return
	}
	*c = call{tree: c.tree, reader: c.reader, raw: c.raw[:0], args: c.args[:0], spare: c.spare[:0], scratch: c.scratch[:0], parents: c.parents[:0], taken: c.taken}
	calls.Put(c)
}

// receive takes a request in. It copies what the caller could change, and touches everything of the caller's that can panic before
// anything is decided.
func (c *call) receive(in Intent) {
	c.raw = append(c.raw[:0], in.Args...)
	h, done, err := look(c.ctx)
	c.layer, c.outer, c.used, c.done = h.layer, h.calls, h.used, done
	if k := c.Kernel.under(h.used); k != nil {
		c.Kernel = k
	} else {
		c.orphan = true
	}
	if err != nil {
		c.failed("the context ended, or panicked", err)
	}
	in.fill(c.layer, c.log)
	c.names(&in)
	c.caller(in.Caller)
	c.presented(&in)
	c.after(in.After)
	if err := contained("the driver's declaration", func() { c.bind(&in) }); err != nil {
		c.failed(err.Error(), err)
	}
}

// failed notes the first thing of the caller's that failed. What it says goes to observers, so it has no text of the caller's.
func (c *call) failed(what string, cause error) {
	if c.fault == "" {
		c.fault, c.cause = what, cause
	}
}

// contained calls what may panic.
func contained(what string, f func()) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = panicked(what, x)
		}
	}()
	f()
	return nil
}

// bad notes the first thing that is outside its limits.
func (c *call) bad(what string) {
	if c.malformed == "" {
		c.malformed = what
	}
}

func (c *call) names(in *Intent) {
	c.inputs.Tool, c.inputs.Session, c.inputs.Idempotency = in.Tool, in.Session, in.Idempotency
	if in.Session == "" {
		c.inputs.Session = contracts.DefaultSession
	}
	if c.legal = contracts.IsSession(c.inputs.Session); !c.legal {
		c.inputs.Session = contracts.Hashed(c.inputs.Session)
		c.bad("session: not 1 to 128 letters, digits and . _ : @ / -, the first not @")
	}
	if !contracts.IsTool(in.Tool) {
		c.inputs.Tool = contracts.Hashed(in.Tool)
		c.bad("tool: not 1 to 128 letters, digits and . _ : @ / -")
	}
	if in.Idempotency != "" && !contracts.IsWords(in.Idempotency, contracts.MaxCallerID) {
		c.inputs.Idempotency = contracts.Hashed(in.Idempotency)
		c.bad("idempotency: more than 256 bytes, or control characters")
	}
}

func (c *call) caller(who Caller) {
	limit := func(s *string, what string) {
		if *s != "" && !contracts.IsWords(*s, contracts.MaxCallerID) {
			*s = contracts.Hashed(*s)
			c.bad(what + ": more than 256 bytes, or control characters")
		}
	}
	limit(&who.ID, "caller id")
	limit(&who.Tenant, "caller tenant")
	if len(who.Roles) > 0 {
		roles := slices.Clone(who.Roles)
		slices.Sort(roles)
		roles = slices.Compact(roles)
		if len(roles) > contracts.MaxRoles || slices.ContainsFunc(roles, func(r string) bool { return !contracts.IsWords(r, contracts.MaxRole) }) {
			c.bad("caller roles: more than 32, or not 1 to 64 bytes without control characters")
			roles = []string{hashedRoles(roles)}
		}
		who.Roles = roles
	} else {
		who.Roles = nil
	}
	c.inputs.Caller = who
}

// hashedRoles is the one role under which roles outside their limits are recorded: the digest of their canonical array. It has no
// "sha256:" before it, with which it would itself be longer than a role may be.
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

// presented keeps the envelopes that have the form of one, without repeats. A malformed approval changes nothing; a delegation is what the
// call is made under, so it must not fall away.
func (c *call) presented(in *Intent) {
	if len(in.Delegation)+len(in.Approvals)+len(in.Attestations) == 0 {
		return
	}
	size := 0
	keep := func(list []contracts.Envelope, what string) (out []contracts.Envelope) {
		if len(list) > contracts.MaxListed {
			c.bad(what + ": more than 16")
			list = list[:contracts.MaxListed]
		}
		for _, e := range list {
			e = slices.Clone(e)
			if _, err := c.reader.Open(e); err != nil {
				if what == "delegation" {
					c.bad("delegation: not the envelope of a grant")
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
	c.inputs.Envelopes = contracts.Envelopes{Approvals: keep(in.Approvals, "approvals"), Attestations: keep(in.Attestations, "attestations"),
		Delegation: keep(in.Delegation, "delegation")}
	if size > contracts.MaxPresented {
		c.bad("envelopes: more than 1 MiB together")
		c.inputs.Envelopes = contracts.Envelopes{}
	}
}

// after makes the parents of the entry. One that is unknown would be a lie in the graph, so then there are none, and the call is denied.
func (c *call) after(refs []contracts.Ref) {
	for _, r := range refs {
		index, ok := c.log.Lookup(r.Hash)
		if !ok || index != r.Index || len(refs) > contracts.MaxParents {
			c.bad("after: more than 32 entries, or one that is not in this log")
			c.parents = c.parents[:0]
			return
		}
		c.parents = append(c.parents, r.Hash)
	}
}

// parse reads the arguments, fills in the tool's defaults, and hashes what everything after means by them. What cannot be read, be it for
// a fault of ours, is no arguments.
func (c *call) parse() {
	var err error
	if trouble := contained("reading the arguments", func() { err = c.read() }); trouble != nil {
		err = trouble
	}
	if err != nil {
		c.inputs.Args, c.inputs.ArgsForm, c.inputs.ArgsHash = crypto.Value{}, "raw", crypto.Sum(c.raw)
		c.syntax = "args: " + strings.TrimPrefix(err.Error(), "crypto: json: ")
	}
}

func (c *call) read() (err error) {
	if c.args, err = c.tree.ParseArgs(c.args[:0], c.raw); err != nil {
		return err
	}
	var filled bool
	if c.spare, filled = c.policy.AppendDefaults(c.spare[:0], c.inputs.Tool, c.tree.Root()); filled {
		if c.args, err = c.tree.ParseArgs(c.args[:0], c.spare); err != nil {
			return err
		}
	}
	c.inputs.Args, c.inputs.ArgsHash = c.tree.Root(), crypto.Sum(c.args)
	if w, ok := c.driver.(wrapped); ok {
		c.misfit = w.misfit(c.args)
	}
	return nil
}
