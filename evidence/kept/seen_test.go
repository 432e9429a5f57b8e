//go:build unix

package kept

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// hash is the hash of a condense entry.
func hash(n byte) crypto.Digest { return crypto.Sum([]byte{n}) }

// condensed verifies a pack, whose log is said to have these condense entries. seen are the hashes
// that the verification was passed.
func condensed(t testing.TB, f file, p pack, list ...evidence.Range) (seen []crypto.Digest, r evidence.Report, err error) {
	t.Helper()
	r, err = f.verify(t.Context(), p.o, func(o evidence.Options) (evidence.Report, error) {
		seen = o.Seen
		r, err := p.verified(t.Context(), o)
		r.Condensed = list
		return r, err
	})
	return seen, r, err
}

// holds wants these hashes in the file of condense entries, in this order.
func (f file) holds(t testing.TB, list ...crypto.Digest) {
	t.Helper()
	var want strings.Builder
	for _, d := range list {
		fmt.Fprintln(&want, d)
	}
	b, err := os.ReadFile(f.path + ".seen")
	if len(list) == 0 && errors.Is(err, os.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	assert.Equal(t, want.String(), string(b))
}

// TestSeen: of a success the condense entries are kept whose sets stand whole, and passed on from
// then on.
func TestSeen(t *testing.T) {
	t.Parallel()
	a, b, c, same, _ := histories(t)
	f := begun(t, a)
	f.holds(t)
	seen, _, err := condensed(t, f, b, evidence.Range{Hash: hash(1)}, evidence.Range{Hash: hash(2), Stubs: 1})
	require.True(t, err == nil && len(seen) == 0, "%v %v", seen, err)
	f.holds(t, hash(1))
	info, err := os.Stat(f.path + ".seen")
	assert.True(t, err == nil && info.Mode() == 0o600, "%v %v", info, err)

	// of another history nothing is kept
	_, r, err := condensed(t, f, same, evidence.Range{Hash: hash(3)})
	require.True(t, err == nil && r.History == evidence.Diverged, "%v %v", r, err)
	f.holds(t, hash(1))

	// of the same size it is, once, after what was there; what the caller knows is passed on
	b.o.Seen = []crypto.Digest{hash(9)}
	seen, _, err = condensed(t, f, b, evidence.Range{Hash: hash(1)}, evidence.Range{Hash: hash(4)})
	require.NoError(t, err)
	assert.Equal(t, []crypto.Digest{hash(9), hash(1)}, seen)
	f.holds(t, hash(1), hash(4))
	seen, _, err = condensed(t, f, c, evidence.Range{Hash: hash(1), Stubs: 7})
	require.NoError(t, err)
	assert.Equal(t, []crypto.Digest{hash(1), hash(4)}, seen)
	f.holds(t, hash(1), hash(4))
}

// TestSeenFromTheBeginning: Begin keeps them too.
func TestSeenFromTheBeginning(t *testing.T) {
	t.Parallel()
	a, _, _, _, _ := histories(t)
	f := file{path: t.TempDir() + "/log.checkpoint"}
	r := verified(t, a)
	r.Condensed = []evidence.Range{{Hash: hash(1), Stubs: 2}, {Hash: hash(2)}}
	require.NoError(t, Begin(f.path, r))
	f.holds(t, hash(2))
	r.Condensed[0].Stubs = 0
	require.Error(t, Begin(f.path, r))
	f.holds(t, hash(2))
}

// TestSeenMalformed: a file that holds anything else is an error, and nothing is verified.
func TestSeenMalformed(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	line := hash(1).String()
	for name, text := range map[string]string{
		"no line end": line, "an empty line": line + "\n\n", "cut": line + "\n" + line[:63] + "\n",
		"capitals": strings.ToUpper(line) + "\n", "CR": line + "\r\n", "a space": line + " \n", "zeros": string(make([]byte, 65)),
		"too many": strings.Repeat(line+"\n", maxSeen) + line + "\n",
	} {
		f := begun(t, a)
		require.NoError(t, os.WriteFile(f.path+".seen", []byte(text), 0o600))
		was := f.print(t)
		_, r, err := condensed(t, f, b, evidence.Range{Hash: hash(2)})
		assert.True(t, err != nil && strings.Contains(err.Error(), f.path+".seen: ") && r.Level == evidence.Invalid,
			"%s: %v %v", name, r, err)
		assert.Equal(t, was, f.print(t), "%s", name)
	}
	f := begun(t, a)
	require.NoError(t, os.Symlink(f.path, f.path+".seen"))
	_, _, err := condensed(t, f, b)
	assert.ErrorContains(t, err, "a symbolic link")
}

// TestSeenFailingSteps: whichever step fails, the checkpoint does not move before the hashes are
// kept, and no success is reported.
func TestSeenFailingSteps(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	failed := 0
	for n := 0; ; n++ {
		f := begun(t, a)
		was, at := f.print(t), 0
		f.step = func(string, *os.File) error {
			if at++; at == n+1 {
				return errDisk
			}
			return nil
		}
		_, r, err := condensed(t, f, b, evidence.Range{Hash: hash(1)})
		if at <= n {
			require.NoError(t, err)
			break
		}
		failed++
		assert.True(t, errors.Is(err, errDisk) && r.Level == evidence.Invalid, "step %d: %v %v", n, r, err)
		if _, err := os.Stat(f.path + ".seen"); err != nil {
			assert.Equal(t, was, f.print(t), "step %d: the checkpoint has moved, and there are no hashes", n)
		} else {
			f.holds(t, hash(1))
		}
		f.step = nil
		_, _, err = condensed(t, f, b, evidence.Range{Hash: hash(1)})
		require.NoError(t, err)
		f.holds(t, hash(1))
	}
	assert.True(t, failed >= 12, "only %d steps", failed)
}

// TestBeginFailingSteps: whichever step of Begin fails, there is no checkpoint before the hashes
// are kept, and Begin can be called again until there is one.
func TestBeginFailingSteps(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	r := verified(t, a)
	r.Condensed = []evidence.Range{{Hash: hash(1)}}
	failed, placed := 0, 0
	for n := 0; ; n++ {
		f := file{path: filepath.Join(t.TempDir(), "log.checkpoint")}
		at := 0
		f.step = func(string, *os.File) error {
			if at++; at == n+1 {
				return errDisk
			}
			return nil
		}
		err := f.begin(r)
		if at <= n {
			require.NoError(t, err)
			break
		}
		failed++
		require.ErrorIs(t, err, errDisk, "step %d", n)
		f.step = nil
		if _, err := os.Lstat(f.path); err == nil {
			placed++
			f.holds(t, hash(1))
			require.ErrorIs(t, f.begin(r), fs.ErrExist, "step %d", n)
		} else {
			require.NoError(t, f.begin(r), "step %d", n)
		}
		f.holds(t, hash(1))
		_, _, err = condensed(t, f, b, evidence.Range{Hash: hash(2)})
		require.NoError(t, err)
		f.holds(t, hash(1), hash(2))
	}
	assert.True(t, failed >= 12 && placed == 1, "%d steps, %d with a checkpoint", failed, placed)
}

// TestSeenTooMany: a log with more condense entries than the file can hold is an error, and nothing
// is written that could not be read again.
func TestSeenTooMany(t *testing.T) {
	t.Parallel()
	a, b, _, _, _ := histories(t)
	var many []evidence.Range
	for n := range maxSeen {
		many = append(many, evidence.Range{Hash: crypto.Sum(binary.BigEndian.AppendUint32(nil, uint32(n)))})
	}
	r := verified(t, a)
	r.Condensed = append(many, evidence.Range{Hash: hash(1)})
	f := file{path: filepath.Join(t.TempDir(), "log.checkpoint")}
	require.ErrorIs(t, f.begin(r), errMany)
	f.mustBeAlone(t, 0)

	r.Condensed = many
	require.NoError(t, f.begin(r))
	was, list := f.print(t), f.seen().print(t)
	_, _, err := condensed(t, f, b, append(many, evidence.Range{Hash: hash(1)})...)
	require.ErrorIs(t, err, errMany)
	assert.Equal(t, was, f.print(t))
	assert.Equal(t, list, f.seen().print(t))
	seen, _, err := condensed(t, f, b, many...)
	require.NoError(t, err)
	assert.Len(t, seen, maxSeen)
}

func (p pack) verified(ctx context.Context, o evidence.Options) (evidence.Report, error) {
	return evidence.Verify(ctx, bytes.NewReader(p.bytes), int64(len(p.bytes)), o)
}
