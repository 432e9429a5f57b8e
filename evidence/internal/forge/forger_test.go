package forge

import (
	"bytes"
	"strings"
	"testing"

	"github.com/helmkernel/helm/evidence"
)

// TestKnifeIsSharp: a pack that is taken apart and put together unchanged is the same, byte for byte. So what a row of the catalogue refuses is
// refused for the one thing that it changes, and this second writer of the formats agrees with the first.
func TestKnifeIsSharp(t *testing.T) {
	for name, p := range testPacks(t) {
		if strings.HasPrefix(name, "OK10") {
			continue // the knife made it: its checkpoint has lines of others
		}
		if got := TakeApart(t, p.pack).Build(); !bytes.Equal(got, p.pack) {
			t.Errorf("%s: not the same after it was taken apart and put together", name)
		}
	}
}

// TestKnifeFolds: the knife makes the states that the log was made with, so that what it changes is the only thing changed.
func TestKnifeFolds(t *testing.T) {
	made := BaseLog(t)
	made.Checkpoint()
	m := TakeApart(t, made.Pack(evidence.Write))
	if got := canonical(m.fold(nil)); !bytes.Equal(got, made.state.Canonical()) {
		t.Errorf("%s\nwant %s", got, made.state.Canonical())
	}
}
