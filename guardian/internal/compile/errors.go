package compile

import (
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// A LoadError says why a stack of documents is refused. Package guardian documents it.
type LoadError struct {
	Document string        // its Name
	Pos      contracts.Pos // zero if the document has no lines
	Pointer  string        // JSON Pointer into the document; "" is all of it
	What     string
	Remedy   string
}

// maxPart is how many bytes Error shows of a pointer, of what is wrong and of the remedy. The names
// in a document may be as long as the document.
const maxPart = 1 << 10

func shortened(s string) string {
	if len(s) > maxPart {
		return strings.ToValidUTF8(s[:maxPart], "") + "…"
	}
	return s
}

// Error returns file:line:column: pointer: what; remedy.
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
		b.WriteString(": " + shortened(e.Pointer))
	}
	b.WriteString(": " + shortened(e.What))
	if e.Remedy != "" {
		b.WriteString("; " + shortened(e.Remedy))
	}
	return b.String()
}
