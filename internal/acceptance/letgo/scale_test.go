package letgo

import (
	"archive/tar"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/proofgraph/witness"
)

var (
	entries = flag.Int("letgo.entries", 20_000, "entries of the log that is let go of; 1000000 takes some 12 GB")
	keep    = flag.String("letgo.dir", "", "keep the whole logs in this `directory`, and take those that are there")
)

// large is the size from which on what is measured depends little on pages and segments.
const large = 400_000

// TestScale lets go of a log on disk, and prints what that takes and spares. It verifies what it
// measures, and asserts sizes. Of a large log it asserts two ratios of times.
//
//	go test ./internal/acceptance/letgo -run Scale -v -timeout 60m \
//		-letgo.entries 1000000 -letgo.dir DIR
//
// It makes three logs by 16 callers: one of that size, of sessions of 20 calls; one of half the
// size and as many sessions, from which the memory of an entry follows, and on which calls go on
// while it lets go; and one without budgets.
func TestScale(t *testing.T) {
	race.Alone(t)
	x := newScale(t)
	x.whole()
	x.condensed()
	x.proved()
	x.remembered()
	x.besides()
	x.unbudgeted()
}

// A scale is what is measured of one log of which a store lets go.
type scale struct {
	*table
	n       int
	dir     string // of whole logs
	work    string // of all others
	witness *witness.Witness
	vkey    string

	world *world
	store *filestore.Store // the one that is open
	disk  int64            // bytes of the directory when it was whole
	lines int64            // bytes of entries.jsonl then
	took  map[string]time.Duration
	size  uint64
	went  uint64
	held  float64           // by the kernel when it was condensed
	own   []contracts.Entry // a receipt and its decision, as their holder has them
	index uint64            // of that receipt
	seen  []contracts.Digest
}

// condenser is what a store on disk is for a kernel, but for the states that it keeps.
type condenser interface {
	proofgraph.Store
	proofgraph.Condenser
	tlog.HashReader
}

// stateful is what a kernel has of a store on disk.
func stateful(s *filestore.Store, states bool) proofgraph.Store {
	if states {
		return s
	}
	return struct{ condenser }{s}
}

func newScale(t *testing.T) *scale {
	x := &scale{table: newTable(t), n: *entries, dir: *keep, work: t.TempDir(), took: map[string]time.Duration{}}
	if x.dir == "" {
		x.dir = t.TempDir()
	} else {
		x.work = filepath.Join(x.dir, "work")
		require.NoError(t, os.MkdirAll(x.dir, 0o755))
		require.NoError(t, os.RemoveAll(x.work))
		t.Cleanup(func() { require.NoError(t, os.RemoveAll(x.work)) })
	}
	x.witness = &witness.Witness{Name: "w.example", Key: kerneltest.NamedKey(t, "w"), State: notes{},
		Logs: func(origin string) []string {
			return []string{proofgraph.VerifierKey(origin, kerneltest.Public(t, 9))}
		}}
	vkey, err := x.witness.VerifierKey()
	require.NoError(t, err)
	x.vkey = vkey
	return x
}

// made copies a busy log of about n entries, and makes it before if it is not there.
func (x *scale) made(name string, n, each int, budget bool) (dir string) {
	x.Helper()
	whole := filepath.Join(x.dir, fmt.Sprintf("%s-%d", name, n))
	if _, err := os.Stat(whole); errors.Is(err, fs.ErrNotExist) {
		store, err := filestore.Open(whole+".new", filestore.Options{})
		require.NoError(x, err)
		w := busyWorld(x, stateful(store, false), budget, x.logKey)
		began := time.Now()
		calls := w.busy(context.Background(), "caller", n/2, each)
		x.row("a call, of 16 callers", perEach(time.Since(began), calls), true)
		require.NoError(x, errors.Join(w.kernel.Close(), store.Close(), os.Rename(whole+".new", whole)))
	}
	dir = filepath.Join(x.work, name)
	require.NoError(x, os.CopyFS(dir, os.DirFS(whole)))
	return dir
}

