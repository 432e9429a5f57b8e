package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// TestWriteRotated: a manifest is signed by a key that may, at the checkpoint's size. No other key makes a pack, and the error says which would.
func TestWriteRotated(t *testing.T) {
	m := newMaker(t)
	try := func(when string, seed byte, want string) {
		t.Helper()
		var b bytes.Buffer
		switch err := Write(t.Context(), &b, m.store, testKey(t, seed)); {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", when, err)
				return
			}
			r, err := verifyBytes(t, b.Bytes(), Options{Trust: m.trust, Origin: testOrigin})
			if err != nil || !r.Success(Logged) {
				t.Errorf("%s: %s, %v", when, r.Level, err)
			}
		case err == nil || !strings.HasPrefix(err.Error(), "evidence: write: ") || !strings.Contains(err.Error(), want) || b.Len() > 0:
			t.Errorf("%s: %v, want %q and nothing written", when, err, want)
		}
	}
	m.use(testPolicy(1))
	m.checkpoint()
	try("K1 alone", seedK1, "")
	try("K2 is unknown", seedK2, "no kernel key of this log")
	m.add(seedK2, "kernel 2", registry.Kernel)
	try("K2 is behind the checkpoint", seedK2, "needs a new checkpoint")
	m.checkpoint()
	try("K1 beside K2", seedK1, "")
	try("K2 beside K1", seedK2, "")
	m.open(seedK2, [16]byte{})
	m.revoke(seedK1)
	try("K1 is revoked behind the checkpoint", seedK1, "")
	m.checkpoint()
	try("K1 is revoked", seedK1, "the key was revoked by entry 3")
	try("K2 is left", seedK2, "")
	try("a root", seedR1, "no kernel key of this log")
	m.revoke(seedA)
	m.checkpoint()
	try("an approver", seedA, "the key was revoked by entry 4")
	try("still K2", seedK2, "")
}

