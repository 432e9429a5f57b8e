//go:build unix

package kept

import (
	"bytes"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
)

// TestMeanwhile: another auditor moves the file while a pack is verified. Their checkpoint then
// counts for it, be it later, earlier or diverged.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	_, b, c, same, fork := histories(t)
	for name, x := range map[string]struct {
		p, other pack
		want     evidence.History
		holds    pack
	}{
		"the same":          {b, b, evidence.Fresh, b},
		"less":              {c, b, evidence.Fresh, c},
		"more":              {b, c, evidence.Stale, c},
		"a fork":            {c, fork, evidence.Stale, fork},
		"a fork, same size": {b, same, evidence.Diverged, same},
		"a smaller fork":    {c, same, evidence.Diverged, same},
	} {
		t.Run(name, func(t *testing.T) {
			f := beforeFork(t)
			n := 0
			r, err := f.verify(t.Context(), x.p.o, func(o evidence.Options) (evidence.Report, error) {
				r, err := evidence.Verify(t.Context(), bytes.NewReader(x.p.bytes), int64(len(x.p.bytes)), o)
				if n++; n == 1 {
					r, err := x.other.verify(t.Context(), f)
					require.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
				}
				return r, err
			})
			assert.True(t, err == nil && r.History == x.want && n == 2, "%s, %v after %d verifications; want %s",
				r.History, err, n, x.want)
			f.mustHold(t, x.holds, 0o600)
		})
	}
}

// TestReplaced: another auditor moves the file between its opening and its lock. That lock is of a
// file that is no longer there, whose note is the one that was read.
func TestReplaced(t *testing.T) {
	t.Parallel()
	a, b, c, _, _ := histories(t)
	f := begun(t, a)
	n := 0
	f.step = func(name string, _ *os.File) error {
		if n++; n == 1 && name == "lock" {
			r, err := c.verify(t.Context(), file{path: f.path})
			require.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
		}
		return nil
	}
	r, err := b.verify(t.Context(), f)
	assert.True(t, err == nil && r.History == evidence.Stale && n >= 2, "%v, %v", r, err)
	f.mustHold(t, c, 0o600)
}

// TestEndless: of a file without end no more is read than a note may have.
func TestEndless(t *testing.T) {
	a, _, _, _, _ := histories(t)
	f := begun(t, a)
	if err := os.Truncate(f.path, 256<<20); err != nil {
		t.Skip("no file with holes can be made here, so none is read:", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := a.verify(t.Context(), f)
	assert.True(t, err != nil && r.Level == evidence.Invalid, "%v, %v", r, err)
	moved, err := f.advance(t.Context(), a.note, a.note, nil)
	assert.True(t, !moved && err == nil, "moved %v, %v", moved, err)
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 32<<20 {
		t.Errorf("took %d bytes", after.TotalAlloc-before.TotalAlloc)
	}
}

// beforeFork is a file of what both histories have in common: nothing but genesis and policy.
func beforeFork(t *testing.T) file {
	t.Helper()
	return begun(t, packs(t, origin, "none", 0)[0])
}
