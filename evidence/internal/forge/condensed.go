package forge

import (
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
)

// CondenseFloor is a floor under which calls of low and medium risk may go after a day, and by
// which calls of fs.read are charged.
const CondenseFloor = `{"budgets":[{"cost":1,"id":"reads","limit":20,"per":"caller","tools":["fs.read"],` +
	`"window":"day"}],"condense":{"after":"24h","kept":"high"},"helm":"policy/v1","layer":"P0","name":"years",` +
	`"version":1}`

// condensedNames are the entries of CondensedLog: those of the base log, and a condense entry.
var condensedNames = strings.Fields(strings.Replace(strings.Join(baseNames, " "), " p2 ", " p2 c ", 1))

// condensedSet are the entries of its set.
var condensedSet = strings.Fields("b1 f1 f2 b2 n1 n2 m2 m1")

const day = contracts.Time(24 * 3600 * 1000)

// CondensedLog is the base log with CondenseFloor in its policies, and with a condense entry two
// days after the entries before it.
func CondensedLog(t testing.TB) *Maker {
	t.Helper()
	return condensedLog(NewMaker(t))
}

func condensedLog(m *Maker) *Maker {
	m.Helper()
	return baseLogOf(m, []string{CondenseFloor}, func() {
		m.Now += 2 * day
		m.Condense(slices.Index(condensedNames, "a1"), slices.Index(condensedNames, "k")+1, 25, m.Now)
	}, condensedNames)
}

// Condensed is the pack of CondensedLog, in pieces. Its witnesses come after it.
func Condensed(t testing.TB) *Model {
	t.Helper()
	made := CondensedLog(t)
	made.Checkpoint()
	m := made.Model()
	m.names, m.cosigned = condensedNames, true
	m.cosignedAt = uint64(made.Now/1000) + 60
	return m
}
