package priormarks

import (
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
	hashes  []contracts.Digest
	now     map[string]marks // of sessions
	after   []marks          // by index
	named   []string         // sessions by index
	policy  contracts.Digest
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
	w.add(&contracts.Statement{Policy: r}, nil, marks{})
	return w
}

func (w *world) add(st *contracts.Statement, d *contracts.DecisionRecord, brings marks) contracts.Digest {
	w.Helper()
	require.NoError(w, w.fold.Add(st, d))
	m := w.now[st.Session]
	for _, p := range st.Parents {
		m = m.and(w.after[slices.Index(w.hashes, p)].tainted, splitLabels(w.after[slices.Index(w.hashes, p)].labels)...)
	}
	m = m.and(brings.tainted, splitLabels(brings.labels)...)
	if !Marked(st.Session) {
		m = marks{}
	}
	w.now[st.Session] = m
	hash := crypto.Sum(fmt.Append(nil, len(w.hashes)))
	w.hashes, w.after, w.named = append(w.hashes, hash), append(w.after, m), append(w.named, st.Session)
	return hash
}

func (w *world) read(d contracts.Digest) ([]byte, error) {
	require.True(w, w.reading, "a blob is read while entries are")
	if b, ok := w.blobs[d]; ok {
		return b, nil
	}
	return nil, errors.New("no such blob")
}

func (w *world) lookup(d contracts.Digest) (uint64, bool) {
	i := slices.Index(w.hashes, d)
	return uint64(i), i >= 0
}

// Random logs of five sessions, some of them closed: every entry has the marks that its session had
// just after it, and open sessions go on with theirs.
func TestRestore(t *testing.T) {
	t.Parallel()
	outcomes := []contracts.Outcome{contracts.Executed, contracts.Failed, contracts.Indeterminate, contracts.Withheld}
	brings := map[string]marks{"web": {true, "web "}, "notes": {}, "mail": {false, "pii "}, "gone": {true, ""}}
	tools := []string{"web", "notes", "mail", "gone"}
	tainted := 0
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		closed := map[string]bool{}
		for range 60 {
			session := []string{"main", "a", "b", "c", "d", contracts.SessionRefused, contracts.SessionKernel}[r.IntN(7)]
			if closed[session] {
				continue
			}
			st := &contracts.Statement{}
			st.Session = session
			for range r.IntN(3) {
				if p := w.hashes[r.IntN(len(w.hashes))]; r.IntN(3) == 0 && !slices.Contains(st.Parents, p) {
					st.Parents = append(st.Parents, p)
				}
			}
			switch {
			case !Marked(session):
				w.add(st, nil, marks{})
			case r.IntN(20) == 0:
				st.Close, closed[session] = new(contracts.Close), true
				w.add(st, nil, marks{})
			case r.IntN(3) == 0:
				st.Message = new(contracts.Message)
				w.add(st, nil, marks{})
			default:
				d := &contracts.DecisionRecord{Tool: tools[r.IntN(len(tools))], PolicyHash: w.policy}
				st.Decision = d
				decision := w.add(st, nil, marks{})
				st := &contracts.Statement{Receipt: &contracts.Receipt{DecisionHash: decision, Outcome: outcomes[r.IntN(4)]}}
				st.Session, st.Parents = session, []contracts.Digest{decision}
				b := brings[d.Tool]
				if st.Receipt.Outcome == contracts.Executed && r.IntN(3) == 0 {
					st.Receipt.Signals = []string{"control", "nul"}
					b = b.and(false, "bad")
				}
				if st.Receipt.Outcome == contracts.Withheld {
					b = marks{}
				}
				w.add(st, d, b)
			}
		}
		w.reading = true
		var m past.Marks
		sessions := map[string]*past.Session{}
		open := func(name string) *past.Session {
			require.False(t, closed[name])
			require.Nil(t, sessions[name], "asked for twice")
			sessions[name] = new(past.Session)
			return sessions[name]
		}
		require.NoError(t, w.fold.Restore(&m, w.lookup, open, w.read))
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
	d := &contracts.DecisionRecord{Tool: "web"}
	receipt := func() *contracts.Statement {
		st := &contracts.Statement{Receipt: &contracts.Receipt{Outcome: contracts.Executed}}
		st.Session = "s"
		return st
	}
	w := newWorld(t)
	assert.Error(t, w.fold.Add(receipt(), d))
	for name, spoil := range map[string]func(w *world){
		"gone":        func(w *world) { delete(w.blobs, crypto.Sum(bundle)) },
		"other bytes": func(w *world) { w.blobs[crypto.Sum(bundle)] = floor },
	} {
		w := newWorld(t)
		known := &contracts.DecisionRecord{Tool: "web", PolicyHash: w.policy}
		require.NoError(t, w.fold.Add(receipt(), known), name)
		spoil(w)
		w.reading = true
		open := func(string) *past.Session { return new(past.Session) }
		assert.Error(t, w.fold.Restore(new(past.Marks), w.lookup, open, w.read), name)
		_, _, err := w.fold.Brings(known, receipt().Receipt, w.read)
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
		st := &contracts.Statement{Policy: record}
		if err := f.Add(st, nil); err != nil {
			b.Fatal(err)
		}
		d := &contracts.DecisionRecord{Tool: "web", PolicyHash: policy}
		for i := range sessions * each {
			st := &contracts.Statement{Decision: d}
			st.Session = names[i%sessions]
			if i/sessions%2 == 1 {
				st.Decision, st.Receipt = nil, &contracts.Receipt{Outcome: contracts.Executed}
				if err := f.Add(st, d); err != nil {
					b.Fatal(err)
				}
			} else if err := f.Add(st, nil); err != nil {
				b.Fatal(err)
			}
		}
		var m past.Marks
		err := f.Restore(&m, func(contracts.Digest) (uint64, bool) { return 0, false },
			func(string) *past.Session { return new(past.Session) },
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
