package evidence_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// TestPacksAsBefore writes packs from stores that an earlier version of this package packed. The
// bytes must be those in testdata/before, and packs and stores must verify with the same report.
// archive/tar takes the packs apart, so that no code of this package makes both sides.
func TestPacksAsBefore(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]byte{"budgets": 1, "erased": 1, "past": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := unzipped(t, name+".pack.gz")
			store, trust := unpacked(t, want)
			key, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
			require.NoError(t, err)

			var got bytes.Buffer
			require.NoError(t, evidence.Write(t.Context(), &got, store, key))
			require.True(t, bytes.Equal(want, got.Bytes()), "other bytes, the first at %d of %d and %d",
				differs(want, got.Bytes()), len(want), got.Len())

			o := evidence.Options{Trust: trust, Origin: "example.test/log"}
			report, err := os.ReadFile(filepath.Join("testdata", "before", name+".json"))
			require.NoError(t, err)
			r, err := evidence.VerifyStore(t.Context(), store, o)
			require.NoError(t, err)
			text, err := r.MarshalJSON()
			require.NoError(t, err)
			// What reports did not have.
			now := strings.Replace(string(text), `"unseen":0,`, "", 1)
			now = regexp.MustCompile(`"rerun":{[^}]*},|"reported":0,|"(witnesses|condensed|strange)":\[\],`).ReplaceAllString(now, "")
			require.Equal(t, string(report), now+"\n")
			r.Behind = 0
			ofPack, err := evidence.Verify(t.Context(), bytes.NewReader(want), int64(len(want)), o)
			require.NoError(t, err)
			require.Equal(t, r, ofPack)
		})
	}
}

// TestSandboxWithoutGrants: the form that sandboxes had before there were grants is refused, by
// those who verify and by those who write. No release wrote it.
func TestSandboxWithoutGrants(t *testing.T) {
	t.Parallel()
	pack := unzipped(t, "base.pack.gz")
	store, trust := unpacked(t, pack)
	o := evidence.Options{Trust: trust, Origin: "example.test/log"}
	_, err := evidence.Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
	const want = "RECORD: entry 33: predicate.sandbox.grants: "
	require.ErrorContains(t, err, want)
	_, err = evidence.VerifyStore(t.Context(), store, o)
	require.ErrorContains(t, err, want)
	err = evidence.Write(t.Context(), io.Discard, store, forge.Key(t, forge.SeedK1))
	require.ErrorContains(t, err, "entry 33: contracts: RECORD: predicate.sandbox.grants: ")
}

// TestKernelGoesOnAsBefore opens kernels over the logs that engine 1 made. Each takes a call, and
// the whole verifies: the new verdict is made again, and those of before count as another engine's.
func TestKernelGoesOnAsBefore(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]byte{"budgets": 1, "erased": 1, "past": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, trust := unpacked(t, unzipped(t, name+".pack.gz"))
			o := evidence.Options{Trust: trust, Origin: forge.Origin}
			before, err := evidence.VerifyStore(t.Context(), store, o)
			require.NoError(t, err)
			require.Equal(t, []contracts.Engine{{Rules: 1}}, before.Replay.Engines)
			require.Zero(t, before.Replay.Replayed)

			var begun struct {
				Threshold int
				Keys      []registry.Key
			}
			require.NoError(t, json.Unmarshal(trust.Canonical(), &begun))
			keys, err := registry.New(begun.Threshold, begun.Keys...)
			require.NoError(t, err)
			logKey := forge.Key(t, forge.SeedL)
			if _, ok := trust.Key(crypto.KeyID(forge.Public(t, forge.SeedL)), registry.Log, 0); !ok {
				logKey = crypto.DeriveLogKey(forge.Key(t, seed))
			}
			policy, err := guardian.Compile(contracts.Document{Canonical: []byte(forge.FilesPolicy(99))})
			require.NoError(t, err)
			list := func(context.Context, json.RawMessage) (json.RawMessage, error) {
				return json.RawMessage(`[]`), nil
			}
			k, err := helm.New(helm.Options{Store: store, Origin: forge.Origin, Trust: keys, Policy: policy,
				Key: forge.Key(t, seed), LogKey: logKey,
				Drivers: map[string]executor.Driver{"fs.list": helm.Func(list)},
				Now:     func() time.Time { return forge.Start.Time().Add(time.Hour) }})
			require.NoError(t, err)
			d, _ := k.Guard(t.Context(), helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Session: "new",
				Caller: forge.Reader})
			require.NoError(t, d.Err())
			_, err = k.Checkpoint(t.Context())
			require.NoError(t, err)
			require.NoError(t, k.Close())

			var pack bytes.Buffer
			require.NoError(t, evidence.Write(t.Context(), &pack, store, forge.Key(t, seed)))
			o.Last = before.Checkpoint
			r, err := evidence.Verify(t.Context(), bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
			require.NoError(t, err)
			require.True(t, r.Success(evidence.Logged), r)
			want := before.Replay
			want.Replayed = 1
			require.Equal(t, want, r.Replay)
			require.Equal(t, evidence.Fresh, r.History)
			require.Empty(t, r.Open) // the kernel says of calls that were open that their outcome is unknown
		})
	}
}

// unzipped is a file of testdata/before.
func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "before", name))
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	b, err := io.ReadAll(z)
	require.NoError(t, err)
	return b
}

// unpacked is the store that a pack was written from, and the trust state that its log began with:
// the first of its blobs that is one.
func unpacked(t *testing.T, pack []byte) (store *proofgraph.Memory, trust *registry.State) {
	t.Helper()
	batch := proofgraph.Batch{}
	archive := tar.NewReader(bytes.NewReader(pack))
	for {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		b, err := io.ReadAll(archive)
		require.NoError(t, err)
		switch h.Name {
		case "manifest.json":
		case "checkpoint":
			batch.Checkpoint = b
		case "entries.jsonl":
			for line := range bytes.Lines(b) {
				batch.Entries = append(batch.Entries, bytes.TrimSuffix(line, []byte("\n")))
			}
		default:
			batch.Blobs = append(batch.Blobs, b)
			if state, err := registry.ParseState(b); err == nil && trust == nil {
				trust = state
			}
		}
	}
	store = proofgraph.NewMemory()
	require.NoError(t, store.Append(t.Context(), batch))
	require.NotNil(t, trust)
	return store, trust
}

// differs is the first byte in which two files differ.
func differs(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}