func (x *scale) logKey(o *helm.Options) {
	o.LogKey = kerneltest.SeedKey(x, 9)
	o.Checkpoint.Witnesses, o.Checkpoint.Quorum = []string{x.vkey}, 1
}

// open opens the log in a directory, more than a day after it was made. It returns how long New
// took, and what the kernel holds in memory.
func (x *scale) open(dir string, budget, states bool) (w *world, took time.Duration, held float64) {
	x.Helper()
	store, err := filestore.Open(dir, filestore.Options{})
	require.NoError(x, err)
	x.store = store
	var before float64
	w = busyWorld(x, stateful(store, states), budget, x.logKey, func(o *helm.Options) {
		now := o.Now
		o.Now = func() time.Time { return now().Add(25 * time.Hour) }
		before = heap()
	}, func(*helm.Options) { took = -time.Since(x.began) })
	took += time.Since(x.began)
	return w, took, heap() - before
}

// oneCore leaves the process one core, until the function that it returns is called.
func oneCore() func() {
	was := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(was) }
}

// shut closes a kernel and its store.
func (x *scale) shut(w *world) {
	x.Helper()
	require.NoError(x, errors.Join(w.kernel.Close(), x.store.Close()))
}

// cosign has the witness cosign the checkpoint of all entries.
func (x *scale) cosign(w *world) {
	x.Helper()
	ctx := context.Background()
	c, err := w.kernel.Checkpoint(ctx)
	require.NoError(x, err)
	var old uint64
	var proof []contracts.Digest
	line, err := x.witness.Add(ctx, 0, nil, c.Note)
	if conflict := new(witness.Conflict); errors.As(err, &conflict) {
		old = conflict.Size
		proof, err = w.kernel.Consistency(ctx, old, c.Size)
		require.NoError(x, err)
		line, err = x.witness.Add(ctx, old, proof, c.Note)
	}
	require.NoError(x, err)
	require.NoError(x, w.kernel.Cosigned(ctx, append(c.Note, line...)))
}

// verify writes the log as a pack and verifies it on one core. It returns how long that took, and
// the size of entries.jsonl.
func (x *scale) verify(w *world) (r evidence.Report, took time.Duration, lines int64) {
	x.Helper()
	ctx := context.Background()
	f, err := os.CreateTemp(x.work, "*.tar")
	require.NoError(x, err)
	defer func() { require.NoError(x, errors.Join(f.Close(), os.Remove(f.Name()))) }()
	require.NoError(x, evidence.Write(ctx, f, w.store, w.options.Key))
	size, err := f.Seek(0, io.SeekCurrent)
	require.NoError(x, err)
	_, err = f.Seek(0, io.SeekStart)
	require.NoError(x, err)
	for tr := tar.NewReader(f); lines == 0; {
		h, err := tr.Next()
		require.NoError(x, err)
		if strings.HasSuffix(h.Name, "entries.jsonl") {
			lines = h.Size
		}
	}
	defer oneCore()()
	began := time.Now()
	r, err = evidence.Verify(ctx, f, size, x.trusting(w))
	took = time.Since(began)
	require.NoError(x, err)
	require.True(x, r.Success(evidence.Witnessed), "%v", r)
	require.Zero(x, r.Replay.Differing)
	return r, took, lines
}

func (x *scale) trusting(w *world) evidence.Options {
	return evidence.Options{Trust: w.kernel.Trust(), Origin: kerneltest.Origin, Witnesses: []string{x.vkey}, Quorum: 1,
		Seen: x.seen}
}

// bytes returns how many bytes the files of a directory have.
func (x *scale) bytes(dir string) (sum int64) {
	x.Helper()
	files, err := os.ReadDir(dir)
	require.NoError(x, err)
	for _, f := range files {
		info, err := f.Info()
		require.NoError(x, err)
		sum += info.Size()
	}
	return sum
}

