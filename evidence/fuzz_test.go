package evidence

import (
	"bytes"
	"slices"
	"testing"

	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/trust/registry"
)

// accepted holds a verification to the one property that matters: under a trust root nobody gets
// anything through but what was signed under it.
func accepted(t *testing.T, pack []byte, trust []*registry.State, good [][]byte) {
	t.Helper()
	for _, state := range trust {
		r, err := verifyBytes(t, pack, Options{Trust: state, Origin: forge.Origin})
		if (err == nil) != (r.Level > Invalid) || (err == nil) != (r.Fault == nil) {
			t.Errorf("%s, %v", r.Level, err)
		}
		if err == nil && !slices.ContainsFunc(good, func(b []byte) bool { return bytes.Equal(b, pack) }) {
			t.Errorf("%s: a pack that nobody signed", r.Level)
		}
	}
	if r, err := verifyBytes(t, pack, Options{}); err == nil && (r.Level < Intact || r.Success(Intact)) {
		t.Errorf("without a trust root: %+v", r)
	}
}

func fuzzPacks(f *testing.F) (good [][]byte, trust []*registry.State) {
	small, base, Fixture := forge.SmallLog(f, 0), forge.BaseLog(f), forge.FixtureLog(f)
	base.Checkpoint()
	return [][]byte{small.Pack(Write), base.Pack(Write), Fixture.Pack(Write)},
		[]*registry.State{small.Trust, base.Trust, Fixture.Trust}
}

// FuzzVerify is given whole packs. They take long to shrink: run it with -fuzzminimizetime=1x.
func FuzzVerify(f *testing.F) {
	good, trust := fuzzPacks(f)
	for _, b := range good {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{})
	f.Add(make([]byte, 2*forge.TarBlock))
	f.Fuzz(func(t *testing.T, pack []byte) { accepted(t, pack, trust, good) })
}

// FuzzMembers is given the contents of members, whose archive is right. As above,
// -fuzzminimizetime=1x.
func FuzzMembers(f *testing.F) {
	good, trust := fuzzPacks(f)
	for _, b := range good {
		ms := forge.Untar(f, b)
		for i := 3; i < min(len(ms), 9); i++ {
			f.Add(b, ms[0].Body, ms[1].Body, ms[2].Body, ms[i].Body, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, pack, manifest, checkpoint, entries, blob []byte, which uint8) {
		if !slices.ContainsFunc(good, func(b []byte) bool { return bytes.Equal(b, pack) }) {
			return
		}
		ms := forge.Untar(t, pack)
		ms[0].Body, ms[1].Body, ms[2].Body = manifest, checkpoint, entries
		ms[3+int(which)%(len(ms)-3)].Body = blob
		accepted(t, forge.TarOf(ms), trust, good)
	})
}
