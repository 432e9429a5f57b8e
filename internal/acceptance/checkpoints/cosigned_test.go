package checkpoints

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// memory is the state of a witness.
type memory struct{ notes map[string][]byte }

func (m *memory) Latest(_ context.Context, origin string) ([]byte, error) {
	return m.notes[origin], nil
}

func (m *memory) Swap(_ context.Context, origin string, was, now []byte) error {
	if !bytes.Equal(m.notes[origin], was) {
		return witness.ErrChanged
	}
	m.notes[origin] = now
	return nil
}

// newWitness returns a witness of the worlds' log, and its verifier key.
func newWitness(t *testing.T, name string) (*witness.Witness, string) {
	t.Helper()
	w := &witness.Witness{Name: name, Key: kerneltest.NamedKey(t, name), State: &memory{map[string][]byte{}},
		Logs: func(origin string) []string {
			return []string{proofgraph.VerifierKey(origin, kerneltest.Public(t, 9))}
		}}
	vkey, err := w.VerifierKey()
	require.NoError(t, err)
	return w, vkey
}

// watched makes a world with two witnesses, both of which are the quorum.
func watched(t *testing.T, change ...func(*helm.Options)) (*kerneltest.World, []*witness.Witness) {
	t.Helper()
	a, av := newWitness(t, "a.example")
	b, bv := newWitness(t, "b.example")
	w := kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
		o.LogKey = kerneltest.SeedKey(t, 9)
		o.Checkpoint.Witnesses, o.Checkpoint.Quorum = []string{av, bv}, 2
	}}, change...)...)
	return w, []*witness.Witness{a, b}
}

// cosign asks a witness, with the proof of the kernel, and returns the note with its line.
func cosign(k *helm.Kernel, w *witness.Witness, c proofgraph.Checkpoint, note []byte) ([]byte, error) {
	ctx := context.Background()
	var proof []contracts.Digest
	line, err := w.Add(ctx, 0, nil, c.Note)
	if conflict := new(witness.Conflict); errors.As(err, &conflict) {
		if proof, err = k.Consistency(ctx, conflict.Size, c.Size); err != nil {
			return nil, err
		}
		line, err = w.Add(ctx, conflict.Size, proof, c.Note)
	}
	return append(bytes.Clone(note), line...), err
}

// A checkpoint that the witnesses cosigned, who had the kernel's proofs, is in packs with their
// lines, and so it is after the log was opened again.
func TestCosigned(t *testing.T) {
	t.Parallel()
	w, by := watched(t)
	report := func() evidence.Report {
		t.Helper()
		r, err := evidence.VerifyStore(t.Context(), w.Store, evidence.Options{Trust: w.Kernel.Trust(),
			Witnesses: w.Options.Checkpoint.Witnesses, Quorum: 2})
		require.NoError(t, err)
		return r
	}
	var first proofgraph.Checkpoint
	for round := range 3 {
		w.Call("echo", `{"text":"x"}`)
		c, err := w.Kernel.Checkpoint(t.Context())
		require.NoError(t, err)
		if round == 0 {
			first = c
		}
		assert.Equal(t, evidence.Logged, report().Level)
		note, err := cosign(w.Kernel, by[0], c, c.Note)
		require.NoError(t, err)
		require.NoError(t, w.Kernel.Cosigned(t.Context(), note))
		assert.Equal(t, evidence.Logged, report().Level)
		note, err = cosign(w.Kernel, by[1], c, c.Note)
		require.NoError(t, err)
		n := w.Kernel
		if round == 1 {
			n = w.Narrow(n, kerneltest.Overlay(t, "task", 1, 5))
		}
		require.NoError(t, n.Cosigned(t.Context(), note), "of the other alone")
		assert.Equal(t, evidence.Witnessed, report().Level)
	}
	require.ErrorIs(t, w.Kernel.Cosigned(t.Context(), first.Note), helm.ErrOlder)
	stored, err := w.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	w.Reopen()
	again, err := w.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	assert.Equal(t, string(stored), string(again))
	assert.Equal(t, evidence.Witnessed, report().Level)
	require.NoError(t, w.Kernel.Cosigned(t.Context(), stored))
	w.MustVerify()
}

// Close makes the last checkpoint, and keeps what Done has cosigned of it. After that nothing is
// taken.
func TestCosignedWhileItCloses(t *testing.T) {
	t.Parallel()
	var w *kerneltest.World
	var by []*witness.Witness
	var failed atomic.Pointer[error]
	var ready atomic.Bool
	w, by = watched(t, func(o *helm.Options) {
		o.Checkpoint.After = time.Hour
		o.Checkpoint.Done = func(ctx context.Context, c proofgraph.Checkpoint) {
			note := c.Note
			var err error
			for _, b := range by {
				if err == nil {
					note, err = cosign(w.Kernel, b, c, note)
				}
			}
			if err == nil {
				err = w.Kernel.Cosigned(ctx, note)
			}
			if err != nil {
				failed.Store(&err)
			}
			ready.Store(true)
		}
	})
	w.Call("echo", `{"text":"x"}`)
	w.Close()
	require.True(t, ready.Load())
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	note, err := w.Store.Checkpoint(t.Context())
	require.NoError(t, err)
	_, lines, err := proofgraph.ParseCheckpoint(note)
	require.NoError(t, err)
	require.Len(t, lines, 3)
	appends := w.Store.Appends()
	require.ErrorIs(t, w.Kernel.Cosigned(t.Context(), note), proofgraph.ErrSealed)
	require.Equal(t, appends, w.Store.Appends())
}

// What a kernel refuses of the option, of no kernel, and of a host that is hostile.
func TestCosignedRefusals(t *testing.T) {
	t.Parallel()
	w, by := watched(t)
	c, err := w.Kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	note, err := cosign(w.Kernel, by[0], c, c.Note)
	require.NoError(t, err)
	for n := range int64(8) {
		ctx := kerneltest.Hostile(t.Context(), n)
		if err := w.Kernel.Cosigned(ctx, note); err != nil {
			require.ErrorContains(t, err, "panicked")
		}
	}
	require.NoError(t, w.Kernel.Err())
	var never context.Context
	require.NoError(t, w.Kernel.Cosigned(never, note))
	for _, none := range []*helm.Kernel{nil, {}} {
		require.Error(t, none.Cosigned(t.Context(), note))
	}
	w.Store.FailIn(1)
	note, err = cosign(w.Kernel, by[1], c, note)
	require.NoError(t, err)
	require.ErrorIs(t, w.Kernel.Cosigned(t.Context(), note), kerneltest.ErrDisk)
	require.ErrorIs(t, w.Kernel.Err(), proofgraph.ErrSealed)
	d, _ := w.Call("echo", `{"text":"x"}`)
	require.Equal(t, contracts.ReasonKernelSealed, d.Reason)

	for says, edit := range map[string]func(*helm.Checkpoints){
		"helm: Options.Checkpoint.Quorum: 0 of 2":                   func(o *helm.Checkpoints) { o.Quorum = 0 },
		"helm: Options.Checkpoint.Quorum: given without":            func(o *helm.Checkpoints) { o.Witnesses = nil },
		"helm: Options.Checkpoint.Witnesses: witness 1: not a veri": func(o *helm.Checkpoints) { o.Witnesses = []string{""} },
	} {
		o := w.Options
		edit(&o.Checkpoint)
		_, err := helm.New(o)
		require.ErrorContains(t, err, says)
	}
}
