package program

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// A Budget of one tool: what a call of it costs, and which balance is charged.
type Budget struct {
	Name   string // layer:bundle:id
	Of     *Terms // of the overlay that it is in; nil if it is for every call
	Tests  []Node // it applies to a call if all hold
	Limit  uint64
	Per    string // all, caller, tenant, tool or session
	Window *value.Window
	Cost   Cost
	Refund bool  // the charge is given back if the tool itself failed
	At     int32 // its place in the document
}

// Subject returns whose balance a call is charged to, or why there is none. The payer is who it is
// charged to per caller: who lends the rights, if the call is made under grants.
func (b *Budget) Subject(in *contracts.Inputs, payer *contracts.Caller, names *Names) (of, what string) {
	switch b.Per {
	case "all":
		return "", ""
	case "caller":
		if payer.ID == "" {
			return "", "the caller has no id"
		}
		return names.payer(payer), ""
	case "tenant":
		of, what = in.Caller.Tenant, "the caller has no tenant"
	case "tool":
		of = in.Tool
	case "session":
		of = in.Session
		if of == contracts.DefaultSession {
			return "", unnamed
		}
	}
	switch {
	case of == "":
		return "", what
	case !contracts.IsWords(of, contracts.MaxWords): // longer ones are charged by their digest
		return contracts.Hashed(of), ""
	}
	return of, ""
}

// Names makes strings that outlast the call. Several are cut from one allocation.
type Names struct {
	of   string // who pays for the present call; "" if nobody was asked for yet
	made strings.Builder
	buf  []byte
}

// Forget keeps nothing of the call but memory.
func (n *Names) Forget() { n.of = "" }

// payer returns the canonical object of the caller's id and tenant or, if that is too long for a
// record, the name of its digest. The payer of a call is one and the same.
func (n *Names) payer(c *contracts.Caller) string {
	if n.of != "" {
		return n.of
	}
	n.buf = crypto.AppendString(append(n.buf[:0], `{"id":`...), c.ID)
	if c.Tenant != "" {
		n.buf = crypto.AppendString(append(n.buf, `,"tenant":`...), c.Tenant)
	}
	n.buf = append(n.buf, '}')
	// In a JSON string a byte of it takes two at most.
	if len(n.buf) > contracts.MaxWords/2 && !contracts.IsWords(string(n.buf), contracts.MaxWords) {
		n.of = contracts.Hashed(string(n.buf))
		return n.of
	}
	if n.made.Cap()-n.made.Len() < len(n.buf) {
		n.made = strings.Builder{}
		n.made.Grow(4 << 10)
	}
	from := n.made.Len()
	n.made.Write(n.buf)
	n.of = n.made.String()[from:]
	return n.of
}

// A Cost is a constant or, with Path, a number of the arguments times ten to the power of Scale.
type Cost struct {
	Fixed   uint64
	Varies  bool // it is the number at Path
	Path    []string
	Pointer string // Path, for people
	Scale   int
}

// Of returns the cost of a call with these arguments, or why it has none. The decimal text of a
// number is moved digit by digit: no double is multiplied.
func (c *Cost) Of(args crypto.Value) (amount uint64, what string) {
	if !c.Varies {
		return c.Fixed, ""
	}
	v := value.Follow(args, c.Path)
	if v.Kind() != crypto.Number {
		return 0, "the cost is not a number"
	}
	return value.Scaled(v.Raw(), c.Scale)
}
