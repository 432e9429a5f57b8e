package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

func verifyBytes(t testing.TB, pack []byte, o Options) (Report, error) {
	t.Helper()
	return Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
}

// A testPack is a pack that must verify, and what its auditor has.
type testPack struct {
	pack   []byte
	trust  *registry.State
	last   []byte
	replay Replay // what must be counted, but for Replayed
}

// testPacks are valid packs of many shapes: the "must still pass" of the tamper catalogue, by its ids.
func testPacks(t testing.TB) map[string]testPack {
	t.Helper()
	packs := map[string]testPack{}
	pack := func(name string, m *maker, replay Replay) {
		t.Helper()
		last := m.checkpoint()
		packs[name] = testPack{m.pack(), m.trust, last, replay}
	}
	add := func(name string, replay Replay, story func(m *maker)) {
		t.Helper()
		m := newMaker(t)
		story(m)
		pack(name, m, replay)
	}
	pack("base", baseLog(t), Replay{KernelsOwn: 4})
	add("OK01 genesis", Replay{}, func(*maker) {})
	add("OK02 genesis and policy", Replay{}, func(m *maker) { m.use(testPolicy(1)) })
	add("OK04 texts", Replay{}, func(m *maker) {
		m.use(anything)
		for _, args := range []string{`{"α":"ελ","ا":"عربي"}`, `{"x":"\ud83d\ude00\u2028\u007f e\u0301 \u00e9"}`, `{"\ufb33":1,"\ud83d\ude00":2,"z":3}`} {
			m.allowed(ask{session: "main", tool: "any", args: args}).ran(args)
		}
	})
	add("OK05 and OK06 numbers", Replay{}, func(m *maker) {
		m.use(anything)
		m.allowed(ask{session: "main", tool: "any", args: `{"a":-0}`}).ran(`0`)
		m.allowed(ask{session: "main", tool: "any", args: `{"a":[1e21,5e-324,1.7976931348623157e308,9007199254740991]}`}).ran(`1e+21`)
	})
	add("OK07 deep and long", Replay{}, func(m *maker) {
		m.use(anything)
		m.call(ask{session: "main", tool: "any", args: `{"a":` + strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`}).ran(`null`)
		m.call(ask{session: "main", tool: "any", args: `{"a":"` + strings.Repeat("x", 1<<20-8) + `"}`}).ran(`null`)
	})
	add("OK08 one denial", Replay{}, func(m *maker) {
		m.use(testPolicy(1))
		m.denied(contracts.ReasonToolNotFound, ask{session: "open", tool: "x", args: `{}`})
		m.denied(contracts.ReasonToolNotFound, ask{session: "closed", tool: "x", args: `{}`})
		m.close("closed")
	})
	add("OK09 interleaved", Replay{}, interleaved)
	add("OK10 thirteen strangers", Replay{}, func(m *maker) { m.use(testPolicy(1)) })
	packs["OK10 thirteen strangers"] = strangers(t, packs["OK10 thirteen strangers"])
	add("OK11 the kernel key rotated", Replay{}, func(m *maker) {
		m.use(testPolicy(1))
		a := m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader})
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		a.ran(`[]`)
		m.revoke(seedK1)
		m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader}).ran(`[]`)
	})
	add("the log key rotated", Replay{}, func(m *maker) {
		m.use(testPolicy(1))
		m.add(seedL2, "log 2", registry.Log)
		m.revoke(seedL)
		m.logBy = seedL2
		m.open(seedK1, [16]byte{})
		m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader}).ran(`[]`)
	})
	add("keys that the last entries change", Replay{}, func(m *maker) { // manifest and checkpoint are judged by the state after them
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		m.revoke(seedK1)
		m.add(seedK3, "kernel 3", registry.Kernel)
		m.add(seedL2, "log 2", registry.Log)
		m.revoke(seedL)
		m.by, m.logBy = seedK3, seedL2
		m.open(seedK3, [16]byte{})
	})
	add("every trust event", Replay{}, everyEvent)
	add("grants", Replay{}, grants)
	add("floors and overlays that ask", Replay{}, layered)
	pack("the desk", deskLog(t).maker, Replay{})
	add("OK13 erased", Replay{NotReplayable: 2, Entries: []uint64{2, 4}}, func(m *maker) {
		m.use(testPolicy(1))
		m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader, drop: true}).end(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte(`[]`), Form: "jcs"}, false)
		m.denied(contracts.ReasonNoPolicyDefined, ask{session: "main", tool: "fs.write", args: `{"path":"/x"}`, who: reader, drop: true})
	})
	add("OK14 a call inside a call", Replay{}, func(m *maker) {
		m.use(testPolicy(1))
		a := m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader})
		b := m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader, parents: []contracts.Digest{a.entry}})
		c := m.allowed(ask{session: "s2", tool: "fs.list", args: `{}`, who: reader, parents: []contracts.Digest{a.entry, b.entry}})
		b.ran(`1`)
		a.ran(`1`)
		c.ran(`1`)
	})
	add("OK15 open, and settled by another process", Replay{}, func(m *maker) {
		m.use(testPolicy(1))
		a := m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader})
		m.allowed(ask{session: "s2", tool: "fs.list", args: `{}`, who: reader})
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.open(seedK2, [16]byte{})
		a.failed(contracts.ReasonOutcomeUnknown)
	})
	add("OK16 outside the limits", Replay{KernelsOwn: 2}, func(m *maker) {
		m.use(testPolicy(1))
		m.denied(contracts.ReasonArgsCanonicalization, ask{session: "main", tool: "fs.list", args: `{"a":1,"a":2}`, raw: true})
		m.denied(contracts.ReasonIntentMalformed, ask{session: "main", tool: contracts.Hashed(strings.Repeat("t", 129)), args: `{}`, refuse: contracts.ReasonIntentMalformed})
		m.denied(contracts.ReasonIntentMalformed, ask{session: "@refused", asked: contracts.Hashed("a b"), tool: "fs.list", args: `{}`, refuse: contracts.ReasonIntentMalformed})
	})
	add("OK17 keys", Replay{KernelsOwn: 1}, func(m *maker) {
		m.use(testPolicy(1))
		m.denied(contracts.ReasonNoPolicyDefined, ask{session: "main", tool: "fs.write", args: `{"path":"/x"}`, who: reader, key: "k"})
		m.allowed(ask{session: "main", tool: "fs.list", args: `{}`, who: reader, key: "k"}).ran(`1`)
		m.denied(contracts.ReasonIdempotencyConflict, ask{session: "main", tool: "fs.list", args: `{"depth":1}`, who: reader, key: "k", refuse: contracts.ReasonIdempotencyConflict})
		m.allowed(ask{session: "s2", tool: "fs.list", args: `{}`, who: reader, key: "k"}).ran(`1`)
	})
	add("OK18 frozen in between", Replay{KernelsOwn: 2}, func(m *maker) {
		m.use(testPolicy(1))
		list := ask{session: "main", tool: "fs.list", args: `{}`, who: reader}
		a := m.allowed(list)
		m.freeze()
		a.ran(`[]`)
		list.refuse = contracts.ReasonSystemFrozen
		m.denied(contracts.ReasonSystemFrozen, list)
		m.unfreeze()
		m.add(seedK2, "kernel 2", registry.Kernel)
		m.revoke(seedK1) // which signs that
		m.open(seedK2, [16]byte{})
		m.freeze()
		m.denied(contracts.ReasonSystemFrozen, list)
	})
	packs["a kernel's"] = kernelPack(t)
	return packs
}

// anything is a policy of one tool that takes any argument.
var anything = `{"bundle":{"name":"any","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"any","id":"all"}],"tools":{"any":{"effect":"read","input":{"properties":{` +
	`"a":{},"x":{},"z":{},"α":{},"ا":{},"\ufb33":{},"\ud83d\ude00":{}},"type":"object"}}}}`

// interleaved is five sessions whose clocks go back from one to the next.
func interleaved(m *maker) {
	m.use(testPolicy(1))
	r := rand.New(rand.NewPCG(1, 2))
	var open []*called
	for range 60 {
		s := r.IntN(5)
		m.now = testStart + contracts.Time(1000*(5-s)+r.IntN(50))
		if len(open) > 0 && r.IntN(2) == 0 {
			i := r.IntN(len(open))
			open[i].ran(`[1]`)
			open = append(open[:i], open[i+1:]...)
			continue
		}
		open = append(open, m.allowed(ask{session: fmt.Sprint("s", s), tool: "fs.list", args: `{}`, who: reader}))
	}
}

// strangers adds thirteen lines of unknown keys to the checkpoint, one of them under the log's name.
func strangers(t testing.TB, p testPack) testPack {
	m := takeApart(t, p.pack)
	m.note = func(text string) []byte {
		b := signNote(m, text, testOrigin, seedL)
		for i := range 12 {
			b = append(b, noteLineOf(m, text, fmt.Sprintf("w%d.example", i), byte(100+i))...)
		}
		return append(b, noteLineOf(m, text, testOrigin, seedX)...)
	}
	p.pack = m.build()
	return p
}

// kernelPack is of a log that a kernel wrote, with calls at once and calls inside calls.
func kernelPack(t testing.TB) testPack {
	t.Helper()
	doc := contracts.Document{Name: "files", Canonical: []byte(testPolicy(1))}
	policy, err := guardian.Compile(doc)
	if err != nil {
		t.Fatal(err)
	}
	store := proofgraph.NewMemory()
	var k *helm.Kernel
	driver := helm.Func(func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if bytes.Contains(args, []byte("depth")) {
			k.Guard(ctx, helm.Intent{Tool: "fs.stat", Args: json.RawMessage(`{}`), Caller: reader, Driver: helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil })})
		}
		return json.RawMessage(`{"text":"t"}`), nil
	})
	var mu sync.Mutex
	now := testStart.Time()
	k, err = helm.New(helm.Options{Policy: policy, Key: testKey(t, seedK1), LogKey: testKey(t, seedL), Store: store, Origin: testOrigin,
		Drivers: map[string]executor.Driver{"fs.list": driver, "fs.read": driver}, Keep: helm.Keep{Outputs: true},
		Now: func() time.Time { mu.Lock(); defer mu.Unlock(); now = now.Add(time.Millisecond); return now }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			s := fmt.Sprint("chat-", i%3)
			k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{"depth":1}`), Caller: reader, Session: s, Idempotency: fmt.Sprint(i)})
			k.Guard(ctx, helm.Intent{Tool: "fs.read", Args: json.RawMessage(`{"path":"/srv/x"}`), Caller: reader, Session: s})
			k.Guard(ctx, helm.Intent{Tool: "fs.read", Args: json.RawMessage(`{"path":"/srv/secret/x"}`), Caller: reader, Session: s})
			k.Guard(ctx, helm.Intent{Tool: "no.such", Args: json.RawMessage(`{"a":`), Caller: reader, Session: s})
			k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: reader, Session: "no name", Idempotency: fmt.Sprint(i)})
		})
	}
	wait.Wait()
	if err := k.CloseSession(ctx, "chat-1"); err != nil {
		t.Fatal(err)
	}
	k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: reader, Session: "chat-1"})
	k.Guard(ctx, helm.Intent{Tool: "fs.list", Args: json.RawMessage(`{}`), Caller: reader, Session: "chat-2", Idempotency: "2"})
	c, err := k.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(ctx, &b, store, testKey(t, seedK1)); err != nil {
		t.Fatal(err)
	}
	return testPack{b.Bytes(), k.Trust(), c.Note, Replay{KernelsOwn: 10}}
}

// TestMustStillPass: a strict verifier is not one that refuses everything.
func TestMustStillPass(t *testing.T) {
	race.Alone(t)
	for name, p := range testPacks(t) {
		t.Run(name, func(t *testing.T) {
			for _, word := range strings.Fields(name) {
				ranRow(t, word) // OK05 and OK06
			}
			r, err := verifyBytes(t, p.pack, Options{Trust: p.trust, Origin: testOrigin, Last: p.last})
			got := r.Replay
			got.Replayed = 0
			if err != nil || !r.Success(Logged) || r.History != Fresh || !reflect.DeepEqual(got, p.replay) || r.Replay.Replayed+r.Replay.KernelsOwn+r.Replay.NotReplayable != r.Allows+r.Denials {
				t.Errorf("%+v, %v", r, err)
			}
			if r.Success(Intact) != true || r.Success(Logged+1) {
				t.Error("success is not of the level asked for")
			}
			pinned, err := verifyBytes(t, p.pack, Options{Kernel: testPublic(t, seedK1)})
			if err != nil || !pinned.Success(0) || pinned.MerkleRoot != r.MerkleRoot {
				t.Errorf("with a pinned key: %+v, %v", pinned, err)
			}
			if free, err := verifyBytes(t, p.pack, Options{}); err != nil || free.Level != Logged || free.Signer != Unpinned || free.Success(Intact) {
				t.Errorf("with nothing: %+v, %v", free, err)
			}
		})
	}
}

// TestEverySize verifies logs of each size, so each shape of tree, and compares the root with that of package tlog.
func TestEverySize(t *testing.T) {
	race.Alone(t)
	ranRow(t, "OK03")
	m := newMaker(t)
	m.use(testPolicy(1))
	var hashes tlogHashes
	for n := int64(1); n <= 130; n++ {
		if n > 2 {
			m.denied(contracts.ReasonToolNotFound, ask{session: fmt.Sprint("s", n%7), tool: "x", args: `{}`})
		}
		if n == 1 {
			m = newMaker(t)
		}
		if n == 2 {
			m.use(testPolicy(1))
		}
		last := m.checkpoint()
		pack := m.pack()
		r, err := verifyBytes(t, pack, Options{Trust: m.trust, Last: last})
		if err != nil || r.Size != uint64(n) || !r.Success(0) {
			t.Fatalf("size %d: %+v, %v", n, r, err)
		}
		nodes := takeApart(t, pack).nodes
		more, err := tlog.StoredHashes(n-1, nodes[n-1].line, &hashes)
		if err != nil {
			t.Fatal(err)
		}
		hashes = append(hashes, more...)
		if root, err := tlog.TreeHash(n, &hashes); err != nil || contracts.Digest(root) != r.MerkleRoot {
			t.Fatalf("size %d: root %s, tlog has %s, %v", n, r.MerkleRoot, root, err)
		}
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
