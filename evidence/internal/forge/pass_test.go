package forge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

func verifyBytes(t testing.TB, pack []byte, o evidence.Options) (evidence.Report, error) {
	t.Helper()
	return evidence.Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
}

// A testPack is a pack that must verify, and what its auditor has.
type testPack struct {
	pack   []byte
	trust  *registry.State
	last   []byte
	replay evidence.Replay // what must be counted, but for Replayed
}

// testPacks are valid packs of many shapes: the "must still pass" of the tamper catalogue, by its
// ids.
func testPacks(t testing.TB) map[string]testPack {
	t.Helper()
	packs := map[string]testPack{}
	pack := func(name string, m *Maker, replay evidence.Replay) {
		t.Helper()
		last := m.Checkpoint()
		packs[name] = testPack{m.Pack(evidence.Write), m.Trust, last, replay}
	}
	add := func(name string, replay evidence.Replay, story func(m *Maker)) {
		t.Helper()
		m := NewMaker(t)
		story(m)
		pack(name, m, replay)
	}
	pack("base", BaseLog(t), evidence.Replay{KernelsOwn: 4})
	add("OK01 genesis", evidence.Replay{}, func(*Maker) {})
	add("OK02 genesis and policy", evidence.Replay{}, func(m *Maker) { m.Use(FilesPolicy(1)) })
	add("OK04 texts", evidence.Replay{}, func(m *Maker) {
		m.Use(Anything)
		for _, args := range []string{`{"α":"ελ","ا":"عربي"}`, `{"x":"\ud83d\ude00\u2028\u007f e\u0301 \u00e9"}`,
			`{"\ufb33":1,"\ud83d\ude00":2,"z":3}`} {
			m.Allowed(Ask{Session: "main", Tool: "any", Args: args}).Ran(args)
		}
	})
	add("OK05 and OK06 numbers", evidence.Replay{}, func(m *Maker) {
		m.Use(Anything)
		m.Allowed(Ask{Session: "main", Tool: "any", Args: `{"a":-0}`}).Ran(`0`)
		m.Allowed(Ask{Session: "main", Tool: "any",
			Args: `{"a":[1e21,5e-324,1.7976931348623157e308,9007199254740991]}`}).Ran(`1e+21`)
	})
	add("OK07 deep and long", evidence.Replay{}, func(m *Maker) {
		m.Use(Anything)
		m.Call(Ask{Session: "main", Tool: "any", Args: `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]",
			63) + `}`}).Ran(`null`)
		m.Call(Ask{Session: "main", Tool: "any", Args: `{"a":"` + strings.Repeat("x", 1<<20-8) + `"}`}).Ran(`null`)
	})
	add("OK08 one denial", evidence.Replay{}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		m.Denied(contracts.ReasonToolNotFound, Ask{Session: "open", Tool: "x", Args: `{}`})
		m.Denied(contracts.ReasonToolNotFound, Ask{Session: "closed", Tool: "x", Args: `{}`})
		m.Close("closed")
	})
	add("OK09 interleaved", evidence.Replay{}, interleaved)
	add("OK10 thirteen strangers", evidence.Replay{}, func(m *Maker) { m.Use(FilesPolicy(1)) })
	packs["OK10 thirteen strangers"] = strangers(t, packs["OK10 thirteen strangers"])
	add("OK11 the kernel key rotated", evidence.Replay{}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		a := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader})
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		a.Ran(`[]`)
		m.Revoke(SeedK1)
		m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	})
	add("the log key rotated", evidence.Replay{}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		m.add(seedL2, "log 2", registry.Log)
		m.Revoke(SeedL)
		m.logBy = seedL2
		m.open(SeedK1, [16]byte{})
		m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	})
	// manifest and checkpoint are judged by the state after them
	add("keys that the last entries change", evidence.Replay{}, func(m *Maker) {
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		m.Revoke(SeedK1)
		m.add(seedK3, "kernel 3", registry.Kernel)
		m.add(seedL2, "log 2", registry.Log)
		m.Revoke(SeedL)
		m.By, m.logBy = seedK3, seedL2
		m.open(seedK3, [16]byte{})
	})
	add("every trust event", evidence.Replay{}, everyEvent)
	add("grants", evidence.Replay{}, Grants)
	add("floors and overlays that ask", evidence.Replay{}, layered)
	pack("the desk", FixtureLog(t).Maker, evidence.Replay{})
	add("OK13 erased", evidence.Replay{NotReplayable: 2, Entries: []uint64{2, 4}}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader,
			Drop: true}).End(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte(`[]`), Form: "jcs"}, false)
		m.Denied(contracts.ReasonNoPolicyDefined, Ask{Session: "main", Tool: "fs.write", Args: `{"path":"/x"}`,
			Who: Reader, Drop: true})
	})
	add("OK14 a call inside a call", evidence.Replay{}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		a := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader})
		b := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader,
			Parents: []contracts.Digest{a.Entry}})
		c := m.Allowed(Ask{Session: "s2", Tool: "fs.list", Args: `{}`, Who: Reader,
			Parents: []contracts.Digest{a.Entry, b.Entry}})
		b.Ran(`1`)
		a.Ran(`1`)
		c.Ran(`1`)
	})
	add("OK15 open, and settled by another process", evidence.Replay{}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		a := m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader})
		m.Allowed(Ask{Session: "s2", Tool: "fs.list", Args: `{}`, Who: Reader})
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		a.Failed(contracts.ReasonOutcomeUnknown)
	})
	add("OK16 outside the limits", evidence.Replay{KernelsOwn: 2}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		m.Denied(contracts.ReasonArgsCanonicalization, Ask{Session: "main", Tool: "fs.list", Args: `{"a":1,"a":2}`,
			Raw: true})
		m.Denied(contracts.ReasonIntentMalformed, Ask{Session: "main", Tool: contracts.Hashed(strings.Repeat("t", 129)),
			Args: `{}`, refuse: contracts.ReasonIntentMalformed})
		m.Denied(contracts.ReasonIntentMalformed, Ask{Session: "@refused", asked: contracts.Hashed("a b"),
			Tool: "fs.list", Args: `{}`, refuse: contracts.ReasonIntentMalformed})
	})
	add("OK17 keys", evidence.Replay{KernelsOwn: 1}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		m.Denied(contracts.ReasonNoPolicyDefined, Ask{Session: "main", Tool: "fs.write", Args: `{"path":"/x"}`,
			Who: Reader, key: "k"})
		m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader, key: "k"}).Ran(`1`)
		m.Denied(contracts.ReasonIdempotencyConflict, Ask{Session: "main", Tool: "fs.list", Args: `{"depth":1}`,
			Who: Reader, key: "k", refuse: contracts.ReasonIdempotencyConflict})
		m.Allowed(Ask{Session: "s2", Tool: "fs.list", Args: `{}`, Who: Reader, key: "k"}).Ran(`1`)
	})
	add("OK18 frozen in between", evidence.Replay{KernelsOwn: 2}, func(m *Maker) {
		m.Use(FilesPolicy(1))
		list := Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader}
		a := m.Allowed(list)
		m.freeze()
		a.Ran(`[]`)
		list.refuse = contracts.ReasonSystemFrozen
		m.Denied(contracts.ReasonSystemFrozen, list)
		m.unfreeze()
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.Revoke(SeedK1) // which signs that
		m.open(seedK2, [16]byte{})
		m.freeze()
		m.Denied(contracts.ReasonSystemFrozen, list)
	})
	packs["a kernel's"] = kernelPack(t)
	return packs
}

// interleaved is five sessions whose clocks go back from one to the next.
func interleaved(m *Maker) {
	m.Use(FilesPolicy(1))
	r := rand.New(rand.NewPCG(1, 2))
	var open []*Called
	for range 60 {
		s := r.IntN(5)
		m.Now = Start + contracts.Time(1000*(5-s)+r.IntN(50))
		if len(open) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(open))
			open[i].Ran(`[1]`)
			open = append(open[:i], open[i+1:]...)
			continue
		}
		open = append(open, m.Allowed(Ask{Session: fmt.Sprint("s", s), Tool: "fs.list", Args: `{}`, Who: Reader}))
	}
}

// strangers adds thirteen lines of unknown keys to the checkpoint, one of them under the log's
// name.
func strangers(t testing.TB, p testPack) testPack {
	m := TakeApart(t, p.pack)
	m.note = func(text string) []byte {
		b := signNote(m, text, Origin, SeedL)
		for i := range 12 {
			b = append(b, noteLineOf(m, text, fmt.Sprintf("w%d.example", i), byte(100+i))...)
		}
		return append(b, noteLineOf(m, text, Origin, SeedX)...)
	}
	p.pack = m.Build()
	return p
}

// kernelPack is of a log that a kernel wrote, with calls at once and calls inside calls.
func kernelPack(t testing.TB) testPack {
	t.Helper()
	doc := contracts.Document{Name: "files", Canonical: []byte(FilesPolicy(1))}
	policy, err := guardian.Compile(doc)
	require.NoError(t, err)
	store := proofgraph.NewMemory()
	var k *helm.Kernel
	driver := helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if bytes.Contains(args, []byte("depth")) {
			k.Guard(ctx, helm.Intent{Tool: "fs.stat", Args: json.RawMessage(`{}`), Caller: Reader,
				Driver: helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil })})
		}
		return json.RawMessage(`{"text":"t"}`), nil
	})
	var mu sync.Mutex
	now := Start.Time()
	k, err = helm.New(helm.Options{Policy: policy, Key: Key(t, SeedK1), LogKey: Key(t, SeedL), Store: store,
		Origin:  Origin,
		Drivers: map[string]executor.Driver{"fs.list": driver, "fs.read": driver}, Keep: helm.Keep{Outputs: true},
		Now: func() time.Time { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Millisecond); return now }})
	require.NoError(t, err)
	ctx := context.Background()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			s := fmt.Sprint("chat-", i%3)
			k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{"depth":1}`), Caller: Reader, Session: s,
				Idempotency: fmt.Sprint(i)})
			k.Guard(ctx, helm.Intent{Tool: "fs.read", Args: json.RawMessage(`{"path":"/srv/x"}`), Caller: Reader,
				Session: s})
			k.Guard(ctx, helm.Intent{Tool: "fs.read", Args: json.RawMessage(`{"path":"/srv/secret/x"}`), Caller: Reader,
				Session: s})
			k.Guard(ctx, helm.Intent{Tool: "no.such", Args: json.RawMessage(`{"a":`), Caller: Reader, Session: s})
			k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: Reader, Session: "no name",
				Idempotency: fmt.Sprint(i)})
		})
	}
	wait.Wait()
	require.NoError(t, k.CloseSession(ctx, "chat-1"))
	k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: Reader, Session: "chat-1"})
	k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: Reader, Session: "chat-2",
		Idempotency: "2"})
	c, err := k.Checkpoint(ctx)
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, evidence.Write(ctx, &b, store, Key(t, SeedK1)))
	return testPack{b.Bytes(), k.Trust(), c.Note, evidence.Replay{KernelsOwn: 10}}
}

