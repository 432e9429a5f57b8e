package erasure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/shared"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
	"github.com/helmkernel/helm/trust/registry"
)

// TestEraseFromFiles: of a log in files, that a kernel writes to and one that is closed, nothing in
// the directory has the arguments or the outputs any more, and both packs verify: the one from
// before with every verdict, the one from after with the others.
func TestEraseFromFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "log")
	s, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	defer func() { s.Close() }()
	c := newFixture(t, s)
	traces := func(label string) (n int) {
		names, err := filepath.Glob(filepath.Join(dir, "*"))
		require.True(t, err == nil && len(names) >= 2, "%v %v", names, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			n += bytes.Count(b, []byte(secretOf(label)))
		}
		return n
	}
	packBefore, before := c.pack(nil)
	require.True(t, before.Replay.NotReplayable == 0 && before.Erased == nil, "%+v", before)
	for round, x := range []struct {
		which  erasure.Selection
		labels []string
	}{
		{erasure.Selection{Sessions: []string{"s1"}}, []string{"0", "1", "2", "8"}},
		{erasure.Selection{Callers: []contracts.Caller{aliceOf, alice}},
			[]string{"0", "2", "4", "5", "6", "7", "13", "16"}},
	} {
		if round == 1 { // without a kernel
			require.NoError(t, errors.Join(c.kernel.Close(), s.Close()))
			s, err = filestore.Open(dir, filestore.Options{})
			require.NoError(t, err)
			c.store = s
			x.which.Callers[0].Roles = nil
		}
		for _, label := range x.labels {
			assert.False(t, round == 0 && traces(label) == 0, "call %s is nowhere", label)
		}
		c.mustErase(x.which)
		for _, label := range x.labels {
			if n := traces(label); n != 0 {
				t.Errorf("something of call %s is there %d times", label, n)
			}
		}
	}
	assert.True(t, traces("3") != 0 && traces("11") != 0, "the calls of others are gone too")
	c.lacks("0 1 2 4 5 6 7 8 13 16")
	c.open()
	packAfter, after := c.pack(before.Checkpoint)
	if after.History != evidence.Fresh || after.Replay.NotReplayable != 10 ||
		after.Replay.KernelsOwn != before.Replay.KernelsOwn-2 || after.Replay.Replayed != before.Replay.Replayed-8 ||
		len(after.Replay.Entries) != 10 {
		t.Errorf("%+v after %+v", after.Replay, before.Replay)
	}
	if r, err := filestore.OpenReadOnly(dir); err != nil {
		t.Error(err)
	} else {
		v, err := evidence.VerifyStore(t.Context(), r, evidence.Options{Trust: c.trust,
			Origin: forge.Origin})
		assert.True(t, err == nil && slices.Equal(v.Erased, after.Erased) && v.Replay.NotReplayable == 10,
			"in place: %+v, %v", v, err)
		_, err = erasure.Erase(t.Context(), r, erasure.Selection{Sessions: []string{"s2"}})
		assert.True(t, err != nil && strings.Contains(err.Error(), "read only"), "read only: %v", err)
		r.Close()
	}
	r, err := verifyBytes(t, packBefore, evidence.Options{Trust: c.trust, Origin: forge.Origin})
	assert.True(t, err == nil && r.Erased == nil && r.Replay.NotReplayable == 0, "the pack from before: %+v, %v", r,
		err)
	for _, label := range []string{"0", "13"} {
		assert.True(t, !bytes.Contains(packAfter, []byte(secretOf(label))) && bytes.Contains(packBefore,
			[]byte(secretOf(label))), "call %s is in the pack from after, or was in none", label)
	}
	agrees(t, packBefore, c.trust)
	agrees(t, packAfter, c.trust)
}

