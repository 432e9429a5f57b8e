package forge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// TestWriteRotated: a manifest is signed by a key that may, at the checkpoint's size. No other key
// makes a pack, and the error says which would.
func TestWriteRotated(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	try := func(when string, seed byte, want string) {
		t.Helper()
		var b bytes.Buffer
		switch err := evidence.Write(t.Context(), &b, m.Store, Key(t, seed)); {
		case want == "":
			if err != nil {
				t.Errorf("%s: %v", when, err)
				return
			}
			r, err := verifyBytes(t, b.Bytes(), evidence.Options{Trust: m.Trust, Origin: Origin})
			assert.True(t, err == nil && r.Success(evidence.Logged), "%s: %s, %v", when, r.Level, err)
		case err == nil || !strings.HasPrefix(err.Error(), "evidence: write: ") ||
			!strings.Contains(err.Error(), want) || b.Len() > 0:
			t.Errorf("%s: %v, want %q and nothing written", when, err, want)
		}
	}
	m.Use(FilesPolicy(1))
	m.Checkpoint()
	try("K1 alone", SeedK1, "")
	try("K2 is unknown", seedK2, "no kernel key of this log")
	m.add(seedK2, "kernel 2", registry.Kernel)
	try("K2 is behind the checkpoint", seedK2, "needs a new checkpoint")
	m.Checkpoint()
	try("K1 beside K2", SeedK1, "")
	try("K2 beside K1", seedK2, "")
	m.open(seedK2, [16]byte{})
	m.Revoke(SeedK1)
	try("K1 is revoked behind the checkpoint", SeedK1, "")
	m.Checkpoint()
	try("K1 is revoked", SeedK1, "the key was revoked by entry 3")
	try("K2 is left", seedK2, "")
	try("a root", seedR1, "no kernel key of this log")
	m.Revoke(SeedA)
	m.Checkpoint()
	try("an approver", SeedA, "the key was revoked by entry 4")
	try("still K2", seedK2, "")
}

// TestWriteRefusesEvents: of a store whose trust events do not follow from each other no pack is
// written.
func TestWriteRefusesEvents(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *contracts.TrustRecord){
		"unsigned":       func(r *contracts.TrustRecord) { r.Signatures = nil },
		"another origin": func(r *contracts.TrustRecord) { r.Event.Origin += "2" },
		"a version":      func(r *contracts.TrustRecord) { r.Event.Version++ },
		"none":           func(*contracts.TrustRecord) {},
	} {
		m := NewMaker(t)
		r := contracts.TrustRecord{Event: contracts.TrustEvent{Type: "freeze", Why: "w", Origin: Origin, Version: 2}}
		if name != "unsigned" {
			change(&r)
			r.Signatures = []contracts.Signature{{KeyID: crypto.KeyID(Public(t, seedF)),
				Sig: signWith(t, seedF, r.Event.Message())}}
		}
		m.put(contracts.SessionKernel, nil, &contracts.Statement{Trust: &r})
		m.Checkpoint()
		err := evidence.Write(t.Context(), io.Discard, m.Store, Key(t, SeedK1))
		if name == "none" {
			if err != nil { // or the others were refused for nothing
				t.Error(err)
			}
		} else if err == nil || !strings.HasPrefix(err.Error(), "evidence: write: entry 1: registry: trust event: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneThingAtATime: a store may have one connection, and nothing is asked of it while it yields
// entries.
func TestOneThingAtATime(t *testing.T) {
	t.Parallel()
	m := BaseLog(t)
	m.Checkpoint()
	busy, asked := false, 0
	s := &FaultyStore{Store: m.Store}
	s.OnEntry = func(_ int, e contracts.Entry) (contracts.Entry, error) { busy = true; return e, nil }
	s.OnBlob = func(_ contracts.Digest, b []byte) ([]byte, error) {
		asked++
		assert.False(t, busy, "a blob was asked for between two entries")
		return b, nil
	}
	err := evidence.Write(t.Context(), io.Discard, &ended{s, &busy}, Key(t, m.By))
	assert.True(t, err == nil && asked >= 20, "%d blobs, %v", asked, err)
}

// ended notes when entries were all given.
type ended struct {
	*FaultyStore
	busy *bool
}

func (s *ended) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		defer func() { *s.busy = false }()
		s.FaultyStore.Entries(ctx, from, to)(yield)
	}
}

// TestMovedRevocation is the limit of T10: the holder of a kernel key can write another history, in
// which it was revoked later. Only a kept checkpoint shows it.
func TestMovedRevocation(t *testing.T) {
	t.Parallel()
	w := newTampered(t)
	m := TakeApart(t, w.pack)
	moved(m)
	pack := m.Build()
	r, err := verifyBytes(t, pack, evidence.Options{Trust: w.o.Trust, Origin: Origin})
	assert.True(t, err == nil && r.Success(evidence.Logged) && r.History == evidence.None &&
		r.Replay.Differing+r.Replay.NotReplayable == 0, "without a checkpoint: %+v, %v", r, err)
	whole := TakeApart(t, w.pack)
	for _, size := range []int{indexOf("t2") + 1, len(whole.Nodes)} {
		r, err := verifyBytes(t, pack, evidence.Options{Trust: w.o.Trust,
			Last: LastOf(whole, size, rootOf(whole, size), Origin)})
		assert.True(t, err == nil && r.History == evidence.Diverged && !r.Success(evidence.Intact),
			"with one of size %d: %s, %v", size, r.History, err)
	}
}

