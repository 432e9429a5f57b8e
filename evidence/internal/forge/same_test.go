//go:build unix

package forge

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// sameDay is the pack of a kernel with fixed keys, nonces and clock, over a store: forty calls, one
// after the other, with approvals, receipts that are asked for, failures and denials.
func sameDay(t testing.TB, s proofgraph.Store) []byte {
	t.Helper()
	trust, err := registry.New(2,
		append(StateKeys(t, 0), registry.Key{Name: "zoe", Public: Public(t, seedA2), Role: registry.Approver,
			Roles: []string{"lead", "owner"}})...)
	require.NoError(t, err)
	o := &host{TB: t, store: &erasing{Store: s}, trust: trust, now: Start.Time(),
		counts: map[contracts.ReasonCode]int{}, nonces: rand.NewChaCha8([32]byte{7})}
	o.open(helm.Keep{Outputs: true})
	o.work(rand.New(rand.NewPCG(7, 7)), 40)
	require.NoError(t, o.kernel.CloseSession(t.Context(), "s3"))
	_, err = o.kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	require.NoError(t, o.kernel.Close())
	pack, options := o.pack()
	if r, err := verifyBytes(t, pack, options); err != nil || !r.Success(evidence.Logged) || r.Receipts < 40 ||
		len(o.counts) < 4 {
		t.Fatalf("%+v, %v, %v", r, o.counts, err)
	}
	return pack
}

// shuffled puts what one store has into another, the blobs in another order, in batches of other
// sizes.
func shuffled(t testing.TB, from, to proofgraph.Store, names []contracts.Digest) {
	t.Helper()
	var blobs [][]byte
	for _, i := range rand.Perm(len(names)) {
		b, err := from.Blob(t.Context(), names[i])
		require.NoError(t, err)
		blobs = append(blobs, b)
	}
	size, err := from.Size(t.Context())
	require.NoError(t, err)
	at := uint64(0)
	for at < size {
		batch := proofgraph.Batch{At: at}
		for e, err := range from.Entries(t.Context(), at, min(size, at+1+rand.Uint64N(9))) {
			require.NoError(t, err)
			batch.Entries = append(batch.Entries, slices.Clone(e))
		}
		n := rand.IntN(len(blobs) + 1)
		if at += uint64(len(batch.Entries)); at == size {
			n = len(blobs)
			batch.Checkpoint, err = from.Checkpoint(t.Context())
		}
		batch.Blobs, blobs = blobs[:n], blobs[n:]
		require.True(t, err == nil && to.Append(t.Context(), batch) == nil, "the copy cannot be written: %v", err)
	}
}

// sameBuilds are the packs of that day that one process makes, by their SHA-256: of a kernel over
// memory and of one over files, and of their stores shuffled.
func sameBuilds(t testing.TB) []string {
	t.Helper()
	files := func() *filestore.Store {
		s, err := filestore.Open(t.TempDir()+"/log", filestore.Options{})
		require.NoError(t, err)
		t.Cleanup(func() { s.Close() })
		return s
	}
	first := proofgraph.NewMemory()
	pack := sameDay(t, first)
	packs := [][]byte{pack, sameDay(t, files())}
	var names []contracts.Digest
	for _, m := range Untar(t, pack)[EntriesAt+1:] {
		name, err := crypto.ParseDigest([]byte(strings.TrimPrefix(m.Name, "blobs/")))
		require.NoError(t, err, m.Name)
		names = append(names, name)
	}
	for _, to := range []proofgraph.Store{proofgraph.NewMemory(), files()} {
		shuffled(t, first, to, names)
		var b bytes.Buffer
		require.NoError(t, evidence.Write(t.Context(), &b, to, Key(t, SeedK1)))
		packs = append(packs, b.Bytes())
	}
	var sums []string
	for _, b := range packs {
		sums = append(sums, fmt.Sprintf("%x", sha256.Sum256(b)))
	}
	return sums
}

const (
	childOf    = "HELM_TEST_CHILD"
	childUmask = "HELM_TEST_UMASK"
)

// TestSameBytesEverywhere: one day has one pack, byte for byte, in 52 builds by processes that
// differ in time zone, language, umask, processors, garbage collection, directory and the seeds of
// their maps, over a store in memory and one in files, whatever stood where in it.
func TestSameBytesEverywhere(t *testing.T) {
	t.Parallel()
	if os.Getenv(childOf) != "" {
		if mask, err := strconv.ParseInt(os.Getenv(childUmask), 8, 32); err != nil {
			t.Fatal(err)
		} else {
			syscall.Umask(int(mask))
		}
		fmt.Println("packs:", strings.Join(sameBuilds(t), " "))
		return
	}
	children := 12 // four builds each, and four here
	switch {
	case *Full:
		children = 50
	case race.Enabled || testing.Short():
		children = 3
	}
	want := strings.Join(sameBuilds(t), " ")
	list := strings.Fields(want)
	require.True(t, len(list) == 4 && len(slices.Compact(list)) == 1, "the packs of one process: %v", list)
	program, err := os.Executable()
	require.NoError(t, err)
	said := make([]string, children)
	var wait sync.WaitGroup
	turns := make(chan bool, 2)
	of := func(i int, list ...string) string { return list[i%len(list)] }
	for i := range children {
		wait.Go(func() {
			turns <- true
			defer func() { <-turns }()
			cmd := exec.CommandContext(t.Context(), program, "-test.run=^TestSameBytesEverywhere$")
			language := of(i, "C", "tr_TR.UTF-8", "ar_EG.UTF-8", "de_DE@euro", "ja_JP.eucJP", "", "zz")
			cmd.Dir = of(i, "/", t.TempDir(), ".")
			cmd.Env = append(os.Environ(), childOf+"=1", childUmask+"="+of(i, "0", "022", "077", "027"),
				"TZ="+of(i, "UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Chatham", "Pacific/Kiritimati",
					"nowhere", ""),
				"LANG="+language, "LC_ALL="+language, "GOMAXPROCS="+of(i, "1", "2", "7", "64"),
				"GOGC="+of(i, "100", "off", "5"))
			b, err := cmd.CombinedOutput()
			if said[i] = string(b); err != nil {
				said[i] += err.Error()
			}
		})
	}
	wait.Wait()
	for i, s := range said {
		assert.True(t, strings.HasPrefix(s, "packs: "+want+"\n"), "process %d: %s\nwant %s", i, s, want)
	}
	t.Logf("%d processes, %d builds", children+1, 4*(children+1))
}
