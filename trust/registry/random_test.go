package registry

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

// A wild makes events at random, valid and not.
type wild struct {
	testing.TB
	*rand.Rand
	names []string
}

func newWild(t testing.TB, seed uint64) *wild {
	return &wild{t, rand.New(rand.NewPCG(seed, 7)), []string{"r1", "r2", "r3", "r4", "r5", "kernel", "kernel 2",
		"kernel 3", "log", "log 2", "freezer", "freezer 2", "bob", "dan", "ann", "eve", "publisher", "a stranger"}}
}

func (w *wild) one(list []string) string { return list[w.IntN(len(list))] }

func (w *wild) some(n int, list []string) []string {
	list = slices.Clone(list)
	w.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list[:min(n, len(list))]
}

func (w *wild) rarely() bool { return w.IntN(12) == 0 }

// record is of an event at an index, for the state of the twin.
func (w *wild) record(now *twin, index uint64) *contracts.TrustRecord {
	w.Helper()
	e := contracts.TrustEvent{Origin: origin, Version: now.Version + 1, Why: "chance"}
	if w.rarely() {
		e.Version = uint64(w.IntN(6))
	}
	if w.IntN(100) == 0 {
		e.Origin = "another"
	}
	roots := []string{}
	for _, name := range w.names {
		if now.Keys[id(w, name)].may("root", index) {
			roots = append(roots, name)
		}
	}
	proved := []string{}
	by := w.some(now.Threshold+w.IntN(2), roots)
	switch e.Type = w.one([]string{"key", "key", "key", "revoke", "revoke", "root", "root", "undelegate", "undelegate",
		"freeze", "unfreeze", "unfreeze"}); e.Type {
	case "key":
		e.Name, e.Role = w.one(w.names),
			w.one([]string{"kernel", "log", "publisher", "approver", "delegator", "attestor", "freezer", "witness"})
		if w.rarely() {
			e.Role = w.one([]string{"root", "admin"})
		}
		if e.Role == "approver" || e.Role == "delegator" || w.rarely() {
			e.Roles = []string{"clerk", "owner"}[:w.IntN(3)]
		}
		e.Public, e.ID = public(w, e.Name), digestOf(id(w, e.Name))
		proved = append(proved, e.Name)
	case "revoke":
		e.ID = digestOf(id(w, w.one(w.names)))
	case "root":
		list := append(w.some(1+w.IntN(3), roots), w.some(w.IntN(2), []string{"r4", "r5", "bob"})...)
		slices.Sort(list)
		for _, name := range slices.Compact(list) {
			e.Keys = append(e.Keys, contracts.RootKey{ID: id(w, name), Name: name, Public: public(w, name)})
			proved = append(proved, name)
		}
		if slices.SortFunc(e.Keys,
			func(a, b contracts.RootKey) int { return bytes.Compare(a.ID[:], b.ID[:]) }); w.rarely() {
			slices.Reverse(e.Keys)
		}
		e.Threshold = 1 + uint64(w.IntN(max(1, min(2, len(e.Keys)))))
		if w.rarely() {
			e.Threshold = uint64(w.IntN(5))
		}
		by = append(by, w.some(int(e.Threshold), proved)...)
	case "undelegate":
		e.Delegation, e.Delegator = digestOf(crypto.Sum([]byte{byte(w.IntN(8))})), w.one([]string{"bob", "dan"})
		if w.IntN(2) == 0 {
			by = []string{e.Delegator}
		}
	case "freeze":
		if w.IntN(2) == 0 {
			by = []string{w.one([]string{"freezer", "freezer 2", "r1"})}
		}
	}
	for _, name := range proved {
		proof := proofOf(w, name, e)
		if w.IntN(100) == 0 {
			proof[w.IntN(64)] ^= 4
		}
		if e.Type == "key" {
			e.Proof = proof
		}
		for i := range e.Keys {
			if e.Keys[i].Name == name {
				e.Keys[i].Proof = proof
			}
		}
	}
	if w.rarely() {
		by = append(by, w.one(w.names))
	}
	if w.rarely() {
		by = by[1:]
	}
	slices.Sort(by)
	r := sign(w, e, slices.Compact(by)...)
	if len(r.Signatures) > 0 && w.rarely() {
		switch i := w.IntN(len(r.Signatures)); w.IntN(3) {
		case 0:
			r.Signatures[i].Sig[w.IntN(64)] ^= 1
		case 1:
			r.Signatures = append(r.Signatures, r.Signatures[i])
		case 2:
			slices.Reverse(r.Signatures)
		}
	}
	return r
}

