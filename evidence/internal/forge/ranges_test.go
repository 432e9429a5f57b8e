package forge

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// ranges is a log of three condense entries: over all that there was; over what came then; and once
// more over all of it, when the session that was open at the first was closed.
func ranges(t testing.TB) *Maker {
	m := NewMaker(t)
	m.Use(CondenseFloor, BasePolicy(3))
	list := func(session string) {
		m.Allowed(Ask{Session: session, Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	}
	read := func(session string) {
		m.Allowed(Ask{Session: session, Tool: "fs.read", Args: `{"path":"/srv/a"}`, Who: Reader}).Ran(`{"text":"a"}`)
	}
	denied := func(session string) {
		m.Denied(contracts.ReasonToolNotFound, Ask{Session: session, Tool: "x", Args: `{}`, Who: Reader})
	}
	condense := func(from int) {
		m.Now += 2 * day
		n, err := m.Store.Size(t.Context())
		require.NoError(t, err)
		m.Condense(from, int(n), int(n), m.Now)
	}
	for i := range 3 {
		for _, s := range []string{"main", "open", fmt.Sprint("s", i)} {
			list(s)
			read(s)
			denied(s)
		}
		m.Close(fmt.Sprint("s", i))
	}
	condense(0)
	for i := range 3 {
		list("main")
		read(fmt.Sprint("t", i))
		m.Close(fmt.Sprint("t", i))
		list("open")
	}
	denied("main")
	condense(len(m.Model().Nodes) - 14)
	m.Close("open")
	condense(1)
	list("main")
	return m
}

// TestRanges: three ranges in one log, one of them whole, one half stubs, one over an earlier one
// with what had been of an open session.
func TestRanges(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	ranRow(t, "OK12")
	made := ranges(t)
	last := made.Checkpoint()
	whole := made.Model()
	whole.cosigned, whole.cosignedAt = true, uint64(made.Now/1000)+60
	whole.Build()
	var c []*Node
	for _, n := range whole.Nodes {
		if n.Kind() == "condense" {
			c = append(c, n)
		}
	}
	require.Len(t, c, 3)
	o := evidence.Options{Trust: made.Trust, Origin: Origin, Last: last, Witnesses: WitnessKeys(t), Quorum: 2}
	r := rand.New(rand.NewPCG(7, 8))
	for _, which := range [][3]string{{"whole", "half", "stubs"}, {"half", "stubs", "whole"}, {"stubs", "whole", "half"},
		{"whole", "whole", "whole"}, {"stubs", "stubs", "stubs"}} {
		m := whole
		for _, n := range m.Nodes {
			m.whole(n)
		}
		var want []evidence.Range
		for i, n := range c {
			x := evidence.Range{From: uint64(intOf(n.P()["from"])), To: uint64(intOf(n.P()["to"])),
				Index: uint64(m.index(n)), Dropped: uint64(len(n.members)), Hash: bytesOf(n.hash)}
			for _, y := range n.members {
				if which[i] == "stubs" || which[i] == "half" && r.IntN(2) == 0 {
					y.gone = true
					x.Stubs++
				}
			}
			require.True(t, x.Dropped >= 6, "%d may go by the range %d", x.Dropped, i)
			want = append(want, x)
		}
		m.forget()
		pack := m.Build()
		got, err := verifyBytes(t, pack, o)
		require.True(t, err == nil && got.Success(0) && got.Level == evidence.Witnessed && got.History == evidence.Fresh &&
			got.Replay.Differing+got.Replay.NotReplayable == 0, "%s: %+v, %v", which, got, err)
		assert.Equal(t, want, got.Condensed, "%s", which)
		assert.Empty(t, got.Strange)
	}
}