// cosignedLater returns a checkpoint with the lines of the witnesses, and none of the log.
func cosignedLater(t testing.TB, mark []byte) []byte {
	t.Helper()
	text, _, ok := strings.Cut(string(mark), "\n\n")
	require.True(t, ok)
	return []byte(text + "\n\n" + cosignatures(t, text+"\n"))
}

// TestMustStillPass: a strict verifier is not one that refuses everything.
func TestMustStillPass(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			for _, word := range strings.Fields(name) {
				ranRow(t, word) // OK05 and OK06
			}
			r, err := verifyBytes(t, p.pack, evidence.Options{Trust: p.trust, Origin: Origin, Last: p.last})
			got := r.Replay
			got.Replayed = 0
			if err != nil || !r.Success(evidence.Logged) || r.History != evidence.Fresh ||
				!reflect.DeepEqual(got, p.replay) ||
				r.Replay.Replayed+r.Replay.KernelsOwn+r.Replay.NotReplayable != r.Allows+r.Denials {
				t.Errorf("%+v, %v", r, err)
			}
			assert.True(t, r.Success(evidence.Intact) == true && !r.Success(evidence.Witnessed),
				"success is not of the level asked for")
			ranRow(t, "OK19")
			later, err := verifyBytes(t, p.pack, evidence.Options{Trust: p.trust, Origin: Origin, Last: p.last,
				Witnesses: WitnessKeys(t), Quorum: 2, Cosigned: cosignedLater(t, r.Checkpoint)})
			assert.True(t, err == nil && later.Success(0) && later.Level == evidence.Witnessed,
				"cosigned later: %+v, %v", later, err)
			pinned, err := verifyBytes(t, p.pack, evidence.Options{Kernel: Public(t, SeedK1)})
			assert.True(t, err == nil && pinned.Success(0) && pinned.MerkleRoot == r.MerkleRoot,
				"with a pinned key: %+v, %v", pinned, err)
			if free, err := verifyBytes(t, p.pack, evidence.Options{}); err != nil || free.Level != evidence.Logged ||
				free.Signer != evidence.Unpinned || free.Success(evidence.Intact) {
				t.Errorf("with nothing: %+v, %v", free, err)
			}
		})
	}
}

