package guardian

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// A LoadError says why a stack of documents is refused: in which document and where, what is wrong, and what to write instead. Its text is
//
//	file:line:column: pointer: what; remedy
//
// without line and column where the document does not know them. Of several errors it is the first, in the order of the document.
type LoadError struct {
	Document string        // its Name
	Pos      contracts.Pos // zero where the document has no lines
	Pointer  string        // JSON Pointer into the document; "" is all of it
	What     string
	Remedy   string
}

func (e *LoadError) Error() string {
	var b strings.Builder
	b.WriteString(e.Document)
	if e.Document == "" {
		b.WriteString("policy")
	}
	if e.Pos.Line > 0 {
		b.WriteString(":" + strconv.Itoa(e.Pos.Line) + ":" + strconv.Itoa(e.Pos.Column))
	}
	if e.Pointer != "" {
		b.WriteString(": " + e.Pointer)
	}
	b.WriteString(": " + e.What)
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Why says where a judgement went wrong, for people: it is not recorded, and its text holds no value of a call. The zero Why is that of an ALLOW.
type Why struct {
	Rule    string // layer:bundle:id of what was being judged
	Pointer string // JSON Pointer into the arguments, or the output
	What    string
	Pending *contracts.ApprovalRequest // with APPROVAL_REQUIRED: what an approver must sign
}

func (w Why) String() string {
	parts := make([]string, 0, 3)
	for _, s := range []string{w.Rule, w.Pointer, w.What} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}