// Any sequence of events, valid and not, leads to one state: folded as it comes, from the accepted
// events alone, with the state read from its canonical form in between, from a registry of keys in
// another order, and by the twin.
func TestFoldOfRandomEvents(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	logs, steps := 24, 50
	if testing.Short() {
		logs = 8
	}
	took, turned := map[string]int{}, map[string]int{}
	for seed := range uint64(logs) {
		w := newWild(t, seed)
		start := full(t)
		keys := everyone(t)
		w.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		r, err := New(2, keys...)
		require.NoError(t, err)
		shuffled, now := initial(t, r), start
		other := twinOf(t, start)
		var taken []placed
		index := uint64(0)
		for range steps {
			index += 1 + uint64(w.IntN(3))
			record := w.record(other, index)
			next, err := now.Apply(record, origin, index)
			again, err2 := now.Apply(record, origin, index)
			require.True(t, (err == nil) == (next != nil) && fmt.Sprint(err) == fmt.Sprint(err2) &&
				again.Digest() == next.Digest(), "log %d: %v and %v", seed, err, err2)
			if ok := other.take(t, record, origin, index); ok != (err == nil) {
				t.Fatalf("log %d, index %d: %v, the twin says %v\n%s\nin %s", seed, index, err, ok,
					record.Event.Append(nil), now.Canonical())
			}
			if err != nil {
				turned[record.Event.Type]++
				continue
			}
			took[record.Event.Type]++
			taken = append(taken, placed{index, record})
			if now = next; now.Digest() != other.digest(t) {
				t.Fatalf("log %d, index %d: another state than the twin's: %s", seed, index, now.Canonical())
			}
			next, err = shuffled.Apply(record, origin, index)
			require.NoError(t, err)
			if shuffled = next; w.IntN(3) == 0 {
				shuffled, err = ParseState(next.Canonical())
				require.NoError(t, err)
			}
		}
		alone := start
		for _, p := range taken {
			alone, err = alone.Apply(p.record, origin, p.index)
			require.NoError(t, err)
		}
		if now.Digest() != alone.Digest() || now.Digest() != shuffled.Digest() ||
			!bytes.Equal(now.Canonical(), shuffled.Canonical()) || now.Version() != uint64(len(taken))+1 {
			t.Errorf("log %d: %s and %s and %s", seed, now.Digest(), alone.Digest(), shuffled.Digest())
		}
	}
	for _, typ := range []string{"key", "revoke", "root", "undelegate", "freeze", "unfreeze"} {
		if took[typ] < 2*logs/8 || turned[typ] < 2*logs/8 {
			t.Errorf("%s: %d taken, %d refused: too few to say anything", typ, took[typ], turned[typ])
		}
	}
	t.Logf("taken %v, refused %v", took, turned)
}

// Any event: no panic, no half a state, and the next state can be read. Signatures are corrected as
// far as possible, so that the event is tested.
func FuzzApply(f *testing.F) {
	w := newWorld(f)
	for _, e := range []contracts.TrustEvent{w.key("new", Kernel), w.key("dora", Approver, "owner"), w.revoke("ann"),
		w.roots(2, "r1", "r2", "r4"), w.undelegate("g", "bob"), w.freeze(), w.unfreeze()} {
		f.Add([]byte(mustSign(f, e, "r1", "r2")), uint64(3), false)
		f.Add([]byte(mustSign(f, e, "r1")), uint64(1), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, index uint64, again bool) {
		r, err := contracts.ParseTrust(b)
		if err != nil {
			return
		}
		if again {
			r = sign(t, r.Event, "r1", "r2", "r3")
		}
		next, err := w.state.Apply(r, origin, index)
		require.True(t, (err == nil) == (next != nil) && w.state.Digest() == w.start.Digest(), "%v with %v", err, next)
		if err != nil {
			return
		}
		if read, err := ParseState(next.Canonical()); err != nil || read.Digest() != next.Digest() ||
			next.Version() != 2 {
			t.Fatalf("%v: %s", err, next.Canonical())
		}
		_, err = next.Apply(r, origin, index+1)
		require.Error(t, err, "it happens twice")
	})
}
