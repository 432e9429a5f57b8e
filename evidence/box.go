package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A box is a sandbox as the kept inputs of a call have it.
type box struct {
	is     contracts.Digest // of module, profile and grants
	inputs contracts.Digest
	gas    uint64 // that is granted
	closed bool
}

func boxOf(s *contracts.SandboxInfo, inputs contracts.Digest) *box {
	if s == nil {
		return nil
	}
	b := &box{is: sandboxOf(s.Module, s.Profile, s.GrantsHash()), inputs: inputs}
	if s.Grants != nil {
		b.gas, b.closed = s.Grants.Gas, s.Grants.Closed()
	}
	return b
}

// sandboxOf returns a name of a sandbox.
func sandboxOf(module contracts.Digest, profile string, grants *contracts.Digest) contracts.Digest {
	b := append(module[:], profile...)
	if grants != nil {
		b = append(append(b, 0), grants[:]...) // no profile has a zero byte
	}
	return crypto.Sum(b)
}

// ran compares the sandbox of a receipt with the one that the driver declared, if the inputs are
// kept. Of an unknown outcome nobody saw what ran.
func (call *pending) ran(x *contracts.Receipt) (field, what string) {
	s, b := x.Sandbox, call.box
	if s != nil && s.Gas > 0 && (s.Profile == contracts.ProfileReported || x.Reason == contracts.ReasonToolPanic) {
		return "sandbox.gas", "of a run that nothing metered to its end"
	}
	switch {
	case !call.kept || x.Reason == contracts.ReasonOutcomeUnknown:
	case (s == nil) != (b == nil):
		return "sandbox", "there iff the inputs have one"
	case s == nil:
	case sandboxOf(s.Module, s.Profile, s.Grants) != b.is:
		return "sandbox", "not the one that the driver declared"
	case s.Gas > b.gas:
		return "sandbox.gas", "more than was granted"
	case x.Reason == contracts.ReasonGasExhausted && s.Gas < b.gas:
		return "sandbox.gas", "not all that was granted, though it was used up"
	}
	return "", ""
}
