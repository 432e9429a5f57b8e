package contracts

import (
	"errors"

	"github.com/helmkernel/helm/crypto"
)

// ApprovalRequest is the whole of what an approver signs, so an approval fits one call under one
// policy and no other.
//
// A kernel that denies a call for lack of an approval returns the request as pending. It travels as
// JSON to an approver, together with the arguments. They check by About that the request is about
// these, read both, and call Approve or Refuse. The envelope travels back and is presented with the
// same call.
type ApprovalRequest struct {
	ArgsHash   Digest
	Caller     Caller
	Expires    Time
	Nonce      string // 32 hex digits
	NotBefore  Time
	PolicyHash Digest
	Quorum     uint64   // number of distinct holders that must approve
	Roles      []string // a holder must have one of these
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

// Digest returns the digest of the canonical form, which a decision records as Pending.
func (r *ApprovalRequest) Digest() Digest { return crypto.Sum(r.Append(nil)) }

// Approve returns a signed approval. Its time is NotBefore, since this package has no clock: an
// approver who wants to record the time of the answer signs an [Approval].
func (r ApprovalRequest) Approve(key crypto.Signer) (Envelope, error) {
	return Approval{Request: r, Time: r.NotBefore, Verdict: Allow}.Sign(key)
}

// Refuse returns a signed refusal, which is final for this request.
func (r ApprovalRequest) Refuse(key crypto.Signer) (Envelope, error) {
	return Approval{Request: r, Time: r.NotBefore, Verdict: Deny}.Sign(key)
}

// About returns nil if these are the arguments that the request is about, in any spelling: those
// that were judged, with the defaults of the tool's schema filled in. An approver signs their hash,
// so they must see them first.
func (r ApprovalRequest) About(args []byte) error {
	var tree crypto.Tree
	canonical, err := tree.ParseArgs(nil, args)
	switch {
	case err != nil:
		return errors.New("contracts: request: these are no arguments, which are one object of strict JSON")
	case crypto.Sum(canonical) != r.ArgsHash:
		return errors.New("contracts: request: it is about other arguments: " +
			"take those that were judged, with their defaults")
	}
	return nil
}

// MarshalJSON returns the canonical form.
func (r ApprovalRequest) MarshalJSON() ([]byte, error) {
	b, err := compose(r.visit)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// maxRequest bounds a request in transit. It need not be canonical there: a byte may take up to
// six, as an escape.
const maxRequest = 64 << 10

// UnmarshalJSON reads a request strictly: no field may be missing, unknown or out of its limits.
// Unlike signed JSON it need not be canonical, since package json changes the spelling in transit.
// On error r is unchanged.
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

// Approval is the answer of an approver.
type Approval struct {
	Key     Digest
	Request ApprovalRequest
	Time    Time    // time of the answer, by the approver's own clock
	Verdict Verdict // Allow approves, Deny refuses
}

func (a *Approval) visit(f *form) {
	f.signer(&a.Key)
	f.object("request", true, a.Request.visit)
	f.time("time", required, &a.Time)
	f.verdict(&a.Verdict)
}

// Sign signs the answer with the key of an approver and sets Key.
func (a Approval) Sign(key crypto.Signer) (Envelope, error) {
	return seal(KindApproval, key, &a.Key, a.visit, new(Approval).visit)
}

// Approval returns the predicate of an approval. Verify the signature first.
func (s *Sealed) Approval() (*Approval, error) {
	a := new(Approval)
	if err := s.presented(KindApproval, a.visit); err != nil {
		return nil, err
	}
	return a, nil
}
