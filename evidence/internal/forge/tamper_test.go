package forge

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/shared"
)

// The checks of the verifier, as rows name them.
var (
	errArchive    = evidence.ErrArchive
	errBlob       = evidence.ErrBlob
	errBudget     = evidence.ErrBudget
	errChain      = evidence.ErrChain
	errCheckpoint = evidence.ErrCheckpoint
	errCosign     = evidence.ErrCosign
	errEncoding   = evidence.ErrEncoding
	errEnvelope   = evidence.ErrEnvelope
	errGap        = evidence.ErrGap
	errGraph      = evidence.ErrGraph
	errInput      = evidence.ErrInput
	errKey        = evidence.ErrKey
	errManifest   = evidence.ErrManifest
	errMerkle     = evidence.ErrMerkle
	errRecord     = evidence.ErrRecord
	errReference  = evidence.ErrReference
	errReplay     = evidence.ErrReplay
	errRerun      = evidence.ErrRerun
	errSignature  = evidence.ErrSignature
	errTrust      = evidence.ErrTrust
)

// A tampered is a base pack to be falsified.
type tampered struct {
	*testing.T
	pack  []byte
	apart func(t testing.TB) *Model // takes it apart
	o     evidence.Options
	takes uint64                    // bytes that the verification of the valid pack allocates
	cases map[string]map[string]int // that were run: by what they expect, and by row
}

func newTampered(t *testing.T) *tampered {
	t.Helper()
	m := BaseLog(t)
	last := m.Checkpoint()
	w := &tampered{T: t, pack: m.Pack(evidence.Write), o: evidence.Options{Trust: m.Trust, Origin: Origin, Last: last},
		cases: map[string]map[string]int{}}
	w.apart = func(t testing.TB) *Model { return TakeApart(t, w.pack) }
	var r evidence.Report
	var err error
	for range 2 { // the first fills pools
		w.takes = Allocated(func() { r, err = verifyBytes(t, w.pack, w.o) })
	}
	// or the refusals below would prove nothing
	if err != nil || !r.Success(evidence.Logged) || r.History != evidence.Fresh || r.Replay.Replayed != 18 ||
		r.Replay.KernelsOwn != 4 || r.Replay.NotReplayable+r.Replay.Differing != 0 {
		t.Fatalf("the base pack: %+v, %v", r, err)
	}
	require.True(t, bytes.Equal(TakeApart(t, w.pack).Build(), w.pack), "the forger changes what is not to be changed")
	return w
}

// witness has the witnesses cosign the pack's checkpoint, and the caller ask for that.
func (w *tampered) witness() {
	w.Helper()
	m := TakeApart(w, w.pack)
	m.cosigned = true
	w.pack, w.o.Witnesses, w.o.Quorum = m.Build(), WitnessKeys(w), 2
	var r evidence.Report
	var err error
	w.takes = Allocated(func() { r, err = verifyBytes(w, w.pack, w.o) })
	require.True(w, err == nil && r.Success(0) && r.Level == evidence.Witnessed && r.History == evidence.Fresh,
		"the witnessed base pack: %+v, %v", r, err)
	require.True(w, bytes.Equal(TakeApart(w, w.pack).Build(), w.pack), "the forger changes what is not to be changed")
}

// falsify makes the pack and the options of a row.
func (w *tampered) falsify(t *testing.T, x tampering) (m *Model, pack []byte, o evidence.Options) {
	m = w.apart(t)
	o, pack = w.o, w.pack
	if x.cut != nil {
		x.cut(m)
		pack = m.Build()
	}
	if x.pack != nil {
		pack = x.pack(m, bytes.Clone(pack))
	}
	require.False(t, (x.cut != nil || x.pack != nil) && bytes.Equal(pack, w.pack), "nothing was falsified")
	if x.o != nil {
		if x.o(m, &o); reflect.DeepEqual(o, w.o) {
			t.Fatal("the options are unchanged")
		}
	}
	require.False(t, x.cut == nil && x.pack == nil && x.o == nil, "the row does nothing")
	return m, pack, o
}

