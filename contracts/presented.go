package contracts

import "github.com/helmkernel/helm/crypto"

// What callers present: the predicates of docs/FORMATS.md section 5. Their envelopes are those of entries, without the header.

// ApprovalRequest is what an approver signs: the whole of it, so that an approval fits one call under one policy and no other.
type ApprovalRequest struct {
	ArgsHash   Digest
	Caller     Caller
	Expires    Time
	Nonce      string // 32 hex digits
	NotBefore  Time
	PolicyHash Digest
	Quorum     uint64 // distinct holders that must approve
	Roles      []string
	SchemaHash Digest // of the canonical tool declaration
	Session    string
	Tool       string
}

func (r *ApprovalRequest) visit(f *form) {
	f.digest("argsHash", &r.ArgsHash)
	f.object("caller", true, r.Caller.visit)
	f.time("expires", required, &r.Expires)
	f.text("nonce", required, &r.Nonce, nonceText)
	f.time("notBefore", required, &r.NotBefore)
	f.digest("policyHash", &r.PolicyHash)
	f.uint("quorum", required, &r.Quorum, 1, crypto.MaxInt)
	f.texts("roles", required, 0, MaxRoles, &r.Roles, words64)
	f.digest("schemaHash", &r.SchemaHash)
	f.text("session", required, &r.Session, askedName)
	f.text("tool", required, &r.Tool, toolName)
}

// Append appends the canonical form.
func (r *ApprovalRequest) Append(dst []byte) []byte { return write(dst, r.visit) }

// Digest is that of the canonical form: what a decision has as pending.
func (r *ApprovalRequest) Digest() Digest { return crypto.Sum(r.Append(nil)) }

// Approval is an approver's answer.
type Approval struct {
	Key     Digest
	Request ApprovalRequest
	Time    Time
	Verdict Verdict
}

func (a *Approval) visit(f *form) {
	f.digest("key", &a.Key)
	f.object("request", true, a.Request.visit)
	f.time("time", required, &a.Time)
	f.verdict(&a.Verdict)
}

// Delegation is a grant of rights to another caller.
type Delegation struct {
	Delegate  string
	Delegator string
	Depth     uint64
	Expires   Time
	Key       Digest
	Nonce     string
	NotBefore Time
	Only      []string // tools
	Parent    *Digest
	When      crypto.Value // a predicate; Missing where there is none
}

func (d *Delegation) visit(f *form) {
	f.text("delegate", required, &d.Delegate, words256)
	f.text("delegator", required, &d.Delegator, words256)
	f.count("depth", &d.Depth)
	f.time("expires", required, &d.Expires)
	f.digest("key", &d.Key)
	f.text("nonce", required, &d.Nonce, words128)
	f.time("notBefore", required, &d.NotBefore)
	f.texts("only", required, 0, 1<<20, &d.Only, toolName)
	f.maybe("parent", &d.Parent)
	f.value("when", optional, &d.When, crypto.Object)
}

// Attestation is a third party's word on a call.
type Attestation struct {
	Args    *Digest // argsHash that it is bound to
	Claims  crypto.Value
	Expires Time
	Key     Digest
	Session string
	Time    Time
	Type    string
}

func (a *Attestation) visit(f *form) {
	f.maybe("args", &a.Args)
	f.value("claims", required, &a.Claims, crypto.Object)
	f.time("expires", optional, &a.Expires)
	f.digest("key", &a.Key)
	f.text("session", optional, &a.Session, askedName)
	f.time("time", required, &a.Time)
	f.text("type", required, &a.Type, words128)
}

// Bundle is a publisher's signature over a P1 document.
type Bundle struct {
	Digest  Digest
	Key     Digest
	Name    string
	Version uint64
}

func (b *Bundle) visit(f *form) {
	f.digest("digest", &b.Digest)
	f.digest("key", &b.Key)
	f.text("name", required, &b.Name, id)
	f.count("version", &b.Version)
}

// Append appends the canonical form.
func (a *Approval) Append(dst []byte) []byte    { return write(dst, a.visit) }
func (d *Delegation) Append(dst []byte) []byte  { return write(dst, d.visit) }
func (a *Attestation) Append(dst []byte) []byte { return write(dst, a.visit) }
func (b *Bundle) Append(dst []byte) []byte      { return write(dst, b.visit) }
