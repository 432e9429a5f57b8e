package evidence

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
)

// crossed asks a canonicaliser of others about bytes that ours found canonical, and says what it has against them. Ours comes first: it has
// held them to depth and size, which the other one, recursive and with a tree of its own, does not.
func (o *opener) crossed(b []byte) (what string) {
	if o.canonical == nil {
		return ""
	}
	defer func() {
		if recover() != nil { // what others wrote is given what attackers wrote
			what = "the second canonicaliser panics"
		}
	}()
	switch c, err := o.canonical(b); {
	case err != nil:
		return "not JSON to the second canonicaliser" // whose error quotes it
	case !bytes.Equal(b, c):
		return "not canonical to the second canonicaliser"
	}
	return ""
}

// crossedSealed is crossed for an envelope and what is in it.
func (o *opener) crossedSealed(envelope []byte, s *contracts.Sealed) (field, what string) {
	if what := o.crossed(envelope); what != "" {
		return "", what
	}
	return "payload", o.crossed(s.Payload)
}

// crossedInputs is crossed for an inputs document and what is in the envelopes that were presented: these are opened with memory of their own.
func (v *verifier) crossedInputs(b []byte, in *contracts.Inputs) string {
	what := v.crossed(b)
	if v.canonical == nil || in.Envelopes.None() {
		return what
	}
	var r contracts.Reader
	for _, list := range [...][]contracts.Envelope{in.Envelopes.Approvals, in.Envelopes.Attestations, in.Envelopes.Delegation} {
		for _, e := range list {
			if s, err := r.Open(e); err == nil && what == "" { // what is no envelope, REPLAY judges
				what = v.crossed(s.Payload)
			}
		}
	}
	return what
}
