// Package entry reads an entry of a log and knows which blobs it names.
package entry

import (
	"bytes"

	"github.com/helmkernel/helm/contracts"
)

// Open reads an entry, which is no stub. It verifies no signature.
func Open(r *contracts.Reader, e contracts.Entry) (*contracts.Statement, error) {
	sealed, err := r.Open(e)
	if err != nil {
		return nil, err
	}
	return sealed.Statement()
}

// A Role is what an entry names a blob as. Roles are bits: several entries may name one blob.
type Role uint8

const (
	Trust    Role = 1 << iota // the initial trust state
	Document                  // a policy document
	Inputs                    // inputs of a judgement
	Output                    // an output in canonical JSON
	Raw                       // an output that is not strict JSON
	Facts                     // a facts document
	Module                    // what a sandbox ran
	Text                      // a message of the user
)

func (r Role) String() string {
	switch r {
	case Trust:
		return "trust state"
	case Document:
		return "policy document"
	case Inputs:
		return "inputs"
	case Facts:
		return "facts"
	case Module:
		return "module"
	case Text:
		return "text"
	}
	return "output"
}

// Required reports whether blobs of this role may not be erased.
func (r Role) Required() bool { return r == Trust || r == Document }

// Blobs calls f for each blob that an entry names.
func Blobs(st *contracts.Statement, f func(contracts.Digest, Role)) {
	switch r := st.Receipt; {
	case st.Genesis != nil:
		f(st.Genesis.Trust, Trust)
	case st.Policy != nil:
		for _, d := range st.Policy.Documents {
			f(d.Digest, Document)
		}
	case st.Message != nil:
		f(st.Message.TextHash, Text)
	case st.Judgement() != nil:
		f(st.Judgement().InputsHash, Inputs)
	case r != nil:
		if r.OutputHash != nil {
			f(*r.OutputHash, OutputRole(r))
		}
		if r.FactsHash != nil {
			f(*r.FactsHash, Facts)
		}
		if r.Sandbox != nil && r.Sandbox.Profile != contracts.ProfileReported {
			f(r.Sandbox.Module, Module)
		}
	}
}

// OutputRole returns the role of a receipt's output.
func OutputRole(r *contracts.Receipt) Role {
	if r.OutputForm == "raw" {
		return Raw
	}
	return Output
}

// Compare orders digests.
func Compare(a, b contracts.Digest) int { return bytes.Compare(a[:], b[:]) }
