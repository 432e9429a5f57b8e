package program

import "time"

// A Requirement of one tool: what must be there before a call that it applies to.
type Requirement struct {
	Name  string // layer:bundle:id
	Of    *Terms // of the overlay that it is in; nil if it is for every call
	Tests []Node // it applies to a call if all hold
	Any   bool   // one of the needs is enough
	At    int32  // its place in the document
	Needs []Need

	General bool // as of a Rule
}

// A Need is one thing that a requirement asks for: an approval, an attestation or a receipt.
type Need struct {
	Approval    *Approval
	Attestation *Attestation
	Receipt     Node
	Lacks       string // the message if it is not there
}

// An Approval is asked of people.
type Approval struct {
	Roles  []string // of which a holder must have one; sorted
	Quorum uint64   // how many holders must say yes
	TTL    time.Duration
}

// An Attestation is asked of a third party.
type Attestation struct {
	Type string
	Age  time.Duration
	Bind []Binding
}

// A Binding is a claim that must equal a value of the call.
type Binding struct {
	Claim string
	Here  []string // segments
}