// TestEraseRefuses: what cannot be done, or is a mistake, is an error, and then nothing is erased.
func TestEraseRefuses(t *testing.T) {
	t.Parallel()
	c := newFixture(t, proofgraph.NewMemory())
	over, cancel := context.WithCancel(t.Context())
	cancel()
	all := erasure.Selection{Sessions: []string{"s1", "s2"}}
	for name, x := range map[string]struct {
		ctx   context.Context
		store proofgraph.Store
		which erasure.Selection
		want  string
	}{
		"no store":             {t.Context(), nil, all, "no store was given"},
		"no eraser":            {t.Context(), struct{ proofgraph.Store }{c.store}, all, "the store cannot erase"},
		"nothing":              {t.Context(), c.store, erasure.Selection{}, "nothing is selected"},
		"a session of no name": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1", ""}}, `"main"`},
		"roles": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Callers: []contracts.Caller{aliceOf}}, "Roles"},
		"a hash of nothing": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Receipts: []contracts.Digest{{1}}}, "is not in the log"},
		"a hash of inputs": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Receipts: []contracts.Digest{c.calls[0].inputs}}, "is not in the log"},
		"an index behind": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Entries: []uint64{1000}}, "entry 1000 is not in the log"},
		"the genesis": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Entries: []uint64{0}}, "entry 0 is a genesis"},
		"a policy": {t.Context(), c.store, erasure.Selection{Sessions: []string{"s1"},
			Entries: []uint64{1}}, "entry 1 is a policy"},
		"a context that ended":  {over, c.store, all, "context canceled"},
		"a store that is wrong": {t.Context(), misreading{c.store.(*proofgraph.Memory)}, all, "entry 0: "},
	} {
		e, err := erasure.Erase(x.ctx, x.store, x.which)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), "evidence: erase: ") &&
			strings.Contains(err.Error(), x.want) && e.Calls == nil && e.Size == 0, "%s: %+v, %v", name, e, err)
	}
	c.lacks("")
}

// A misreading store yields bytes that are no entries.
type misreading struct{ *proofgraph.Memory }

func (m misreading) Entries(context.Context, uint64, uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) { yield(contracts.Entry("{}"), nil) }
}

// TestEraseGoesOn: it fails at each blob in turn, says how far it came, and a second call ends what
// the first began.
func TestEraseGoesOn(t *testing.T) {
	t.Parallel()
	which := erasure.Selection{Callers: []contracts.Caller{alice, {ID: "alice", Tenant: "acme"}}}
	for n := 0; ; n++ {
		c := newFixture(t, proofgraph.NewMemory())
		s := &reluctant{Memory: c.store.(*proofgraph.Memory), left: n}
		e, err := erasure.Erase(t.Context(), s, which)
		if err == nil {
			assert.True(t, n >= 10 && len(e.Erased) == n, "%d erased, of %d", len(e.Erased), n)
			return
		}
		require.True(t, errors.Is(err, errTool) && strings.Contains(err.Error(), "call it again") && e.Calls == nil,
			"after %d: %+v, %v", n, e, err)
		again := c.mustErase(which)
		assert.Len(t, again.Gone, n, "%d were gone", len(again.Gone))
		c.lacks("0 2 4 5 6 7 13 16")
	}
}

// A reluctant store erases so many blobs, and then fails.
type reluctant struct {
	*proofgraph.Memory
	left int
}

func (s *reluctant) EraseBlob(ctx context.Context, d contracts.Digest) error {
	if s.left--; s.left < 0 {
		return errTool
	}
	return s.Memory.EraseBlob(ctx, d)
}

// TestEraseBesideCalls: calls go on while the log is erased from, by the same callers and others.
// What is not selected stays, and the log verifies.
func TestEraseBesideCalls(t *testing.T) {
	t.Parallel()
	s, err := filestore.Open(filepath.Join(t.TempDir(), "log"), filestore.Options{})
	require.NoError(t, err)
	defer s.Close()
	c := newFixture(t, s)
	var all sync.WaitGroup
	var mu sync.Mutex
	const calls = 40
	kept := map[contracts.Digest]bool{}
	for i := range 3 {
		all.Go(func() {
			for n := range calls {
				d, r := c.kernel.Guard(context.Background(),
					helm.Intent{Tool: "echo", Session: fmt.Sprint("busy", i),
						Caller: []contracts.Caller{alice, bob, bob}[i],
						Args:   json.RawMessage(fmt.Sprintf(`{"who":"%d-%d"}`, i, n))})
				if d.Err() != nil || r.Output == nil {
					t.Error(d.Err())
					return
				}
				if i > 0 {
					mu.Lock()
					kept[d.Record.InputsHash] = true
					kept[crypto.Sum(r.Output)] = true
					mu.Unlock()
				}
			}
		})
	}
	for range 4 {
		c.mustErase(erasure.Selection{Sessions: []string{"s1"}, Callers: []contracts.Caller{alice}})
	}
	all.Wait()
	c.mustErase(erasure.Selection{Callers: []contracts.Caller{alice}})
	for d := range kept {
		_, err := s.Blob(t.Context(), d)
		assert.NoError(t, err, "of another caller")
	}
	c.lacks("0 1 2 4 7 8 13")
	assert.Len(t, kept, 4*calls, "%d blobs", len(kept))
	_, r := c.pack(nil)
	assert.True(t, r.Replay.NotReplayable != 0 && len(r.Erased) != 0 && len(r.Open) == 0, "%+v", r)
}

