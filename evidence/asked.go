package evidence

import (
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// asked compares kept inputs with the decision, the entry and the log. The empty field means that
// they agree.
func (r *replayer) asked(
	st *contracts.Statement, d *contracts.DecisionRecord, in *contracts.Inputs,
) (field, what string) {
	const differs = "differs from the decision's"
	raw := in.ArgsForm != ""
	switch s := &in.State; {
	case in.ArgsForm != d.ArgsForm:
		return "argsForm", differs
	case in.ArgsHash != d.ArgsHash:
		return "argsHash", differs
	case in.Idempotency != d.Idempotency:
		return "idempotency", differs
	case in.Tool != d.Tool:
		return "tool", differs
	case !in.Caller.Equal(d.Caller):
		return "caller", differs
	case raw != (in.Args.Kind() == crypto.Missing):
		return "args", "left out with argsForm raw, and only then"
	case in.Time != st.Time:
		return "time", "not the entry's"
	case st.Session == contracts.SessionRefused && !contracts.IsHashed(in.Session) && !r.fold.chain(in.Session).closed:
		return "session", "one that could have held the denial"
	case st.Session != contracts.SessionRefused && in.Session != st.Session:
		return "session", "not the entry's"
	case s.Trust != r.fold.state.Digest():
		return "state.trust", "not the digest of the trust state here"
	}
	if !raw {
		if what := r.args(in); what != "" {
			return "args", what
		}
	}
	return presented(d, &in.Envelopes)
}

// args compares kept arguments with their hash and checks their form. It returns what is wrong with
// them, or "".
func (r *replayer) args(in *contracts.Inputs) string {
	r.text = in.Args.Append(r.text[:0])
	if crypto.Sum(r.text) != in.ArgsHash {
		return "not those of argsHash"
	}
	if !in.Args.IsArgs() {
		if _, err := r.blobs.json.ParseArgs(nil, r.text); err != nil {
			return err.Error()
		}
	}
	return ""
}

// presented compares the envelopes with those that the decision lists.
func presented(d *contracts.DecisionRecord, e *contracts.Envelopes) (field, what string) {
	among := func(list []contracts.Envelope) func(contracts.Digest) bool {
		return func(d contracts.Digest) bool { return !holds(list, d) }
	}
	switch {
	case slices.ContainsFunc(d.Approvals, among(e.Approvals)):
		return "envelopes.approvals", "one that counted is not among them"
	case slices.ContainsFunc(d.Attestations, among(e.Attestations)):
		return "envelopes.attestations", "one that counted is not among them"
	case (d.Delegation != nil) != (len(e.Delegation) > 0),
		d.Delegation != nil && e.Delegation[0].Digest() != *d.Delegation:
		return "envelopes.delegation", "its leaf is not the decision's"
	}
	return "", ""
}