// TestLastOfRotated: a last checkpoint is judged by the log keys of its own size.
func TestLastOfRotated(t *testing.T) {
	t.Parallel()
	m := NewMaker(t)
	m.add(seedL2, "log 2", registry.Log)
	m.Revoke(SeedL) // entry 2
	m.Use(FilesPolicy(1))
	m.logBy = seedL2
	m.open(SeedK1, [16]byte{})
	m.Checkpoint()
	pack := m.Pack(evidence.Write)
	whole := TakeApart(t, pack)
	for size := 1; size <= 4; size++ {
		root := rootOf(whole, size)
		for seed, from := range map[byte][2]int{SeedL: {1, 2}, seedL2: {2, 4}} {
			text := fmt.Sprintf("%s\n%d\n%s\n", Origin, size, encoded(root[:]))
			good := signNote(t, text, Origin, seed)
			bad := []byte(text + "\n" + noteLine(whole, signWith(t, SeedX, []byte(text)), seed))
			r, err := verifyBytes(t, pack, evidence.Options{Trust: m.Trust, Last: good})
			assert.True(t, err == nil && r.History == evidence.Fresh, "size %d, a line that verifies: %s, %v", size,
				r.History, err)
			counts := size >= from[0] && size <= from[1]
			r, err = verifyBytes(t, pack, evidence.Options{Trust: m.Trust, Last: bad})
			assert.Equal(t, counts, (err != nil), "size %d, a line that does not verify: %s, %v; the key counts", size,
				r.History, err)
		}
	}
}

// TestKeysByIndex has each entry of the base log signed by each of its keys: a kernel key may sign
// from the entry after the one that added it to the one that revokes it, and no other key may sign
// any.
func TestKeysByIndex(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newTampered(t)
	added, revoked := indexOf("t1"), indexOf("t2")
	good, refused, step := 0, 0, Sample(3)
	for i, name := range baseNames {
		if i%step > 0 {
			continue
		}
		for _, seed := range []byte{SeedK1, seedK2, SeedL, SeedA, seedR1, seedF}[:2+4*max(0, 1-i%8)] {
			m := TakeApart(t, w.pack)
			m.The(name).by = seed
			r, err := verifyBytes(t, m.Build(), evidence.Options{Trust: w.o.Trust})
			may := seed == SeedK1 && i <= revoked || seed == seedK2 && i > added
			switch {
			case may && (err != nil || !r.Success(evidence.Logged)):
				t.Errorf("entry %d by %d: %v", i, seed, err)
			case !may && (!errors.Is(err, errKey) || r.Level != evidence.Invalid):
				t.Errorf("entry %d by %d: %s, %v", i, seed, r.Level, err)
			case may:
				good++
			default:
				refused++
			}
		}
	}
	assert.True(t, good >= 40/step && refused >= 50/step, "only %d good ones, and %d refused, were tried", good, refused)
}

// TestInitialVersion: a log begins with an initial trust state. With a later one, keys would be
// valid that no event in the log added.
func TestInitialVersion(t *testing.T) {
	t.Parallel()
	whole := State(t)
	for version, want := range map[string]error{"1": nil, "2": errTrust, "9007199254740991": errTrust} {
		state, err := registry.ParseState(bytes.Replace(whole.Canonical(), []byte(`"version":1}`),
			[]byte(`"version":`+version+`}`), 1))
		require.NoError(t, err)
		m := newMakerOf(t, Origin, state, 0)
		m.Use(FilesPolicy(1))
		m.Checkpoint()
		pack := m.Pack(evidence.Write)
		for name, o := range map[string]evidence.Options{"given": {Trust: state}, "pinned": {Kernel: Public(t, SeedK1)},
			"nothing": {}} {
			r, err := verifyBytes(t, pack, o)
			assert.False(t, want == nil && (err != nil || r.Level != evidence.Logged), "version %s, %s: %s, %v",
				version, name, r.Level, err)
			if want != nil {
				mustRefuse(t, r, err, want)
			}
		}
	}
}

// TestOtherGenesis: of a store that returns another genesis the second time no pack is written.
func TestOtherGenesis(t *testing.T) {
	t.Parallel()
	m, other := NewMaker(t), SmallLog(t, 0)
	m.Checkpoint()
	require.NoError(t, m.Store.Append(t.Context(), proofgraph.Batch{At: 1, Blobs: [][]byte{other.Trust.Canonical()}}))
	first := contracts.Entry(TakeApart(t, other.Pack(evidence.Write)).Nodes[0].Line)
	times := 0
	s := &FaultyStore{Store: m.Store}
	s.OnEntry = func(_ int, e contracts.Entry) (contracts.Entry, error) {
		if times++; times == 1 {
			return first, nil
		}
		return e, nil
	}
	err := evidence.Write(t.Context(), io.Discard, s, Key(t, SeedK1))
	assert.True(t, err != nil && strings.Contains(err.Error(), "another genesis"), "%v", err)
}
