package evidence

import (
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// Options are what the caller knows, from elsewhere than the pack. Without Trust or Kernel a pack proves nothing of who made it.
type Options struct {
	Trust  *registry.State  // the initial trust state of the log
	Kernel crypto.PublicKey // or the key that signs its genesis, which then vouches for the trust state in the pack
	Origin string           // the log's name; "" is any, and the report shows it
	Last   []byte           // the checkpoint that the caller kept from before, which the pack must extend; the caller vouches for it
	Level  Level            // what is asked for; zero is Logged
}

// check is INPUT, but for what only the entries can tell of the last checkpoint, which it gives.
func (o *Options) check() (*signed, *Error) {
	bad := func(field, what string) (*signed, *Error) { return nil, &Error{ErrInput, -1, field, what, nil} }
	switch {
	case o.Trust != nil && o.Kernel != nil:
		return bad("Trust", "given beside Kernel: give one of them")
	case o.Trust != nil && len(o.Trust.Keys(registry.Kernel, 0)) == 0:
		return bad("Trust", "a state without a kernel key: read it with registry.ParseState")
	case o.Kernel != nil && crypto.CheckPublicKey(o.Kernel) != nil:
		return bad("Kernel", "not an Ed25519 public key of prime order")
	case o.Origin != "" && !contracts.IsOrigin(o.Origin):
		return bad("Origin", "not 1 to 255 letters, digits and . _ / -")
	case o.Level > Logged:
		return bad("Level", "a level above LOGGED"+unsupported)
	case o.Last == nil:
		return nil, nil
	}
	last, err := parseSigned(o.Last)
	switch {
	case err != nil:
		return bad("Last", err.Error())
	case o.Origin != "" && last.Origin != o.Origin:
		return bad("Last", "of another origin")
	}
	return last, nil
}
