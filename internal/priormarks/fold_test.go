package priormarks

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/past"
)

var floor = []byte(`{"helm":"policy/v1","layer":"P0","name":"f","threat":{"outputs":{"bad":["nul"]}},"version":1}`)

var bundle = []byte(`{"bundle":{"name":"b","version":1},"helm":"policy/v1","layer":"P1","tools":{` +
	`"mail":{"labels":["pii"],"trusted":true},"notes":{"trusted":true},"web":{"labels":["web"]}}}`)

// A world is a log of entries without signatures, and a twin of the fold that reads nothing late.
type world struct {
	*testing.T
	fold    *Fold
	blobs   map[contracts.Digest][]byte
	now     map[string]marks // of sessions
	after   []marks          // by index
	named   []string         // sessions by index
	policy  contracts.Digest
	record  *contracts.PolicyRecord
	steps   []func(*Fold) error // add the entries again
	reading bool
}

type marks struct {
	tainted bool
	labels  string // in order, each once
}

func (m marks) and(tainted bool, labels ...string) marks {
	all := append(labels, splitLabels(m.labels)...)
	slices.Sort(all)
	m.labels = ""
	for _, l := range slices.Compact(all) {
		m.labels += l + " "
	}
	return marks{m.tainted || tainted, m.labels}
}

func splitLabels(s string) (list []string) {
	for from, i := 0, 0; i < len(s); i++ {
		if s[i] == ' ' {
			list = append(list, s[from:i])
			from = i + 1
		}
	}
	return list
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, fold: New(), blobs: map[contracts.Digest][]byte{}, now: map[string]marks{}}
	r := &contracts.PolicyRecord{}
	for layer, b := range map[string][]byte{"P0": floor, "P1": bundle} {
		w.blobs[crypto.Sum(b)] = b
		r.Documents = append(r.Documents, contracts.PolicyDocument{Digest: crypto.Sum(b), Layer: layer, Name: "x"})
	}
	r.Documents = append(r.Documents, contracts.PolicyDocument{Layer: "P2", Name: "o"}) // of which nothing is read
	w.policy = crypto.Sum([]byte("policy"))
	r.Policy = w.policy
	w.add("", nil, nil, marks{})
	w.fold.Policy(r)
	w.record = r
	return w
}

func (w *world) add(session string, parents []uint64, r *Run, brings marks) uint64 {
	w.Helper()
	require.NoError(w, w.fold.Add(session, parents, r))
	w.steps = append(w.steps, func(f *Fold) error { return f.Add(session, parents, r) })
	m := w.now[session]
	for _, p := range parents {
		m = m.and(w.after[p].tainted, splitLabels(w.after[p].labels)...)
	}
	m = m.and(brings.tainted, splitLabels(brings.labels)...)
	if !Marked(session) {
		m = marks{}
	}
	w.now[session] = m
	w.after, w.named = append(w.after, m), append(w.named, session)
	return uint64(len(w.after)) - 1
}

func (w *world) read(d contracts.Digest) ([]byte, error) {
	require.True(w, w.reading, "a blob is read while entries are")
	if b, ok := w.blobs[d]; ok {
		return b, nil
	}
	return nil, errors.New("no such blob")
}

