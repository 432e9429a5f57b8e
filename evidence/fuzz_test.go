package evidence

import (
	"bytes"
	"slices"
	"testing"
)

// accepted holds a verification to the one property that matters: under a trust root nobody gets anything through but what was signed under it.
func accepted(t *testing.T, pack []byte, o Options, good [][]byte) {
	t.Helper()
	r, err := verifyBytes(t, pack, o)
	if (err == nil) != (r.Level > Invalid) || (err == nil) != (r.Fault == nil) {
		t.Errorf("%s, %v", r.Level, err)
	}
	if err == nil && !slices.ContainsFunc(good, func(b []byte) bool { return bytes.Equal(b, pack) }) {
		t.Errorf("%s: a pack that nobody signed", r.Level)
	}
	if r, err := verifyBytes(t, pack, Options{}); err == nil && (r.Level < Intact || r.Success(Intact)) {
		t.Errorf("without a trust root: %+v", r)
	}
}

func fuzzPacks(f *testing.F) (good [][]byte, o Options) {
	small, base := smallLog(f, 0), baseLog(f)
	base.checkpoint()
	return [][]byte{small.pack(), base.pack()}, Options{Trust: small.trust, Origin: testOrigin}
}

// FuzzVerify is given whole packs. They take long to shrink: run it with -fuzzminimizetime=1x.
func FuzzVerify(f *testing.F) {
	good, o := fuzzPacks(f)
	for _, b := range good {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Add([]byte{})
	f.Add(make([]byte, 2*block))
	f.Fuzz(func(t *testing.T, pack []byte) { accepted(t, pack, o, good) })
}

// FuzzMembers is given the contents of members, whose archive is right. As above, -fuzzminimizetime=1x.
func FuzzMembers(f *testing.F) {
	good, o := fuzzPacks(f)
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
		accepted(t, tarOf(ms), o, good)
	})
}