// whole measures the log before anything goes, and condenses it.
func (x *scale) whole() {
	x.Helper()
	dir := x.made("log", x.n, 20, true)
	w, took, _ := x.open(dir, true, false)
	x.world, x.disk = w, x.bytes(dir)
	x.size, _ = w.store.Size(context.Background())
	x.note("entries of the log", "%d", x.size)
	x.row("New, whole, an entry", perEach(took, int(x.size)), false)
	x.hold()

	began := time.Now()
	c := w.condense()
	x.row("Condense, an entry", perEach(time.Since(began), int(x.size)), false)
	x.note("entries in sets", "%.1f %%, in %d", 100*float64(c.Members)/float64(x.size), len(c.Entries))
	assert.Greater(x, float64(c.Members), 0.9*float64(x.size))
	x.went = c.Members
	began = time.Now()
	require.Empty(x, w.condense().Entries)
	x.note("Condense again, of what is new", "%.1f ms", milliseconds(time.Since(began)))

	x.cosign(w)
	r, took, lines := x.verify(w)
	for _, r := range r.Condensed {
		require.Zero(x, r.Stubs)
		x.seen = append(x.seen, r.Hash)
	}
	x.took["verify"], x.lines = took, lines
	x.row("verification, whole, one core, an entry", perEach(took, int(x.size)), false)
}

// hold keeps a receipt from index 1,000 on, and its decision, as who may need them does.
func (x *scale) hold() {
	x.Helper()
	var decisions []contracts.Entry
	for e, err := range x.world.store.Entries(context.Background(), 0, 2000) {
		require.NoError(x, err)
		st := statement(x, e)
		if st.Decision != nil {
			decisions = append(decisions, e)
		}
		if r := st.Receipt; r != nil && r.Tool == "save" && x.index >= 1000 {
			for _, d := range decisions {
				if d.Hash() == r.DecisionHash {
					x.own = []contracts.Entry{e, d}
				}
			}
			require.NotNil(x, x.own)
			return
		}
		x.index++
	}
	x.Fatal("no receipt")
}

// condensed lets go, and measures the log that is left.
func (x *scale) condensed() {
	x.Helper()
	began := time.Now()
	d := x.world.drop()
	x.row("Drop, an entry", perEach(time.Since(began), int(x.size)), false)
	require.Equal(x, x.went, d.Entries)
	dir := filepath.Join(x.work, "log")
	x.share("of the directory is left", x.bytes(dir), x.disk, 0.25)

	x.shut(x.world)
	w, took, held := x.open(dir, true, false)
	x.held = held
	x.row("New, condensed", float64(took), false)
	x.row("New, condensed, an entry", perEach(took, int(x.size)), false)
	whole := x.rows["New, whole, an entry"] * float64(x.size-x.went)
	x.row("New, condensed, a stub", (float64(took)-whole)/float64(x.went), false)
	x.shut(w)
	all := oneCore()
	w, took, _ = x.open(dir, true, false)
	x.world = w
	all()
	x.row("New, condensed, one core, an entry", perEach(took, int(x.size)), false)
	r, took, lines := x.verify(w)
	for _, c := range r.Condensed {
		require.True(x, c.Seen && c.Stubs == c.Dropped)
	}
	x.row("verification, condensed, one core, an entry", perEach(took, int(x.size)), false)
	x.note("of the time of the whole one", "%.2f", float64(took)/float64(x.took["verify"]))
	if x.n >= large {
		assert.LessOrEqual(x, float64(took), 0.2*float64(x.took["verify"]), "the time of verification, condensed")
	}
	x.share("of entries.jsonl is left", lines, x.lines, 0.25)
	require.Less(x, float64(lines), 0.25*float64(x.lines))
}

// proved has the holder's receipt proved.
func (x *scale) proved() {
	x.Helper()
	ctx := context.Background()
	began := time.Now()
	var excerpt strings.Builder
	err := evidence.WriteExcerpt(ctx, &excerpt, x.world.store, evidence.Excerpt{Receipt: x.index, Entries: x.own})
	require.NoError(x, err)
	wrote := time.Since(began)
	began = time.Now()
	r, err := evidence.VerifyExcerpt(ctx, strings.NewReader(excerpt.String()), int64(excerpt.Len()), x.trusting(x.world))
	require.NoError(x, err)
	x.note(fmt.Sprintf("the receipt of entry %d, %v", x.index, r.Level), "%d bytes, made in %.1f ms, verified in %.1f ms",
		excerpt.Len(), milliseconds(wrote), milliseconds(time.Since(began)))
	require.True(x, r.Success(evidence.Witnessed), "%v", r)
	x.shut(x.world)
}