// TestEverySize verifies logs of each size, so each shape of tree, and compares the root with that
// of package tlog.
func TestEverySize(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	ranRow(t, "OK03")
	m := NewMaker(t)
	m.Use(FilesPolicy(1))
	var hashes tlogHashes
	for n := int64(1); n <= 130/int64(Sample(2)); n++ {
		if n > 2 {
			m.Denied(contracts.ReasonToolNotFound, Ask{Session: fmt.Sprint("s", n%7), Tool: "x", Args: `{}`})
		}
		if n == 1 {
			m = NewMaker(t)
		}
		if n == 2 {
			m.Use(FilesPolicy(1))
		}
		last := m.Checkpoint()
		pack := m.Pack(evidence.Write)
		r, err := verifyBytes(t, pack, evidence.Options{Trust: m.Trust, Last: last})
		require.True(t, err == nil && r.Size == uint64(n) && r.Success(0), "size %d: %+v, %v", n, r, err)
		nodes := TakeApart(t, pack).Nodes
		more, err := tlog.StoredHashes(n-1, nodes[n-1].Line, &hashes)
		require.NoError(t, err)
		hashes = append(hashes, more...)
		root, err := tlog.TreeHash(n, &hashes)
		require.True(t, err == nil && contracts.Digest(root) == r.MerkleRoot, "size %d: root %s, tlog has %s, %v", n,
			r.MerkleRoot, root, err)
	}
}

