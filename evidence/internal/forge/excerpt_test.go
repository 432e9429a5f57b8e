package forge

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// path is RFC 6962, section 2.1.1, of leaves that have their 0x00 in front.
func path(leaves [][]byte, at int) (hashes [][32]byte) {
	if len(leaves) == 1 {
		return nil
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	if at < k {
		return append(path(leaves[:k], at), merkle(leaves[k:]))
	}
	return append(path(leaves[k:], at-k), merkle(leaves[:k]))
}

// proofOf writes a proof by hand.
func proofOf(hashes [][32]byte, index any, note []byte) []byte {
	b := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %v\n", index)
	for _, h := range hashes {
		b = fmt.Appendf(b, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	return append(append(b, '\n'), note...)
}

// A cutting is an excerpt in pieces, and the log that it is of.
type cutting struct {
	*Model
	of    []int // indexes of its entries
	size  int   // of the log, as its checkpoint has it
	lines [][]byte
	at    []int // indexes that its proofs claim
	path  [][][32]byte
	note  []byte
	notes map[int][]byte // in a proof, in place of note
	blobs map[string][]byte
}

// cut takes the excerpt of a receipt out of a log, under its checkpoint of some size. It writes all
// of it by hand.
func cut(m *Model, receipt, size int, blobs bool) *cutting {
	m.Helper()
	n := m.Nodes[receipt]
	c := &cutting{Model: m, of: []int{receipt}, size: size, blobs: map[string][]byte{}}
	if n.decision != nil {
		c.of = []int{slices.Index(m.Nodes, n.decision), receipt}
	}
	leaves := leavesOf(m, size)
	for _, i := range c.of {
		x := m.Nodes[i]
		c.lines, c.at, c.path = append(c.lines, x.Line), append(c.at, i), append(c.path, path(leaves, i))
		names := []string{x.Text("outputHash"), x.Text("factsHash")}
		if x.D() != nil {
			names = append(names, x.D()["inputsHash"].(string))
		}
		for _, name := range names {
			if b, ok := m.Blobs[name]; ok && blobs {
				c.blobs[name] = b
			}
		}
	}
	c.mark(textOf(m, size))
	return c
}

// mark signs and cosigns a checkpoint.
func (c *cutting) mark(text string) {
	c.note = append(signNote(c, text, Origin, c.logBy), cosignatures(c, text)...)
}

// members returns what it is an archive of.
func (c *cutting) members() []Member {
	ms := []Member{{Name: "checkpoint", Body: c.note}}
	for i := range c.lines {
		name := []string{"decision", "receipt"}[i+2-len(c.lines)]
		note, ok := c.notes[i]
		if !ok {
			note = c.note
		}
		ms = append(ms, Member{Name: name, Body: c.lines[i]},
			Member{Name: name + ".proof", Body: proofOf(c.path[i], c.at[i], note)})
	}
	for _, name := range slices.Sorted(maps.Keys(c.blobs)) {
		ms = append(ms, Member{Name: "blobs/" + name, Body: c.blobs[name]})
	}
	return ms
}

// verifyExcerpt verifies an excerpt.
func verifyExcerpt(t testing.TB, b []byte, o evidence.Options) (evidence.Report, error) {
	t.Helper()
	return evidence.VerifyExcerpt(t.Context(), bytes.NewReader(b), int64(len(b)), o)
}

// writeExcerpt writes the excerpt of a receipt.
func writeExcerpt(t testing.TB, s proofgraph.Store, x evidence.Excerpt) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, evidence.WriteExcerpt(t.Context(), &b, s, x))
	return b.Bytes()
}

// receiptsOf returns the indexes of the receipts of a log.
func receiptsOf(m *Model) (list []int) {
	for i, n := range m.Nodes {
		if n.Kind() == "receipt" {
			list = append(list, i)
		}
	}
	return list
}

// TestExcerpts: of each receipt of many logs, under many checkpoints, the excerpt has the bytes
// that the formats say, and verifies.
func TestExcerpts(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	logs := map[string]*Maker{"base": BaseLog(t), "small": SmallLog(t, 0), "fixture": FixtureLog(t).Maker,
		"budgets": BudgetLog(t), "knows": KnowsLog(t), "random": NewMaker(t), "dropped": NewMaker(t)}
	logs["random"].Use(FilesPolicy(3))
	Wander(logs["random"], 120/Sample(2), false)
	logs["dropped"].Use(FilesPolicy(3))
	Wander(logs["dropped"], 60, true)
	tried, blobs := 0, 0
	for name, maker := range logs {
		maker.Checkpoint()
		pack := maker.Pack(evidence.Write)
		m, s := TakeApart(t, pack), Shelve(t, pack)
		state := maker.state // a later one than that of most entries
		for _, receipt := range receiptsOf(m) {
			for _, size := range []int{receipt + 1, receipt + 2 + receipt%5, len(m.Nodes)} {
				if size > len(m.Nodes) {
					continue
				}
				for _, with := range []bool{false, true} {
					c := cut(m, receipt, size, with)
					want := TarOf(c.members())
					s.Note = c.note
					got := writeExcerpt(t, s, evidence.Excerpt{Receipt: uint64(receipt), Blobs: with})
					require.True(t, bytes.Equal(got, want), "%s: of the receipt %d, under the checkpoint of size %d, "+
						"with blobs: %v: other bytes", name, receipt, size, with)
					o := evidence.Options{Trust: state, Origin: Origin, Witnesses: WitnessKeys(t), Quorum: 2, CrossCheck: true}
					r, err := verifyExcerpt(t, got, o)
					require.True(t, err == nil && r.Success(0) && r.Level == evidence.Witnessed && r.Size == uint64(size),
						"%s, %d of %d: %+v, %v", name, receipt, size, r, err)
					c.mustReport(r)
					tried, blobs = tried+1, blobs+len(c.blobs)
				}
			}
		}
	}
	t.Logf("%d excerpts, with %d blobs", tried, blobs)
	assert.True(t, tried >= 500/Sample(2) && blobs >= 200/Sample(2), "%d excerpts, %d blobs", tried, blobs)
}

// mustReport holds the report to the log.
func (c *cutting) mustReport(r evidence.Report) {
	c.Helper()
	require.Len(c, r.Excerpt, len(c.of))
	for i, p := range r.Excerpt {
		n := c.Nodes[c.of[i]]
		assert.True(c, p.Index == uint64(c.of[i]) && string(p.Statement.Kind()) == n.Kind() &&
			p.Statement.Session == n.Text("session") && string(p.Statement.Append(nil)) == string(canonical(n.st)),
			"entry %d is reported as %+v", c.of[i], p)
	}
	lacking := map[string]bool{}
	for _, i := range c.of {
		n := c.Nodes[i]
		for _, name := range []string{n.Text("outputHash"), n.Text("factsHash")} {
			lacking[name] = true
		}
		if d := n.D(); d != nil {
			lacking[d["inputsHash"].(string)] = true
		}
	}
	delete(lacking, "")
	for name := range c.blobs {
		delete(lacking, name)
	}
	var erased []string
	for _, d := range r.Erased {
		erased = append(erased, d.String())
	}
	assert.Equal(c, slices.Sorted(maps.Keys(lacking)), erased, "lacking blobs")
	denied := len(c.of) == 1
	root := merkle(leavesOf(c.Model, c.size))
	assert.True(c, r.Receipts == 1 && r.Sessions == 1 && (r.Denials == 1) == denied && (r.Allows == 1) == !denied &&
		r.Replay.Replayed == 0 && r.Replay.NotReplayable == 1 && r.Replay.Entries[0] == uint64(c.of[0]) &&
		r.History == evidence.None && r.Signer == evidence.Trusted && r.Origin == Origin &&
		r.MerkleRoot == root && bytes.Equal(r.Checkpoint, c.note) && len(r.Witnesses) == 2, "%+v", r)
	assert.Contains(c, r.String(), "no verdict was replayed")
}

// excerptReports adds what VerifyExcerpt returns for excerpts of the base log in several states.
func excerptReports(w *tampered, out map[string]evidence.Report) {
	w.Helper()
	m := TakeApart(w, w.pack)
	state := BaseLog(w).state
	size := len(m.Nodes)
	add := func(name, receipt string, o evidence.Options) {
		w.Helper()
		c := cut(m, m.index(m.The(receipt)), size, name == "excerpt blobs")
		r, err := verifyExcerpt(w, TarOf(c.members()), o)
		require.Equal(w, r.Fault != nil, err != nil, "%s: %v", name, err)
		out[name] = r
	}
	o := evidence.Options{Trust: state, Origin: Origin}
	add("excerpt", "a2", o)
	add("excerpt denied", "d1", o)
	add("excerpt pinned", "a2", evidence.Options{Kernel: Public(w, SeedK1)})
	o.Witnesses, o.Quorum = WitnessKeys(w), 2
	add("excerpt blobs", "e2", o)
	o.Witnesses = append(o.Witnesses, CosignerKey(w, "w3.example", 4, SeedX))
	o.Quorum, o.Last = 3, LastOf(m, 20, merkle(leavesOf(m, 20)), Origin)
	add("excerpt unknown", "i2", o)
	o.Last = LastOf(m, size, [32]byte{}, Origin)
	add("excerpt diverged", "i2", o)
	o.Origin = Origin + "2"
	o.Last = nil
	add("excerpt invalid", "i2", o)
}

// TestExcerptReportIsWhole: a report of an excerpt hides no field that it has from programs, nor
// from people.
func TestExcerptReportIsWhole(t *testing.T) {
	t.Parallel()
	m := BaseLog(t)
	m.Checkpoint()
	model := TakeApart(t, m.Pack(evidence.Write))
	c := cut(model, model.index(model.The("a2")), len(model.Nodes), false)
	o := evidence.Options{Trust: m.state, Origin: Origin, Witnesses: WitnessKeys(t), Quorum: 2}
	r, err := verifyExcerpt(t, TarOf(c.members()), o)
	require.NoError(t, err)
	r.Reported = 1
	v := reflect.ValueOf(&r).Elem()
	wasJSON, err := json.Marshal(r)
	require.NoError(t, err)
	wasText := r.String()
	// to people the counts of one call are no news
	unread := []string{".Checkpoint", ".Asked", ".Totals.Sessions", ".Totals.Allows", ".Totals.Denials",
		".Totals.Receipts", ".Totals.Reported"}
	told := 0
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if v.Field(i).IsZero() || f.Name == "Replay" {
			continue
		}
		leaves(v.Field(i), "."+f.Name, func(name string) {
			b, err := json.Marshal(r)
			assert.True(t, err == nil && !bytes.Equal(b, wasJSON), "programs are not told of %s: %v", name, err)
			if !slices.Contains(unread, name) {
				told++
				assert.NotEqual(t, wasText, r.String(), "people are not told of %s", name)
			}
		})
	}
	assert.Greater(t, told, 10)
	for _, change := range []func(st *contracts.Statement){
		func(st *contracts.Statement) { st.Session = "other" },
		func(st *contracts.Statement) { st.Seq++ },
		func(st *contracts.Statement) { st.Time++ },
		func(st *contracts.Statement) { st.Receipt = &contracts.Receipt{Outcome: contracts.Withheld} },
	} {
		x := r
		st := *r.Excerpt[1].Statement
		change(&st)
		x.Excerpt = []evidence.Proved{r.Excerpt[0], {Index: r.Excerpt[1].Index, Statement: &st}}
		b, err := json.Marshal(x)
		assert.True(t, err == nil && !bytes.Equal(b, wasJSON) && x.String() != wasText, "%s", x)
	}
}
