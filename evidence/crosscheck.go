package evidence

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// A canonicaliser is a second implementation of RFC 8785. nil: none is asked.
type canonicaliser func([]byte) ([]byte, error)

// check asks the second canonicaliser about bytes that ours found canonical, and returns its
// objection or "". Ours comes first: it has checked depth and size, which the other one, recursive
// and with a tree of its own, does not.
func (c canonicaliser) check(b []byte) (what string) {
	if c == nil {
		return ""
	}
	defer contain.Value(&what, "the second canonicaliser panics") // it reads bytes that an attacker may have made
	switch again, err := c(b); {
	case err != nil:
		return "not JSON to the second canonicaliser" // without the error, which quotes it
	case !bytes.Equal(b, again):
		return "not canonical to the second canonicaliser"
	}
	return ""
}

// checkSealed checks an envelope and its payload.
func (c canonicaliser) checkSealed(envelope []byte, s *contracts.Sealed) (field, what string) {
	if what := c.check(envelope); what != "" {
		return "", what
	}
	return "payload", c.check(s.Payload)
}

// checkInputs checks an inputs document and the payloads of the envelopes that were presented.
// These are opened with memory of their own.
func (c canonicaliser) checkInputs(b []byte, in *contracts.Inputs) string {
	what := c.check(b)
	if c == nil || in.Envelopes.None() {
		return what
	}
	var r contracts.Reader
	e := &in.Envelopes
	for _, list := range [...][]contracts.Envelope{e.Approvals, e.Attestations, e.Delegation} {
		for _, e := range list {
			if s, err := r.Open(e); err == nil && what == "" { // REPLAY judges what is no envelope
				what = c.check(s.Payload)
			}
		}
	}
	return what
}
