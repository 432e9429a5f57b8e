package forge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// TestOracleEvents takes of a pack that the oracle makes the trust events and the one session that
// nothing else of it is needed for. Both implementations must find the same in it, and refuse it
// with the same check when the oracle spoils keys, events and states.
func TestOracleEvents(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	o := newOracle(t, "trust events which it makes (TestTamper has its own)")
	whole := filepath.Join(o.dir, "gen.tar")
	if said, status := o.run("gen", "-erased", whole); status != 0 {
		t.Fatal(said)
	}
	pack, err := os.ReadFile(whole)
	require.NoError(t, err)
	m := TakeApart(t, pack)
	m.origin, m.logBy = m.Nodes[0].Text("origin"), seedGL
	m.Nodes = slices.DeleteFunc(m.Nodes,
		func(n *Node) bool { return n.Text("session") != "" && n.Text("session") != "wasm" })
	m.relink()
	events := 0
	for _, n := range m.Nodes {
		if n.Kind() == "trust" {
			events++
		}
	}
	pack = m.Build()
	pin := fmt.Sprintf("%x", Public(t, seedG1))
	options := evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin}
	r, err := verifyBytes(t, pack, options)
	if err != nil || events != 7 || r.Allows < 2 || r.Denials < 1 {
		t.Fatalf("%d events, %+v, %v", events, r, err)
	}
	require.Equal(t, FindingOf(t, r), o.verify(pack, "-key", pin).Finding)
	require.True(t, r.Success(evidence.Logged))

	words := regexp.MustCompile("trust|threshold|freeze|frozen|root|key|delegat")
	at, step := 0, Sample(3)
	about := func(name string) bool {
		at++
		return at%step == 0 && words.MatchString(name) && !strings.HasPrefix(name, "condense")
	}
	otherwise := map[string]string{ // as the oracle finds too
		"signed-by-another-key-under-our-keyid": "KEY", // the first decision is by the second key
		"delegation-not-presented":              "-",   // the inputs are erased
	}
	refused, idle := 0, 0
	for x := range o.spoil(pack, about, seedG1, seedG2) {
		if x.pack == nil {
			idle++
			continue
		}
		_, err := verifyBytes(t, x.pack, options)
		var e *evidence.Error
		ours, want := "-", x.check
		if errors.As(err, &e) {
			ours = e.Check.Error()
			refused++
		}
		if other, ok := otherwise[x.name]; ok {
			want = "-"
			if theirs := o.verify(x.pack, "-key", pin); len(theirs.Errors) > 0 {
				want = theirs.Errors[0].Check
			}
			assert.Equal(t, want, other, "%s: the oracle says", x.name)
		}
		assert.Equal(t, want, ours, "%s: %v", x.name, err)
	}
	assert.GreaterOrEqual(t, refused, 75/step-5*(step-1), "mutations were refused")
	t.Logf("%d events; %d mutations refused, %d inapplicable", events, refused, idle)
}
