package contracts

import (
	"github.com/helmkernel/helm/crypto"
)

// ApprovalRequest is what an approver signs: the whole of it, so that an approval fits one call under one policy and no other.
//
// A kernel that denies a call for want of an approval gives it as pending. It travels to an approver as JSON, who looks at it and answers by
// Approve or Refuse; the envelope travels back and is presented with the same call.
type ApprovalRequest struct {
	ArgsHash   Digest
	Caller     Caller
	Expires    Time
	Nonce      string // 32 hex digits
	NotBefore  Time
	PolicyHash Digest
	Quorum     uint64   // distinct holders that must approve
	Roles      []string // of which a holder must have one
	SchemaHash Digest   // of the canonical tool declaration
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

// Approve answers yes. The approval says NotBefore for its time, since this package has no clock: an approver who wants to say when he
// answered signs an [Approval].
func (r ApprovalRequest) Approve(key crypto.Signer) (Envelope, error) {
	return Approval{Request: r, Time: r.NotBefore, Verdict: Allow}.Sign(key)
}

// Refuse answers no, which is final for this request.
func (r ApprovalRequest) Refuse(key crypto.Signer) (Envelope, error) {
	return Approval{Request: r, Time: r.NotBefore, Verdict: Deny}.Sign(key)
}

// MarshalJSON writes the canonical form.
func (r ApprovalRequest) MarshalJSON() ([]byte, error) {
	b, err := compose(r.visit)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// maxRequest is the size of a request as JSON on its way, where it may be spelled otherwise; six bytes stand for one at most.
const maxRequest = 64 << 10

// UnmarshalJSON reads a request strictly: no field is missing, unknown or out of its limits. Unlike what is signed it may be spelled
// otherwise than in canonical form, since package json does that on the way. On error r is unchanged.
func (r *ApprovalRequest) UnmarshalJSON(b []byte) error {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxRequest, Depth: MaxRecordDepth, Object: true}); err != nil {
		return &FormatError{Encoding, "request", err.Error()}
	}
	var in ApprovalRequest
	if err := read(tree.Root(), Record, "request.", in.visit); err != nil {
		return err
	}
	*r = in
	return nil
}

// Approval is an approver's answer, yes or no.
type Approval struct {
	Key     Digest
	Request ApprovalRequest
	Time    Time    // when he answered, by his own clock
	Verdict Verdict // Deny refuses
}

func (a *Approval) visit(f *form) {
	f.signer(&a.Key)
	f.object("request", true, a.Request.visit)
	f.time("time", required, &a.Time)
	f.verdict(&a.Verdict)
}

// Sign signs the answer with the key of an approver, and fills in which it is.
func (a Approval) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindApproval, key, &a.Key, a.visit, new(Approval).visit)
}

// Approval reads the predicate of an approval. Call it when the signature was verified.
func (s *Sealed) Approval() (*Approval, error) {
	a := new(Approval)
	if err := s.presented(KindApproval, a.visit); err != nil {
		return nil, err
	}
	return a, nil
}