type tlogHashes []tlog.Hash

func (h *tlogHashes) ReadHashes(at []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range at {
		out = append(out, (*h)[i])
	}
	return out, nil
}

// everyEvent makes trust events of every type, by every role that has a say, with calls in between.
func everyEvent(m *Maker) {
	m.Use(FilesPolicy(1))
	between := func() {
		m.Helper()
		m.Allowed(Ask{Session: "main", Tool: "fs.list", Args: `{}`, Who: Reader}).Ran(`[]`)
	}
	for i, role := range []registry.Role{registry.Publisher, registry.Attestor, registry.Witness, registry.Freezer} {
		m.add(byte(100+i), "new", role)
		between()
	}
	m.add(seedA2, "zoe", registry.Approver, "lead", "owner")
	m.add(104, strings.Repeat("c", 256), registry.Delegator, "reader")
	between()
	for i := range byte(3) {
		by := [][]byte{{104}, {seedR3, seedR1}, {seedR1, seedR2, seedR3, 104}}[i]
		grant := crypto.Sum([]byte{i})
		m.govern(contracts.TrustEvent{Type: "undelegate", Delegation: &grant, Delegator: strings.Repeat("c", 256)}, nil,
			by...)
		between()
	}
	m.Revoke(seedA2)
	for _, by := range []byte{seedR1, 103} {
		m.govern(contracts.TrustEvent{Type: "freeze", Why: "an incident"}, nil, by)
		m.govern(contracts.TrustEvent{Type: "unfreeze", Why: "over"}, nil, seedR2, seedR3)
		between()
	}
	root := func(threshold uint64, by []byte, seeds ...byte) {
		m.Helper()
		e := contracts.TrustEvent{Type: "root", Threshold: threshold}
		for _, seed := range seeds {
			e.Keys = append(e.Keys, contracts.RootKey{Name: "root", Public: Public(m, seed)})
		}
		m.govern(e, seeds, by...)
		between()
	}
	root(1, []byte{seedR1, seedR2}, seedR1, seedR2, seedR3) // another threshold
	root(2, []byte{seedR1, seedR4, 105}, seedR4, 105)       // others altogether
	root(1, []byte{seedR4, 105}, 105)                       // one
	m.govern(contracts.TrustEvent{Type: "freeze", Why: "the end"}, nil, 105)
}

