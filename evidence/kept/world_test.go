//go:build unix

package kept

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// A pack with its checkpoint, and what an auditor knows.
type pack struct {
	bytes, note []byte
	o           evidence.Options
	store       proofgraph.Store // that it is of, as it is now
}

func key(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	require.NoError(t, err)
	return k
}

// packs are those of one log as it grows: after each, it has n more entries. Two logs that differ
// in what is asked alone have one beginning: genesis and policy.
func packs(t testing.TB, origin, asked string, n ...int) []pack {
	t.Helper()
	policy, err := guardian.Compile(contracts.Document{Name: "clock.json", Canonical: []byte(
		`{"bundle":{"name":"clock","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"clock.read",` +
			`"id":"all"}],` +
			`"tools":{"clock.read":{"effect":"read","input":{"type":"object"}}}}`)})
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	now := time.UnixMilli(1790000000000)
	k, err := helm.New(helm.Options{Policy: policy, Key: key(t, 1), Store: store, Origin: origin,
		Rand: bytes.NewReader(make([]byte, 1<<10)),
		Now:  func() time.Time { return now }})
	require.NoError(t, err)
	var out []pack
	for _, n := range n {
		for range n {
			k.Guard(t.Context(), helm.Intent{Tool: asked, Args: json.RawMessage(`{}`)})
		}
		c, err := k.Checkpoint(t.Context())
		require.NoError(t, err)
		var b bytes.Buffer
		require.NoError(t, evidence.Write(t.Context(), &b, store, key(t, 1)))
		out = append(out, pack{b.Bytes(), c.Note, evidence.Options{Trust: k.Trust(), Origin: origin}, store})
	}
	return out
}

const origin = "example.test/log"

// histories returns a log at three sizes, and another history of it at two: the second of these
// sizes, and one larger than all.
func histories(t testing.TB) (a, b, c, same, fork pack) {
	t.Helper()
	p := packs(t, origin, "no.tool", 2, 3, 4)
	q := packs(t, origin, "no.other", 5, 100)
	if r := verified(t, p[1]); r.Size != verified(t, q[0]).Size {
		t.Fatal("the fork has another size")
	}
	return p[0], p[1], p[2], q[0], q[1]
}

func (p pack) verify(ctx context.Context, f file) (evidence.Report, error) {
	return f.verify(ctx, p.o, func(o evidence.Options) (evidence.Report, error) {
		return evidence.Verify(ctx, bytes.NewReader(p.bytes), int64(len(p.bytes)), o)
	})
}

// verified is a report without history, which is a success.
func verified(t testing.TB, p pack) evidence.Report {
	t.Helper()
	r, err := evidence.Verify(t.Context(), bytes.NewReader(p.bytes), int64(len(p.bytes)), p.o)
	require.True(t, err == nil && r.Success(evidence.Logged) && bytes.Equal(r.Checkpoint, p.note), "%v, %v", r, err)
	return r
}

// begun is a new file of a pack, in a directory of its own.
func begun(t testing.TB, p pack) file {
	t.Helper()
	f := file{path: filepath.Join(t.TempDir(), "log.checkpoint")}
	require.NoError(t, Begin(f.path, verified(t, p)))
	f.mustHold(t, p, 0o600)
	return f
}

// mustHold wants the note of a pack in the file, whole, with that mode, and nothing else in the
// directory.
func (f file) mustHold(t testing.TB, p pack, mode fs.FileMode) {
	t.Helper()
	b, err := os.ReadFile(f.path)
	assert.True(t, err == nil && bytes.Equal(b, p.note), "%q, %v; want %q", b, err, p.note)
	info, err := os.Lstat(f.path)
	if err != nil || info.Mode() != mode {
		t.Errorf("mode %v, %v; want %v", info.Mode(), err, mode)
	}
	f.mustBeAlone(t, 1)
}

func (f file) mustBeAlone(t testing.TB, n int) {
	t.Helper()
	l, err := os.ReadDir(filepath.Dir(f.path))
	assert.True(t, err == nil && len(l) == n, "%v, %v in the directory; want %d", l, err, n)
}

// print is a file to the byte, with what an exchange would change.
func (f file) print(t testing.TB) string {
	t.Helper()
	info, err := os.Lstat(f.path)
	if err != nil {
		return err.Error()
	}
	s := fmt.Sprint(info.Mode(), info.ModTime(), info.Sys().(*syscall.Stat_t).Ino)
	if info.Mode().IsRegular() {
		b, err := os.ReadFile(f.path)
		s += fmt.Sprint(" ", crypto.Sum(b), err)
	}
	return s
}
