package forge

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph"
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

// droppedLog is condensedLog, whose store has let go of the set.
func droppedLog(m *Maker) *Maker {
	m.Helper()
	condensedLog(m)
	m.Checkpoint()
	log := m.Model()
	log.Build()
	log.letGo(log.sets()...)
	log.Build()
	log.dropIn(m.Store)
	return m
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

// dropIn has a store let go of what is gone in a model, and of the blobs.
func (m *Model) dropIn(s proofgraph.Store) {
	m.Helper()
	var stubs iter.Seq2[uint64, []byte] = func(yield func(uint64, []byte) bool) {
		for i, n := range m.Nodes {
			if n.gone && !yield(uint64(i), n.stub) {
				return
			}
		}
	}
	var names []contracts.Digest
	for _, name := range slices.Sorted(maps.Keys(m.docs)) {
		if m.Blobs[name] == nil {
			names = append(names, bytesOf(name))
		}
	}
	require.NotEmpty(m, names)
	require.NoError(m, s.(proofgraph.Condenser).Condense(m.Context(), stubs, slices.Values(names)))
}
