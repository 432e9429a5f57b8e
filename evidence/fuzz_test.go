package evidence

import (
	"bytes"
	"slices"
	"testing"

	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/trust/registry"
)

// accepted holds a verification to the one property that matters: under a trust root
// nothing passes that was not signed under it.
func accepted(t *testing.T, pack []byte, trust []*registry.State, good [][]byte) {
	t.Helper()
	for _, state := range trust {
		r, err := verifyBytes(t, pack, Options{Trust: state, Origin: forge.Origin})
		if (err == nil) != (r.Level > Invalid) || (err == nil) != (r.Fault == nil) {
			t.Errorf("%s, %v", r.Level, err)
		}
		if err == nil && !slices.ContainsFunc(good, func(b []byte) bool { return bytes.Equal(b, pack) }) {
			t.Errorf("%s: a pack that was not signed", r.Level)
		}
	}
	if r, err := verifyBytes(t, pack, Options{}); err == nil && (r.Level < Intact || r.Success(Intact)) {
		t.Errorf("without a trust root: %+v", r)
	}
}

func fuzzPacks(f *testing.F) (good [][]byte, trust []*registry.State) {
	small, base, fixture := forge.SmallLog(f, 0), forge.BaseLog(f), forge.FixtureLog(f)
	base.Checkpoint()
	return [][]byte{small.Pack(Write), base.Pack(Write), fixture.Pack(Write)},
		[]*registry.State{small.Trust, base.Trust, fixture.Trust}
}

// FuzzVerify takes whole packs. They take long to shrink: run it with -fuzzminimizetime=1x.
func FuzzVerify(f *testing.F) {
	good, trust := fuzzPacks(f)
	for _, b := range good {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, pack []byte) { accepted(t, pack, trust, good) })
}

// FuzzMembers takes the contents of members of a valid pack; the archive is right. As above,
// -fuzzminimizetime=1x.
func FuzzMembers(f *testing.F) {
	good, trust := fuzzPacks(f)
	for of, b := range good {
		ms := forge.Untar(f, b)
		for i := 3; i < min(len(ms), 9); i++ {
			f.Add(uint8(of), ms[0].Body, ms[1].Body, ms[2].Body, ms[i].Body, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, of uint8, manifest, checkpoint, entries, blob []byte, which uint8) {
		ms := forge.Untar(t, good[int(of)%len(good)])
		ms[0].Body, ms[1].Body, ms[2].Body = manifest, checkpoint, entries
		ms[3+int(which)%(len(ms)-3)].Body = blob
		accepted(t, forge.TarOf(ms), trust, good)
	})
}