// randomWorld returns a random log of five sessions, and which of them are closed.
func randomWorld(t *testing.T, seed uint64) (*world, map[string]bool) {
	outcomes := []contracts.Outcome{contracts.Executed, contracts.Failed, contracts.Indeterminate, contracts.Withheld}
	brings := map[string]marks{"web": {true, "web "}, "notes": {}, "mail": {false, "pii "}, "gone": {true, ""}}
	tools := []string{"web", "notes", "mail", "gone"}
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	closed := map[string]bool{}
	for range 60 {
		session := []string{"main", "a", "b", "c", "d", contracts.SessionRefused, contracts.SessionKernel}[r.IntN(7)]
		if closed[session] {
			continue
		}
		var parents []uint64
		for range r.IntN(3) {
			if p := uint64(r.IntN(len(w.after))); r.IntN(3) == 0 && !slices.Contains(parents, p) {
				parents = append(parents, p)
			}
		}
		decision := w.add(session, parents, nil, marks{})
		switch {
		case !Marked(session):
		case r.IntN(20) == 0:
			w.fold.Close(session)
			w.steps[decision] = func(f *Fold) error {
				defer f.Close(session)
				return f.Add(session, parents, nil)
			}
			closed[session] = true
		case r.IntN(3) > 0:
			receipt := &contracts.Receipt{Outcome: outcomes[r.IntN(4)], Tool: tools[r.IntN(len(tools))]}
			b := brings[receipt.Tool]
			if receipt.Outcome == contracts.Executed && r.IntN(3) == 0 {
				receipt.Signals = []string{"control", "nul"}
				b = b.and(false, "bad")
			}
			if receipt.Outcome == contracts.Withheld {
				b = marks{}
			}
			w.add(session, [][]uint64{nil, {decision}}[r.IntN(2)], RunOf(receipt, receipt.Tool, w.policy), b)
		}
	}
	return w, closed
}

// Random logs of five sessions, some of them closed: every entry has the marks that its session had
// just after it, and open sessions go on with theirs.
func TestRestore(t *testing.T) {
	t.Parallel()
	tainted := 0
	for seed := range uint64(50) {
		w, closed := randomWorld(t, seed)
		w.reading = true
		var m past.Marks
		sessions := map[string]*past.Session{}
		open := func(name string) *past.Session {
			require.False(t, closed[name])
			require.Nil(t, sessions[name], "asked for twice")
			sessions[name] = new(past.Session)
			return sessions[name]
		}
		require.NoError(t, w.fold.Restore(&m, open, nil, w.read))
		ask := func(s *past.Session, parents ...uint64) (got marks) {
			tainted, labels := m.Read(s.Marks(&m, parents))
			return marks{}.and(tainted, slices.Clone(labels)...)
		}
		for i, want := range w.after {
			require.Equal(t, want, ask(new(past.Session), uint64(i)), "seed %d, entry %d of %q", seed, i, w.named[i])
			if want.tainted {
				tainted++
			}
		}
		for name, s := range sessions {
			require.Equal(t, w.now[name], ask(s), "seed %d, session %q", seed, name)
		}
	}
	assert.Greater(t, tainted, 500)
}

// A run under a policy that the log has no entry of, and documents that are not those of the entry,
// are errors.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.Error(t, w.fold.Add("s", nil, &Run{Tool: "web"}))
	for name, spoil := range map[string]func(w *world){
		"gone":        func(w *world) { delete(w.blobs, crypto.Sum(bundle)) },
		"other bytes": func(w *world) { w.blobs[crypto.Sum(bundle)] = floor },
	} {
		w := newWorld(t)
		known := &Run{Tool: "web", Policy: w.policy}
		require.NoError(t, w.fold.Add("s", nil, known), name)
		spoil(w)
		w.reading = true
		open := func(string) *past.Session { return new(past.Session) }
		assert.Error(t, w.fold.Restore(new(past.Marks), open, nil, w.read), name)
		_, _, err := w.fold.Brings(known, w.read)
		assert.Error(t, err, name)
	}
}

// BenchmarkRestore is what New takes for each entry of a log.
func BenchmarkRestore(b *testing.B) {
	const sessions, each = 1000, 100
	policy := crypto.Sum([]byte("policy"))
	b.ReportAllocs()
	for b.Loop() {
		f := New()
		record := &contracts.PolicyRecord{Policy: policy,
			Documents: []contracts.PolicyDocument{{Digest: crypto.Sum(bundle), Layer: "P1"}}}
		f.Policy(record)
		receipt := &contracts.Receipt{Outcome: contracts.Executed, Tool: "web"}
		for i := range sessions * each {
			var r *Run
			if i/sessions%2 == 1 {
				r = RunOf(receipt, receipt.Tool, policy)
			}
			if err := f.Add(names[i%sessions], nil, r); err != nil {
				b.Fatal(err)
			}
		}
		var m past.Marks
		err := f.Restore(&m, func(string) *past.Session { return new(past.Session) }, nil,
			func(contracts.Digest) ([]byte, error) { return bundle, nil })
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*sessions*each), "ns/entry")
}