// backTested returns what a candidate would change. It compares the old verdicts with the log, and
// the numbers to each other.
func backTested(t testing.TB, pack []byte, o evidence.Options,
	candidate *guardian.Policy) (evidence.Differences, []evidence.Change) {
	t.Helper()
	var changes []evidence.Change
	d, err := evidence.BackTest(t.Context(), bytes.NewReader(pack), int64(len(pack)), o, candidate,
		func(c evidence.Change) error {
			changes = append(changes, c)
			return nil
		})
	require.NoError(t, err)
	r := d.Report
	require.True(t,
		r.Level == evidence.Logged && d.Judged+uint64(len(d.Unjudged))+r.Replay.KernelsOwn == r.Allows+r.Denials &&
			d.Judged == d.Same+d.Denied+d.Allowed+d.Anew+d.Otherwise, "%+v", d)
	log := DecisionsIn(t, pack)
	var told evidence.Differences
	last := int64(-1)
	for _, c := range changes {
		x, ok := log[c.Index]
		if !ok || int64(c.Index) <= last || c.ID != x.ID || c.Tool != x.Tool ||
			c.Then != (evidence.Judged{Verdict: x.Verdict, Reason: x.Reason, Condition: x.Condition, Rule: x.Rule}) ||
			c.Now == c.Then {
			t.Fatalf("%+v, of %+v, behind %d", c, x, last)
		}
		last = int64(c.Index)
		switch {
		case c.Anew && c.Then.Verdict == contracts.Allow && c.Now.Verdict == contracts.Deny:
			told.Anew++
		case c.Then.Verdict == c.Now.Verdict:
			told.Otherwise++
		case c.Now.Verdict == contracts.Deny:
			told.Denied++
		default:
			told.Allowed++
		}
	}
	require.True(t, told.Denied == d.Denied && told.Allowed == d.Allowed && told.Anew == d.Anew &&
		told.Otherwise == d.Otherwise, "%+v are counted, %+v told", d, told)
	return d, changes
}

// A gone reader has an error for every byte.
type gone struct{}

func (gone) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

var errDisk = errors.New("the disk is gone")

func openBytes(t testing.TB, pack []byte, o evidence.Options) *evidence.Pack {
	t.Helper()
	p, r, err := evidence.OpenPack(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
	want, werr := verifyBytes(t, pack, o)
	require.True(t, p != nil && err == nil && werr == nil && reflect.DeepEqual(r, want), "%+v, %v\nVerify says %+v, %v",
		r, err, want, werr)
	return p
}

// gathered are the entries of a range, as far as they come.
func gathered(ctx context.Context, p *evidence.Pack, from, to uint64) (list []contracts.Entry, err error) {
	for e, err := range p.Entries(ctx, from, to) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}