func (w *tampered) run(t *testing.T, x tampering) {
	m, pack, o := w.falsify(t, x)
	var r evidence.Report
	var err error
	takes := Allocated(func() { r, err = verifyBytes(t, pack, o) })
	assert.True(t, takes <= w.takes+w.takes/4, "%d bytes were allocated, %d for the valid pack", takes, w.takes)
	expected := fmt.Sprint(x.want)
	if x.want == nil {
		expected = fmt.Sprintf("%s %s %s", x.then.Level, x.then.History, x.then.Signer)
	}
	if x.passes {
		expected = "passes"
	}
	if w.cases[expected] == nil {
		w.cases[expected] = map[string]int{}
	}
	w.cases[expected][x.id]++
	if x.want != nil {
		mustRefuse(t, r, err, x.want)
		w.mustPlace(t, x, m, r.Fault)
		return
	}
	assert.True(t, err == nil && r.Level == x.then.Level && r.History == x.then.History && r.Signer == x.then.Signer &&
		r.Success(0) == x.passes, "%s, %s, %s, %v; want %s, %s, %s, success: %v", r.Level, r.History, r.Signer,
		err, x.then.Level, x.then.History, x.then.Signer, x.passes)
	// a limit: who kept no checkpoint sees nothing
	if x.then.History == evidence.Diverged || x.then.History == evidence.Stale {
		o.Last = nil
		if r, err := verifyBytes(t, pack, o); err != nil || !r.Success(0) || r.History != evidence.None {
			t.Errorf("without the kept checkpoint: %s, %s, %s, %v", r.Level, r.History, r.Signer, err)
		}
	}
}

// TestTamper runs the rows of the catalogue, and those of this version's own. It counts them by
// what refuses them.
func TestTamper(t *testing.T) {
	race.Alone(t)
	w := newTampered(t)
	w.witness()
	w.runAll(tamperings())
}

// runAll runs rows, and counts them by what they expect.
func (w *tampered) runAll(rows []tampering) {
	w.Helper()
	t := w.T
	for _, x := range rows {
		t.Run(strings.TrimSuffix(x.id+"/"+x.name, "/"), func(t *testing.T) {
			ranRow(t, x.id)
			w.run(t, x)
		})
	}
	for _, expected := range slices.Sorted(maps.Keys(w.cases)) {
		rows, cases := w.cases[expected], 0
		own := rows["own"]
		delete(rows, "own")
		for _, n := range rows {
			cases += n
		}
		t.Logf("%-24s %2d rows of the catalogue in %2d cases, %2d more", expected, len(rows), cases, own)
	}
}

func tamperings() []tampering {
	return slices.Concat(recordRows, byteRows, chainRows, checkpointRows, cosignRows, packRows, trustRows, callerRows,
		approvalRows,
		ownRows)
}

// A row of the catalogue, as testdata has it.
type row struct {
	id   string
	test string // that runs it
}

func tamperRows(fatal func(...any)) (list []row) {
	b, err := os.ReadFile("testdata/tamper.txt")
	if err != nil {
		fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case len(f) == 1:
			list = append(list, row{id: f[0], test: "TestTamper"})
		case len(f) == 2:
			list = append(list, row{id: f[0], test: f[1]})
		default:
			fatal("testdata/tamper.txt: " + line)
		}
	}
	return list
}