// TestEraseKeepsDocuments: a tool whose output is a document that the log needs cannot have it
// erased.
func TestEraseKeepsDocuments(t *testing.T) {
	t.Parallel()
	c := newFixture(t, proofgraph.NewMemory())
	c.call(&testCall{tool: "none", session: "papers"})
	document := crypto.Sum(forge.CanonicalText(t, fixturePolicy))
	if e := c.mustErase(erasure.Selection{Sessions: []string{"papers"}}); !slices.Equal(e.Kept,
		[]contracts.Digest{document}) || len(e.Erased) != 1 {
		t.Errorf("%+v", e)
	}
	require.NoError(t, c.kernel.Close())
	c.open()
	_, r := c.pack(nil)
	assert.Len(t, r.Erased, 1, "%+v", r)
}

// TestEraseKeepsWhatOthersBegin: an entry that comes while blobs are erased, and names one of them,
// keeps it.
func TestEraseKeepsWhatOthersBegin(t *testing.T) {
	t.Parallel()
	c := newFixture(t, proofgraph.NewMemory())
	out := []byte(`{"who":"` + secretOf("0") + `"}`) // as call 0 got it
	require.Equal(t, crypto.Sum(out), *c.calls[0].output, "not the output of call 0")
	s := &interrupted{Memory: c.store.(*proofgraph.Memory)}
	late := *c.calls[0]
	s.do = func() {
		d, _ := c.kernel.Guard(t.Context(), helm.Intent{Tool: "echo", Session: "late", Caller: bob, Args: out})
		if !d.Allowed() {
			t.Error(d.Err())
		}
	}
	e, err := erasure.Erase(t.Context(), s, erasure.Selection{Entries: []uint64{late.receipt}})
	require.True(t, err == nil && len(e.Kept) == 1 && e.Kept[0] == *late.output && !slices.Contains(e.Erased,
		*late.output), "%+v, %v", e, err)
	b, err := c.store.Blob(t.Context(), *late.output)
	assert.True(t, err == nil && bytes.Equal(b, out), "%v", err)
}

// An interrupted store does something before the first erasure, or before it would be looked for.
type interrupted struct {
	*proofgraph.Memory
	do    func()
	sizes int
}

func (s *interrupted) Size(ctx context.Context) (uint64, error) {
	if s.sizes++; s.sizes == 2 { // the log was read, and nothing was erased
		s.do()
	}
	return s.Memory.Size(ctx)
}

// agrees has the second implementation verify a pack: it must say the same of it.
func agrees(t *testing.T, pack []byte, trust *registry.State) {
	t.Helper()
	r, err := verifyBytes(t, pack, evidence.Options{Trust: trust, Origin: forge.Origin})
	require.NoError(t, err)
	file := func(name string, b []byte) string {
		name = filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(name, b, 0o600))
		return name
	}
	program := shared.Oracle(t, "not compared with the second implementation: packs from before and after an erasure")
	out, err := exec.CommandContext(t.Context(), program, "verify", "-trust",
		file("trust.json", trust.Canonical()),
		"-origin", forge.Origin, file("pack.tar", pack)).Output()
	require.NoError(t, err, "%s", out)
	var theirs forge.Finding
	require.NoError(t, json.Unmarshal(out, &theirs))
	require.Equal(t, forge.FindingOf(t, r), theirs)
}
