package forge

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// A splice is a stretch [from, to) of another log in the place of the stretch at..end of this one,
// which may be empty.
type splice struct{ at, end, from, to int }

// splices are all that there are between two logs of that size.
func splices(size int) (list []splice) {
	for at := range size + 1 {
		for end := at; end <= size; end++ {
			for from := range size {
				for to := from + 1; to <= size; to++ {
					list = append(list, splice{at, end, from, to})
				}
			}
		}
	}
	return list
}

// TestForeignEntries puts entries of another log of the same origin and kernel key, whose genesis
// has another nonce, in the place of each stretch and between any two: one entry (X09) or more,
// those of the same places and others. First nothing else is changed, then what manifest and
// checkpoint say of the entries is made right and signed again.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := newProperty(t, "X09")
	whole := SmallLog(t, 1).Pack(evidence.Write)
	size := len(TakeApart(t, whole).Nodes)
	all := splices(size)
	if len(all) != 588 { // 28 stretches, empty ones too, by 21 that are not empty
		t.Fatalf("%d splices of %d entries", len(all), size)
	}
	signed := 0
	p.each(len(all), 200, func(i int) []byte {
		x := all[i]
		m, other := TakeApart(t, p.pack), TakeApart(t, whole)
		require.False(t, bytes.Equal(m.Nodes[i%size].Line, other.Nodes[i%size].Line), "the logs are one")
		m.Nodes = slices.Concat(m.Nodes[:x.at], other.Nodes[x.from:x.to], m.Nodes[x.end:])
		for _, n := range m.Nodes {
			n.frozen = true
		}
		ms := Untar(t, p.pack)
		ms[EntriesAt].Body = entriesOf(m)
		p.refuse(i, TarOf(ms))
		if x.from == 0 && len(m.Nodes) == x.to {
			// the beginning of the other log, and nothing of this one: with a manifest of its own
			// it is a valid pack
			return nil
		}
		signed++
		maps.Copy(m.Blobs, other.Blobs)
		maps.DeleteFunc(m.Blobs,
			func(name string, _ []byte) bool { return !bytes.Contains(entriesText(m), []byte(name)) })
		return m.Build()
	})
	p.atLeast(380)
	if signed < 190/Sample(3) || *Full && signed != 582 {
		t.Errorf("%d were signed", signed)
	}
}