// TestTamperCatalogue holds the table to the list in testdata, and this to the catalogue: no row
// forgotten, and none superfluous.
func TestTamperCatalogue(t *testing.T) {
	t.Parallel()
	var here, listed, all []string
	for _, x := range tamperings() {
		if x.id != "own" && !slices.Contains(here, x.id) {
			here = append(here, x.id)
		}
	}
	for _, x := range tamperRows(t.Fatal) {
		if all = append(all, x.id); x.test == "TestTamper" {
			listed = append(listed, x.id)
		}
	}
	slices.Sort(here)
	slices.Sort(listed)
	assert.True(t, slices.Equal(here, listed) && len(here) >= 120,
		"testdata/tamper.txt has these in the table:\n%v\nand there are\n%v", listed, here)
	n := len(notRun(new(sync.Map)))
	assert.True(t, n >= 190 && n == len(all), "%d rows of %d are to be run", n, len(all))
	t.Run("its text", func(t *testing.T) {
		const not = "the ids of the rows are not compared with the catalogue's"
		b, err := os.ReadFile(shared.Path(t, "TAMPER.md", not))
		require.NoError(t, err)
		var catalogue []string
		for _, f := range regexp.MustCompile(`(?m)^\| ([A-Z]+[0-9]+) \|`).FindAllSubmatch(b, -1) {
			catalogue = append(catalogue, string(f[1]))
		}
		// Group G is another page's by now.
		b, err = os.ReadFile(shared.Path(t, "YEARS.md", not))
		require.NoError(t, err)
		var group []string
		for _, f := range regexp.MustCompile(`(?m)(?:^| · )(G[0-9]+) `).FindAllSubmatch(b, -1) {
			group = append(group, string(f[1]))
		}
		first := slices.Index(catalogue, "G01")
		catalogue = slices.Concat(catalogue[:first], group, slices.DeleteFunc(catalogue[first:],
			func(id string) bool { return id[0] == 'G' }))
		assert.True(t, slices.Equal(catalogue, all), "catalogue %v\nlist      %v", catalogue, all)
	})
}

var rowsRun sync.Map // id and test of rows of the catalogue that were run

// ranRow notes that a test runs a row.
func ranRow(t testing.TB, id string) {
	test, _, _ := strings.Cut(t.Name(), "/")
	rowsRun.Store(id+" "+test, true)
}

// TestMain looks, where all tests of the package were run, whether every row of the catalogue was,
// by the test that has it.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, name := range []string{"run", "skip", "list", "fuzz"} {
		if flag.Lookup("test."+name).Value.String() != "" {
			os.Exit(code)
		}
	}
	if code == 0 && !race.Enabled { // under which tests of one goroutine are skipped
		if missing := notRun(&rowsRun); len(missing) > 0 {
			fmt.Println("rows of the catalogue that no test ran:", missing)
			code = 1
		}
	}
	os.Exit(code)
}

// notRun are the rows that should have been, and the tests that should have run them.
func notRun(rows *sync.Map) (missing []string) {
	for _, x := range tamperRows(func(a ...any) { panic(fmt.Sprint(a...)) }) {
		if _, ok := rows.Load(x.id + " " + x.test); !ok {
			missing = append(missing, x.id+" "+x.test)
		}
	}
	return missing
}

// A tampering is one named way to falsify a pack, with the answer that a verifier must give: a row
// of the tamper catalogue, or a case of it.
type tampering struct {
	id   string
	name string                              // of the case
	cut  func(m *Model)                      // falsifies; whatever depends on it is made right again and signed
	pack func(m *Model, pack []byte) []byte  // falsifies bytes
	o    func(m *Model, o *evidence.Options) // changes the options
	want error                               // INVALID with that check
	then evidence.Report                     // or Level, History and Signer, if it is no check that says so

	passes bool // then is a success: a limit of what a verifier sees, or what a strict one must not refuse
}

// mustRefuse wants that check, and nothing that the pack says to be handed out.
func mustRefuse(t *testing.T, r evidence.Report, err error, want error) {
	t.Helper()
	var e *evidence.Error
	if !errors.As(err, &e) || e.Check != want || !errors.Is(err, want) {
		t.Errorf("%s, %v; want %v", r.Level, err, want)
		return
	}
	bare := evidence.Report{Asked: r.Asked, Fault: e, Replay: evidence.Replay{Differing: r.Replay.Differing},
		Rerun: evidence.Rerun{Differing: r.Rerun.Differing}}
	assert.True(t, reflect.DeepEqual(r, bare) && ((want == errReplay) == (r.Replay.Differing > 0) ||
		want != errReplay) && (want == errRerun) == (r.Rerun.Differing > 0) && !r.Success(evidence.Invalid),
		"an INVALID report says more than what is wrong: %+v", r)
}

