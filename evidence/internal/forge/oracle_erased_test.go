package forge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/internal/race"
)

// TestOracleErased has both implementations judge packs from which everything was erased that may
// be, and whatever the second one makes of them: without inputs some of what it spoils is no fault
// any more, or another. They must say the same. -full tries every mutation; without it one in
// twelve.
func TestOracleErased(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "erased packs, and their mutations (TestTamper and TestNotReplayable have their own)")
	t.Run("ours", func(t *testing.T) {
		made := BaseLog(t)
		made.Checkpoint()
		m := TakeApart(t, made.Pack(evidence.Write))
		erase(m)
		o.T = t
		o.erased(m.Build(), evidence.Options{Trust: made.Trust, Origin: Origin}, nil,
			[]string{"-trust", o.file("trust.json", made.Trust.Canonical())}, SeedK1, seedK2, SeedL)
	})
	// Without the message and the facts, which this version refuses by name. Its policies are
	// another engine's: what tools declare is not read here.
	t.Run("theirs", func(t *testing.T) {
		o.T = t
		whole := filepath.Join(o.dir, "gen.tar")
		if said, status := o.run("gen", "-erased", whole); status != 0 {
			t.Fatal(said)
		}
		pack, err := os.ReadFile(whole)
		require.NoError(t, err)
		m := TakeApart(t, pack)
		m.origin, m.logBy = m.Nodes[0].Text("origin"), seedGL
		for _, n := range m.Nodes {
			delete(n.P(), "factsHash")
		}
		m.remove(m.Nodes[slices.IndexFunc(m.Nodes, func(n *Node) bool { return n.Kind() == "message" })])
		unread := strings.Fields("effect-missing-though-declared effect-though-not-declared " +
			"effect-other-than-declared risk-other-than-declared")
		o.erased(m.Build(), evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin}, unread,
			[]string{"-key", fmt.Sprintf("%x", Public(t, seedG1))}, seedG1, seedG2)
	})
}

// erased takes the pack, the options of both, what only the second one finds, and the keys.
func (o *oracle) erased(pack []byte, options evidence.Options, unread, told []string, seeds ...byte) {
	o.Helper()
	told = append(told, "-origin", options.Origin)
	r, err := verifyBytes(o.T, pack, options)
	require.NoError(o, err)
	require.Equal(o, FindingOf(o, r), o.verify(pack, told...).Finding)
	require.True(o, r.Success(evidence.Logged) && len(r.Erased) >= 15)
	i, tried, refused, passed, later := 0, 0, 0, 0, 0
	about := func(string) bool { i++; return *Full || i%(12*Sample(3)) == 0 }
	for x := range o.spoil(pack, about, seeds...) {
		if x.pack == nil {
			continue
		}
		tried++
		_, err := verifyBytes(o.T, x.pack, options)
		if err != nil && strings.HasSuffix(err.Error(), entry.Unsupported) { // gaps and condense entries
			later++
			continue
		}
		ours, theirs := "-", "-"
		var e *evidence.Error
		if errors.As(err, &e) {
			ours = e.Check.Error()
			refused++
		} else {
			passed++
		}
		if f := o.verify(x.pack, told...); len(f.Errors) > 0 {
			theirs = f.Errors[0].Check
		}
		if agree := ours == theirs; agree == slices.Contains(unread, x.name) {
			o.Errorf("%s, of %s: ours %v, theirs %s", x.name, x.check, err, theirs)
		}
	}
	o.Logf("%d mutations: %d refused, %d no fault, %d refused by name", tried, refused, passed, later)
	if refused < 20/Sample(3) || *Full && refused < 300 {
		o.Error("too few were refused")
	}
}