// remembered measures New from a state of the condensed log, which the kernel before wrote.
func (x *scale) remembered() {
	x.Helper()
	dir := filepath.Join(x.work, "log")
	w, _, _ := x.open(dir, true, true)
	x.shut(w)
	w, took, held := x.open(dir, true, true)
	state, err := x.store.State(context.Background())
	require.NoError(x, err)
	require.NotEmpty(x, state)
	x.row("New, from a state", float64(took), false)
	x.note("of that of the condensed log", "%.3f", float64(took)/x.rows["New, condensed"])
	x.note("the state", "%d bytes, and %.1f MiB in memory", len(state), held/(1<<20))
	x.shut(w)
}

// besides measures the memory of what went, and calls while a log is let go of.
func (x *scale) besides() {
	x.Helper()
	x.witness.State = notes{}
	dir := x.made("half", x.n/2, 10, true)
	w, _, _ := x.open(dir, true, false)
	c := w.condense()
	size, err := w.store.Size(context.Background())
	require.NoError(x, err)
	x.cosign(w)
	w.drop()
	x.shut(w)
	w, _, held := x.open(dir, true, false)
	x.shut(w)
	gone, kept := float64(x.went)-float64(c.Members), float64(x.size-x.went)-float64(size-c.Members)
	each := (x.held - held - 48*kept) / gone
	x.note("memory of an entry that went", "%.2f bytes", each)
	if x.n >= large {
		assert.InDelta(x, 0, each, 1.0) // less than nothing would be a fault of the measure
	}
	x.note("memory of the kernel", "%.1f MiB of %d entries", x.held/(1<<20), x.size)

	x.witness.State = notes{}
	require.NoError(x, os.RemoveAll(dir))
	w, _, _ = x.open(x.made("half", x.n/2, 10, true), true, false)
	w.condense()
	x.cosign(w)
	during, stop := context.WithTimeout(context.Background(), time.Duration(x.n)*2*time.Microsecond)
	defer stop()
	before := perEach(time.Duration(x.n)*2*time.Microsecond, w.busy(during, "before", x.n, 1<<40))
	x.row("a call, before Drop", before, true)
	during, stop = context.WithCancel(context.Background())
	var took time.Duration
	go func() {
		defer stop()
		began := time.Now()
		w.drop()
		took = time.Since(began)
	}()
	calls := w.busy(during, "while", 1<<40, 1<<40)
	x.row("a call, while Drop runs", perEach(took, calls), true)
	x.note("calls while Drop runs, of those before", "%.2f", before/perEach(took, calls))
	if x.n >= large { // calls have six sevenths of the time; machines are noisy
		assert.GreaterOrEqual(x, before/perEach(took, calls), 0.6, "calls while Drop runs, of those before")
	}
	x.shut(w)
}

// unbudgeted measures what is left of a log without budgets.
func (x *scale) unbudgeted() {
	x.Helper()
	x.witness.State, x.seen = notes{}, nil
	dir := x.made("plain", x.n/2, 20, false)
	w, _, _ := x.open(dir, false, false)
	disk := x.bytes(dir)
	w.condense()
	x.cosign(w)
	_, _, whole := x.verify(w)
	w.drop()
	_, _, lines := x.verify(w)
	x.share("of a directory without budgets is left", x.bytes(dir), disk, 0.2)
	x.share("of its entries.jsonl is left", lines, whole, 0.2)
	x.shut(w)
}

// share adds how much is left of so many bytes. Of a large log that has a bound.
func (x *scale) share(what string, left, of int64, most float64) {
	x.Helper()
	share := float64(left) / float64(of)
	x.note(what, "%.3f of %.1f MiB", share, float64(of)/(1<<20))
	if x.n >= large {
		assert.LessOrEqual(x, share, most, what)
	}
}