// TestWriteRefusesEvents: a store whose trust events do not follow from each other gives no pack.
func TestWriteRefusesEvents(t *testing.T) {
	for name, change := range map[string]func(r *contracts.TrustRecord){
		"unsigned":       func(r *contracts.TrustRecord) { r.Signatures = nil },
		"another origin": func(r *contracts.TrustRecord) { r.Event.Origin += "2" },
		"a version":      func(r *contracts.TrustRecord) { r.Event.Version++ },
		"none":           func(*contracts.TrustRecord) {},
	} {
		m := newMaker(t)
		r := contracts.TrustRecord{Event: contracts.TrustEvent{Type: "freeze", Why: "w", Origin: testOrigin, Version: 2}}
		if name != "unsigned" {
			change(&r)
			r.Signatures = []contracts.Signature{{KeyID: crypto.KeyID(testPublic(t, seedF)), Sig: signWith(t, seedF, r.Event.Message())}}
		}
		m.put(contracts.SessionKernel, nil, &contracts.Statement{Trust: &r})
		m.checkpoint()
		err := Write(t.Context(), io.Discard, m.store, testKey(t, seedK1))
		if name == "none" {
			if err != nil { // or the others were refused for nothing
				t.Error(err)
			}
		} else if err == nil || !strings.HasPrefix(err.Error(), "evidence: write: entry 1: registry: trust event: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneThingAtATime: a store may have one connection, and nothing is asked of it while it gives entries.
func TestOneThingAtATime(t *testing.T) {
	m := baseLog(t)
	m.checkpoint()
	busy, asked := false, 0
	s := &badStore{Store: m.store}
	s.entries = func(_ int, e contracts.Entry) (contracts.Entry, error) { busy = true; return e, nil }
	s.blob = func(_ contracts.Digest, b []byte) ([]byte, error) {
		asked++
		if busy {
			t.Error("a blob was asked for between two entries")
		}
		return b, nil
	}
	err := Write(t.Context(), io.Discard, &ended{s, &busy}, testKey(t, m.by))
	if err != nil || asked < 20 {
		t.Errorf("%d blobs, %v", asked, err)
	}
}

// ended notes when entries were all given.
type ended struct {
	*badStore
	busy *bool
}

func (s *ended) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		defer func() { *s.busy = false }()
		s.badStore.Entries(ctx, from, to)(yield)
	}
}

// TestMovedRevocation is the limit of T10: whoever holds a kernel key can write another history, in which it was revoked later. Only a
// checkpoint that somebody kept shows it.
func TestMovedRevocation(t *testing.T) {
	w := newTampered(t)
	m := takeApart(t, w.pack)
	moved(m)
	pack := m.build()
	r, err := verifyBytes(t, pack, Options{Trust: w.o.Trust, Origin: testOrigin})
	if err != nil || !r.Success(Logged) || r.History != None || r.Replay.Differing+r.Replay.NotReplayable != 0 {
		t.Errorf("without a checkpoint: %+v, %v", r, err)
	}
	whole := takeApart(t, w.pack)
	for _, size := range []int{indexOf("t2") + 1, len(whole.nodes)} {
		r, err := verifyBytes(t, pack, Options{Trust: w.o.Trust, Last: lastOf(whole, size, merkle(leavesOf(whole, size)), testOrigin)})
		if err != nil || r.History != Diverged || r.Success(Intact) {
			t.Errorf("with one of size %d: %s, %v", size, r.History, err)
		}
	}
}

// TestLastOfRotated: a last checkpoint is judged by the log keys of its own size.
func TestLastOfRotated(t *testing.T) {
	m := newMaker(t)
	m.add(seedL2, "log 2", registry.Log)
	m.revoke(seedL) // entry 2
	m.use(testPolicy(1))
	m.logBy = seedL2
	m.open(seedK1, [16]byte{})
	m.checkpoint()
	pack := m.pack()
	whole := takeApart(t, pack)
	for size := 1; size <= 4; size++ {
		root := merkle(leavesOf(whole, size))
		for seed, from := range map[byte][2]int{seedL: {1, 2}, seedL2: {2, 4}} {
			text := fmt.Sprintf("%s\n%d\n%s\n", testOrigin, size, encoded(root[:]))
			good := signNote(t, text, testOrigin, seed)
			bad := []byte(text + "\n" + noteLine(whole, signWith(t, seedX, []byte(text)), seed))
			r, err := verifyBytes(t, pack, Options{Trust: m.trust, Last: good})
			if err != nil || r.History != Fresh {
				t.Errorf("size %d, a line that verifies: %s, %v", size, r.History, err)
			}
			counts := size >= from[0] && size <= from[1]
			if r, err := verifyBytes(t, pack, Options{Trust: m.trust, Last: bad}); (err != nil) != counts {
				t.Errorf("size %d, a line that does not verify: %s, %v; the key counts: %v", size, r.History, err, counts)
			}
		}
	}
}

// TestKeysByIndex has each entry of the base log signed by each of its keys: a kernel key may sign from the entry behind the one that added it
// to the one that revokes it, and no other key may sign any.
func TestKeysByIndex(t *testing.T) {
	race.Alone(t)
	w := newTampered(t)
	added, revoked := indexOf("t1"), indexOf("t2")
	good, refused := 0, 0
	for i, name := range baseNames {
		for _, seed := range []byte{seedK1, seedK2, seedL, seedA, seedR1, seedF}[:2+4*max(0, 1-i%8)] {
			m := takeApart(t, w.pack)
			m.the(name).by = seed
			r, err := verifyBytes(t, m.build(), Options{Trust: w.o.Trust})
			may := seed == seedK1 && i <= revoked || seed == seedK2 && i > added
			switch {
			case may && (err != nil || !r.Success(Logged)):
				t.Errorf("entry %d by %d: %v", i, seed, err)
			case !may && (!errors.Is(err, ErrKey) || r.Level != Invalid):
				t.Errorf("entry %d by %d: %s, %v", i, seed, r.Level, err)
			case may:
				good++
			default:
				refused++
			}
		}
	}
	if good < 40 || refused < 50 {
		t.Errorf("only %d good ones, and %d refused, were tried", good, refused)
	}
}

// TestInitialVersion: a log begins with an initial trust state. With a later one, keys would be valid that no event in the log added.
func TestInitialVersion(t *testing.T) {
	whole := testState(t)
	for version, want := range map[string]error{"1": nil, "2": ErrTrust, "9007199254740991": ErrTrust} {
		state, err := registry.ParseState(bytes.Replace(whole.Canonical(), []byte(`"version":1}`), []byte(`"version":`+version+`}`), 1))
		if err != nil {
			t.Fatal(err)
		}
		m := newMakerOf(t, state, 0)
		m.use(testPolicy(1))
		m.checkpoint()
		pack := m.pack()
		for name, o := range map[string]Options{"given": {Trust: state}, "pinned": {Kernel: testPublic(t, seedK1)}, "nothing": {}} {
			r, err := verifyBytes(t, pack, o)
			if want == nil && (err != nil || r.Level != Logged) {
				t.Errorf("version %s, %s: %s, %v", version, name, r.Level, err)
			}
			if want != nil {
				mustRefuse(t, r, err, want)
			}
		}
	}
}

// TestOtherGenesis: a store that gives another genesis the second time gives no pack.
func TestOtherGenesis(t *testing.T) {
	m, other := newMaker(t), smallLog(t, 0)
	m.checkpoint()
	if err := m.store.Append(t.Context(), proofgraph.Batch{At: 1, Blobs: [][]byte{other.trust.Canonical()}}); err != nil {
		t.Fatal(err)
	}
	first := contracts.Entry(takeApart(t, other.pack()).nodes[0].line)
	times := 0
	s := &badStore{Store: m.store}
	s.entries = func(_ int, e contracts.Entry) (contracts.Entry, error) {
		if times++; times == 1 {
			return first, nil
		}
		return e, nil
	}
	if err := Write(t.Context(), io.Discard, s, testKey(t, seedK1)); err == nil || !strings.Contains(err.Error(), "another genesis") {
		t.Error(err)
	}
}
