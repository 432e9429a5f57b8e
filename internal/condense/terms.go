package condense

import (
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/grammar"
)

// Terms are what the documents of one policy say of letting go: rule 4 of the package comment. A
// nil *Terms lets nothing go and declares no tool. Terms are immutable.
type Terms struct {
	lets  bool            // every P0 document has condense, and nothing is malformed
	kept  rank            // risks from this one on are kept
	after contracts.Time  // in milliseconds
	risks map[string]rank // by tool
}

// A Document is a policy document as a policy entry names it.
type Document struct {
	Layer     string // P0, P1 or P2
	Canonical []byte
}

// A rank is the place of a risk in [grammar.Risks].
type rank uint8

// unknown is the rank of a malformed risk. No least kept is above it.
const unknown rank = 255

// ReadTerms reads the terms of a policy from its documents. It keeps none of their bytes.
func ReadTerms(documents []Document) *Terms {
	t := &Terms{kept: unknown, risks: make(map[string]rank)}
	floors, well := 0, true
	for _, d := range documents {
		var tree crypto.Tree
		limits := crypto.Limits{Bytes: len(d.Canonical), Depth: contracts.MaxRecordDepth, Object: true}
		if tree.Parse(d.Canonical, limits) != nil {
			well = false
			continue
		}
		switch d.Layer {
		case grammar.Floor:
			floors++
			well = t.floor(tree.Root().Get("condense")) && well
		case grammar.Bundle:
			well = t.bundle(tree.Root().Get("tools")) && well
		}
	}
	t.lets = well && floors > 0
	return t
}

// floor adds the condense of a P0 document. It reports whether it is there and well formed.
func (t *Terms) floor(condense crypto.Value) bool {
	kept := condense.Get("kept").Text()
	after, ok := duration(condense.Get("after").Text())
	if !ok || after < leastAfter || !slices.Contains(grammar.Kept, kept) || condense.Len() != len(grammar.Condense) {
		return false
	}
	t.kept, t.after = min(t.kept, rankOf(kept)), max(t.after, after)
	return true
}

// bundle adds the tools of a P1 document. It reports whether they are an object.
func (t *Terms) bundle(tools crypto.Value) bool {
	if tools.Kind() != crypto.Object {
		return false
	}
	for it := tools.Iter(); it.Next(); {
		name := string(it.Key())
		t.risks[name] = max(t.risks[name], riskOf(it.Value()))
	}
	return true
}

// riskOf returns the risk of a tool by its entry in a document.
func riskOf(tool crypto.Value) rank {
	if risk := tool.Get("risk"); risk.Kind() != crypto.Missing { // null is malformed
		return rankOf(risk.Text())
	}
	i := slices.Index(grammar.Effects, tool.Get("effect").Text())
	if i < 0 {
		return unknown
	}
	return rank(i) // read, write, destructive: low, medium, high
}

func rankOf(risk string) rank {
	if i := slices.Index(grammar.Risks, risk); i >= 0 {
		return rank(i)
	}
	return unknown
}

// Declares reports whether a P1 document declares the tool.
func (t *Terms) Declares(tool string) bool {
	if t == nil {
		return false
	}
	_, ok := t.risks[tool]
	return ok
}

// Goes reports whether a call of the tool may go by rule 4: by its risk, and because it is old
// enough at until. latest is the latest time of all entries up to its decision.
func (t *Terms) Goes(tool string, latest, until contracts.Time) bool {
	return t.goes(tool) && latest+t.after <= until
}

// goes reports whether a call of the tool may go once it is old enough.
func (t *Terms) goes(tool string) bool {
	if t == nil || !t.lets {
		return false
	}
	risk, ok := t.risks[tool]
	return ok && risk < t.kept
}

// units are those of a duration, in milliseconds.
var units = map[byte]contracts.Time{'s': 1e3, 'm': 60e3, 'h': 3600e3, 'd': 86400e3}

const (
	leastAfter = contracts.Time(86400e3)
	mostAfter  = contracts.Time(1 << 48) // more than from 1970 to 9999: nothing is so old
)

// duration reads a duration of a policy in milliseconds. It refuses one above mostAfter, which lets
// nothing go either.
func duration(s string) (contracts.Time, bool) {
	if s == "" {
		return 0, false
	}
	unit := units[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 48)
	if err != nil || s[0] == '0' || unit == 0 || n > uint64(mostAfter/unit) {
		return 0, false
	}
	return contracts.Time(n) * unit, true
}
