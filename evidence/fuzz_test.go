package evidence

import (
	"bytes"
	"slices"
	"testing"

	"github.com/helmkernel/helm/trust/registry"
)

// accepted holds a verification to the one property that matters: under a trust root nobody gets anything through but what was signed under it.
func accepted(t *testing.T, pack []byte, trust []*registry.State, good [][]byte) {
	t.Helper()
	for _, state := range trust {
		r, err := verifyBytes(t, pack, Options{Trust: state, Origin: testOrigin})
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
	small, base, desk := smallLog(f, 0), baseLog(f), deskLog(f)
	base.checkpoint()
	return [][]byte{small.pack(), base.pack(), desk.pack()}, []*registry.State{small.trust, base.trust, desk.trust}
}

// FuzzVerify is given whole packs. They take long to shrink: run it with -fuzzminimizetime=1x.
func FuzzVerify(f *testing.F) {
	good, trust := fuzzPacks(f)
	for _, b := range good {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{})
	f.Add(make([]byte, 2*block))
	f.Fuzz(func(t *testing.T, pack []byte) { accepted(t, pack, trust, good) })
}

// FuzzMembers is given the contents of members, whose archive is right. As above, -fuzzminimizetime=1x.
func FuzzMembers(f *testing.F) {
	good, trust := fuzzPacks(f)
	for _, b := range good {
		ms := untar(f, b)
		for i := 3; i < min(len(ms), 9); i++ {
			f.Add(b, ms[0].body, ms[1].body, ms[2].body, ms[i].body, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, pack, manifest, checkpoint, entries, blob []byte, which uint8) {
		if !slices.ContainsFunc(good, func(b []byte) bool { return bytes.Equal(b, pack) }) {
			return
		}
		ms := untar(t, pack)
		ms[0].body, ms[1].body, ms[2].body = manifest, checkpoint, entries
		ms[3+int(which)%(len(ms)-3)].body = blob
		accepted(t, tarOf(ms), trust, good)
	})
}
