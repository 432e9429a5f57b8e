package guardian

import (
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/program"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/threat"
	"github.com/helmkernel/helm/internal/jsonschema"
)

// scan returns the signals that are present in the strings and keys of a value.
func scan(v crypto.Value) (seen threat.Set) {
	switch v.Kind() {
	case crypto.String:
		return threat.Scan(v.Bytes())
	case crypto.Array, crypto.Object:
		object := v.Kind() == crypto.Object
		for it := v.Iter(); it.Next(); {
			if object {
				seen |= threat.Scan(it.Key())
			}
			seen |= scan(it.Value())
		}
	}
	return seen
}

// quiet judges condition 7: whether no gate of the tool denies a signal in the arguments.
func quiet(j *judging) bool {
	seen := scan(j.in.Args)
	if seen == 0 {
		return true
	}
	j.record.Signals = slices.Collect(seen.IDs())
	for i := range j.tool.Gates {
		g := &j.tool.Gates[i]
		if seen&g.Denies == 0 {
			continue
		}
		if at, denied := find(j.in.Args, nil, g); denied != 0 {
			id := ""
			for id = range denied.IDs() {
				break
			}
			why := Why{Pointer: shown(j.tool.Input, j.in.Args, at), What: "signal " + id}
			return j.deny(contracts.ReasonThreatSignalDetected, "", why)
		}
	}
	return true
}

// find returns the first place at which a gate denies signals, and these.
func find(v crypto.Value, at []string, g *program.Gate) ([]string, threat.Set) {
	if v.Kind() == crypto.String {
		return at, g.Denied(threat.Scan(v.Bytes()), at)
	}
	object := v.Kind() == crypto.Object
	i := 0
	for it := v.Iter(); it.Next(); i++ {
		var name string
		if object {
			name = string(it.Key())
		} else {
			name = strconv.Itoa(i)
		}
		below := append(at, name)
		if object {
			if denied := g.Denied(threat.Scan(it.Key()), below); denied != 0 {
				return below, denied
			}
		}
		if place, denied := find(it.Value(), below, g); denied != 0 {
			return place, denied
		}
	}
	return nil, 0
}

// shown returns the JSON Pointer of a place in the arguments. It has a star for each name that the
// schema lacks, since the caller chose it, and ends at a value of which the schema says no more.
func shown(schema *jsonschema.Schema, v crypto.Value, at []string) string {
	var b strings.Builder
	var known []string
	for i, name := range at {
		if value.Follow(v, at[:i]).Kind() == crypto.Array {
			known = append(known, value.Star)
			b.WriteString("/" + name)
			continue
		}
		known = append(known, name)
		if _, ok := schema.Lookup(known); !ok || name == value.Star {
			known[i], name = value.Star, value.Star
		}
		if _, ok := schema.Lookup(known); !ok {
			break
		}
		b.WriteString("/" + value.EscapeSegment(name))
	}
	return b.String()
}
