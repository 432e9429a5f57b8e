package guardian

import (
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/guardian/internal/compile"
)

// A LoadError says why a stack of documents is refused: in which document and where, what is wrong,
// and what to write instead. It has the fields
//
//	Document string        // the document's Name
//	Pos      contracts.Pos // zero if the document has no lines
//	Pointer  string        // JSON Pointer into the document; "" is all of it
//	What     string        // is wrong
//	Remedy   string        // what to write instead
//
// and its text is
//
//	file:line:column: pointer: what; remedy
//
// without line and column if the document has no lines, and with no more than 1 KiB of each other
// part.
type LoadError = compile.LoadError

// Why says why a call was denied, for people. It is not recorded, and its text holds no value of a
// call. The zero Why is that of an ALLOW.
type Why struct {
	Rule    string // layer:bundle:id of what was being judged
	Pointer string // JSON Pointer into the arguments, or the output
	What    string
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED: what an approver must sign
}

// String returns rule, pointer and what is wrong, without those that are empty.
func (w Why) String() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{w.Rule, w.Pointer, w.What} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}
