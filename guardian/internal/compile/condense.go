package compile

import (
	"time"

	"github.com/helmkernel/helm/internal/grammar"
)

// readCondense checks what the floor says of letting go of entries. No judgement reads it: package
// internal/condense does, from the document.
func (f floor) readCondense(p docValue) {
	if !f.object(p, grammar.Condense) {
		return
	}
	if kept, ok := f.need(p, "kept"); ok {
		if kept.v.Text() == grammar.Risks[0] {
			f.refuse(kept.at, "keeps the calls of every tool",
				"write medium or high, or remove condense: without it every call is kept")
		} else {
			f.oneOf(kept, grammar.Kept...)
		}
	}
	if x, ok := f.need(p, "after"); ok {
		var after time.Duration
		if f.duration(x, &after) && after < 24*time.Hour {
			f.refuse(x.at, quoted(x)+" is less than 24h", "write 24h or more")
		}
	}
}