// set changes a field of an entry's predicate, of its judgement, or of a statement after hashing.
func setP(name, field string, value any) func(*Model) {
	return func(m *Model) { m.The(name).P()[field] = value }
}

func setD(name, field string, value any) func(*Model) {
	return func(m *Model) { m.The(name).D()[field] = value }
}

// left changes the predicate when links and hashes are right already.
func left(name string, change func(p Object)) func(*Model) {
	return func(m *Model) { m.The(name).linked = func(st Object) { change(st["predicate"].(Object)) } }
}

// statement does so with the whole statement.
func statement(name string, change func(st Object)) func(*Model) {
	return func(m *Model) { m.The(name).linked = change }
}

var (
	zeros64 = strings.Repeat("0", 64)
	ones64  = strings.Repeat("1", 64)
)

func charge(before, amount, limit any) []any {
	return []any{Object{"amount": amount, "before": before, "budget": "P1:files:reads", "limit": limit, "window": "total"}}
}

// closing is a close of a session.
func closing(m *Model, session string) *Node {
	c := m.copy(m.The("x"))
	c.P()["session"], c.by = session, seedK2
	c.P()["time"] = m.Nodes[len(m.Nodes)-1].Text("time")
	return c
}

// relink finds the entry before each in its session again.
func (m *Model) relink() {
	last := map[string]*Node{}
	for _, n := range m.Nodes {
		n.prev = last[n.Text("session")]
		last[n.Text("session")] = n
	}
}

// seq changes the seq of an entry, and the id of its judgement to match.
func seq(st Object, change int) {
	p := st["predicate"].(Object)
	n := p["seq"].(int) + change
	p["seq"] = n
	if d, ok := p["decision"].(Object); ok {
		d["id"] = fmt.Sprintf("%s/%d", p["session"], n)
	}
}

// placeless are the rows whose fault is in no field, no member and no blob, and why.
var placeless = map[string]string{
	"TestTamper/P16":          "it is no archive, so it has no members",
	"TestTamper/own/no_entry": "there is none, and so no field of one",
	"TestTamperCondensed/own/an_entry_with_the_hash_of_an_earlier_stub": "its hash is in none of its fields",
}

// mustPlace requires a fault to name its place: the entry, if it is of one that was changed;
// and the field, the member or the blob.
func (w *tampered) mustPlace(t *testing.T, x tampering, m *Model, f *evidence.Error) {
	t.Helper()
	if f == nil {
		return
	}
	if why := placeless[t.Name()]; (f.Field == "") != (why != "") {
		t.Errorf("the place of %q is %q, and none because %q", f, f.Field, why)
	}
	ofEntries := slices.Contains([]error{errEncoding, errEnvelope, errKey,
		errSignature, errRecord, errChain, errGraph, errReference,
		errBudget,
		errTrust, errGap, errReplay, errRerun}, f.Check)
	assert.False(t, ofEntries != (f.Entry >= 0) && f.Check != errBlob, "at entry %d: %v", f.Entry, f)
	if x.cut == nil || x.pack != nil || f.Entry < 0 || f.Check == errBlob || f.Check == errGap && f.Field == "stub" {
		return // of a document it says who needs it, of a stub of no set that it is one
	}
	was := w.apart(t).Nodes
	first := 0
	for first < len(was) && first < len(m.Nodes) && bytes.Equal(was[first].standing(), m.Nodes[first].standing()) {
		first++
	}
	if first < len(was) && f.Entry < int64(first) {
		t.Errorf("at entry %d, and the first that was changed is %d: %v", f.Entry, first, f)
	}
}