var names = func() (list []string) {
	for i := range 1000 {
		list = append(list, fmt.Sprint("session-", i))
	}
	return list
}()

// A fold that goes on from one that was saved, at any entry, is the fold of all entries.
func TestSaved(t *testing.T) {
	t.Parallel()
	changed, old := 0, 0
	for seed := range uint64(40) {
		w, _ := randomWorld(t, seed)
		w.reading = true
		fold := func(from, to int, load func(f *Fold, m *past.Marks)) (*Fold, *past.Marks) {
			f, m, sessions := New(), new(past.Marks), map[string]*past.Session{}
			if load(f, m); from > 0 {
				f.Policy(w.record)
			}
			for i, step := range w.steps[from:to] {
				require.NoError(t, step(f))
				if from+i == 0 {
					f.Policy(w.record)
				}
			}
			open := func(name string) *past.Session {
				sessions[name] = new(past.Session)
				return sessions[name]
			}
			sessionOf := func(i uint64) string {
				old++
				require.Less(t, i, uint64(from))
				return w.named[i]
			}
			require.NoError(t, f.Restore(m, open, sessionOf, w.read))
			for name, s := range sessions {
				require.Equal(t, f.Changes().At(name, uint64(to)), s.Marks(m, nil))
			}
			return f, m
		}
		save := func(x json.Marshaler) string {
			b, err := x.MarshalJSON()
			require.NoError(t, err)
			return string(b)
		}
		none := func(*Fold, *past.Marks) {}
		all := len(w.steps)
		whole, means := fold(0, all, none)
		for range 5 {
			cut := rand.IntN(all + 1)
			first, m := fold(0, cut, none)
			then, after := fold(cut, all, func(f *Fold, n *past.Marks) {
				require.NoError(t, n.UnmarshalJSON([]byte(save(m))))
				require.NoError(t, f.Load([]byte(save(first)), n, uint64(cut)))
			})
			require.Equal(t, save(whole), save(then), "seed %d, cut at %d of %d", seed, cut, all)
			require.Equal(t, save(means), save(after), "seed %d, cut at %d of %d", seed, cut, all)
			for i, want := range w.after {
				var mark past.Mark
				if Marked(w.named[i]) {
					mark = then.Changes().At(w.named[i], uint64(i))
				}
				tainted, labels := after.Read(mark)
				require.Equal(t, want, marks{}.and(tainted, slices.Clone(labels)...), "seed %d, entry %d", seed, i)
			}
		}
		changed += len(whole.changes)
	}
	assert.Greater(t, changed, 100, "sessions with marks")
	assert.Greater(t, old, 100, "parents before the cut")
}

// What no fold saves is refused.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	var m past.Marks
	require.NoError(t, m.UnmarshalJSON([]byte(`{"sets":["01"]}`)))
	require.NoError(t, New().Load([]byte(`{"s":[[1,1],[2,0]]}`), &m, 3), "or the refusals would prove nothing")
	for _, text := range []string{`null`, `[]`, `{"s":[[1,2]]}`, `{"s":[[3,1]]}`, `{"s":[[2,1],[1,0]]}`, `{"s":[[1,1],[1,0]]}`,
		`{"s":[[1,-1]]}`, `{"s":[1]}`} {
		require.Error(t, New().Load([]byte(text), &m, 3), text)
	}
	for _, text := range []string{`{"sets":[""]}`, `{"sets":["0100"]}`, `{"sets":["01","01"]}`, `{"sets":["02"]}`,
		`{"labels":["a","a"]}`, `{"labels":[""]}`, `{"sets":["zz"]}`} {
		require.Error(t, new(past.Marks).UnmarshalJSON([]byte(text)), text)
	}
}
