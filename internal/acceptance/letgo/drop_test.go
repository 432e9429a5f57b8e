package letgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// A store that lets nothing go says so, and the kernel goes on.
func TestNoCondenser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, struct{ proofgraph.Store }{proofgraph.NewMemory()})
	w.fill("chat", 600)
	w.close("chat")
	w.later(25 * time.Hour)
	assert.EqualValues(t, 1200, w.condense().Members)
	_, err := w.kernel.Drop(context.Background())
	assert.ErrorIs(t, err, helm.ErrNoCondenser)
	w.fill("more", 1)
	w.verify()
}

// Nothing goes that is above the stored checkpoint: here the log key fails after the condense entry
// was written.
func TestDropAwaitsTheCheckpoint(t *testing.T) {
	t.Parallel()
	logKey := &kerneltest.FaultySigner{PrivateKey: kerneltest.SeedKey(t, 9)}
	w := old(t, 600, func(o *helm.Options) { o.LogKey = logKey })
	_, err := w.kernel.Checkpoint(context.Background()) // of what is before
	require.NoError(t, err)
	logKey.FailIn(1)
	_, err = w.kernel.Condense(context.Background(), time.Time{})
	require.ErrorIs(t, err, kerneltest.ErrKMS)
	require.NoError(t, w.kernel.Err(), "a failing log key seals nothing")
	for range 2 {
		assert.Equal(t, helm.Dropped{Waiting: 1200}, w.drop())
		assert.Empty(t, gone(t, w.store))
		require.NoError(t, w.kernel.Close())
		w.open()
	}
	_, err = w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	assert.EqualValues(t, 1200, w.drop().Entries)
	w.verify()
}

// notes is the state of a witness.
type notes map[string][]byte

func (n notes) Latest(_ context.Context, origin string) ([]byte, error) { return n[origin], nil }

func (n notes) Swap(_ context.Context, origin string, was, now []byte) error {
	if !bytes.Equal(n[origin], was) {
		return witness.ErrChanged
	}
	n[origin] = now
	return nil
}

// Nothing goes that is above the size that a quorum has cosigned, though the checkpoint covers it;
// that of an older checkpoint counts as far as it reaches, and after a restart what is stored
// counts.
func TestDropAwaitsTheWitnesses(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	ctx := context.Background()
	var witnesses []*witness.Witness
	var vkeys []string
	for _, name := range []string{"a.example", "b.example"} {
		x := &witness.Witness{Name: name, Key: kerneltest.NamedKey(t, name), State: notes{},
			Logs: func(origin string) []string {
				return []string{proofgraph.VerifierKey(origin, kerneltest.Public(t, 9))}
			}}
		vkey, err := x.VerifierKey()
		require.NoError(t, err)
		witnesses, vkeys = append(witnesses, x), append(vkeys, vkey)
	}
	w := old(t, 600, func(o *helm.Options) {
		o.LogKey = kerneltest.SeedKey(t, 9)
		o.Checkpoint.Witnesses, o.Checkpoint.Quorum = vkeys, 2
	})
	sizes := map[int]uint64{}
	cosign := func(c proofgraph.Checkpoint, n int) error {
		note := bytes.Clone(c.Note)
		for i, x := range witnesses[:n] {
			var proof []contracts.Digest
			if sizes[i] > 0 && sizes[i] < c.Size {
				var err error
				proof, err = w.kernel.Consistency(ctx, sizes[i], c.Size)
				require.NoError(t, err)
			}
			lines, err := x.Add(ctx, sizes[i], proof, c.Note)
			require.NoError(t, err)
			sizes[i] = c.Size
			note = append(note, lines...)
		}
		return w.kernel.Cosigned(ctx, note)
	}
	before, err := w.kernel.Checkpoint(ctx)
	require.NoError(t, err)
	require.NoError(t, cosign(before, 2))
	c := w.condense()
	wait := func(what string) {
		t.Helper()
		assert.Equal(t, helm.Dropped{Waiting: 1200}, w.drop(), what)
		assert.Empty(t, gone(t, w.store), what)
	}
	wait("cosigned before the condense entry")
	require.NoError(t, cosign(c.Checkpoint, 1))
	wait("by one of two")
	forged := append(bytes.Clone(c.Checkpoint.Note), "— b.example "...)
	forged = append(crypto.AppendBase64(forged, make([]byte, 76)), '\n')
	assert.Error(t, w.kernel.Cosigned(ctx, forged))
	wait("a line that is none")
	w.fill("more", 1)
	_, err = w.kernel.Checkpoint(ctx)
	require.NoError(t, err)
	require.ErrorIs(t, cosign(c.Checkpoint, 2), helm.ErrOlder)
	require.NoError(t, w.kernel.Close())
	w.open()
	wait("a quorum for an older checkpoint counts in its process alone")
	require.ErrorIs(t, cosign(c.Checkpoint, 2), helm.ErrOlder)
	assert.EqualValues(t, 1200, w.drop().Entries)

	// And what the stored checkpoint has counts in the next process.
	w.fill("again", 600)
	w.close("again")
	w.later(25 * time.Hour)
	c = w.condense()
	require.NoError(t, cosign(c.Checkpoint, 2))
	require.NoError(t, w.kernel.Close())
	w.open()
	assert.Equal(t, c.Members, w.drop().Entries)
	w.verify()
}

// blobs returns the names of all blobs that entries name, and which of them are there.
func (w *world) blobs(entries []contracts.Entry) map[contracts.Digest]bool {
	w.Helper()
	there := map[contracts.Digest]bool{}
	for _, e := range entries {
		if contracts.IsStub(e) {
			continue
		}
		entry.Blobs(statement(w, e), func(d contracts.Digest, _ entry.Role) {
			_, err := w.store.Blob(context.Background(), d)
			there[d] = err == nil
		})
	}
	return there
}

// Of the blobs exactly those go that no entry names any more: an output that another call has too
// stays, and so does one that is the very text of a policy.
func TestBlobsThatGo(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory(), func(o *helm.Options) {
		o.Keep.Outputs = true
		text := string(o.Policy.Document(0).Canonical)
		o.Drivers["crm"] = helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(text), nil // whose output is the floor
		})
	})
	ctx := context.Background()
	w.mustCall("chat", "crm", `{}`)
	w.fill("chat", 600)
	require.NoError(t, w.kernel.UserMessage(ctx, "chat", "hello"))
	w.mustCall("chat", "wipe", `{}`)
	w.close("chat")
	w.mustCall("open", "notes", `{"q":5}`) // an output and facts that went calls have too
	w.later(25 * time.Hour)
	before := lines(t, w.store)
	had := w.blobs(before)
	c := w.condense()
	d := w.drop()
	after := lines(t, w.store)
	named := w.blobs(after)
	for digest, there := range named {
		assert.True(t, there, "%v is named, and gone", digest)
	}
	forgot := uint64(0)
	for digest, there := range had {
		require.True(t, there)
		if _, err := w.store.Blob(ctx, digest); err != nil {
			require.ErrorIs(t, err, proofgraph.ErrNoBlob)
			forgot++
			_, ok := named[digest]
			assert.False(t, ok)
		} else {
			_, ok := named[digest]
			assert.True(t, ok, "%v is there, and nothing names it", digest)
		}
	}
	assert.Equal(t, forgot, d.Blobs)
	assert.Equal(t, c.Members, d.Entries)
	assert.Greater(t, forgot, uint64(600))
	r := w.verify()
	assert.NotEqual(t, 0, r.Replay.Replayed)
	require.NoError(t, w.kernel.Close())
	w.open()
	w.verify()
}

// A blob that is appended while the store lets go stays, and so does one whose entry comes before
// the store has begun.
func TestBlobsThatComeMeanwhile(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before", "stubs", "blobs"} {
		meddler := &meddler{Memory: proofgraph.NewMemory(), when: when}
		w := newWorld(t, meddler, func(o *helm.Options) { o.Keep.Outputs = true })
		w.fill("chat", 600)
		w.close("chat")
		w.later(25 * time.Hour)
		w.condense()
		var r helm.Receipt
		meddler.act = func() { r = w.mustCall("open", "notes", `{"q":5}`) } // the same output and facts as before
		d := w.drop()
		require.NotNil(t, r.Entry, when)
		assert.Greater(t, d.Entries, uint64(0))
		for digest, there := range w.blobs(lines(t, w.store)) {
			assert.True(t, there, "%s: %v is named, and gone", when, digest)
		}
		w.verify()
	}
}

// A meddler acts once while it lets go.
type meddler struct {
	*proofgraph.Memory
	when string
	act  func()
}

func (m *meddler) Condense(
	ctx context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) error {
	once := func(when string) {
		if m.when == when {
			m.act()
			m.when = ""
		}
	}
	once("before")
	return m.Memory.Condense(ctx, func(yield func(uint64, []byte) bool) {
		for i, line := range stubs {
			once("stubs")
			if !yield(i, line) {
				return
			}
		}
	}, func(yield func(contracts.Digest) bool) {
		for d := range blobs {
			once("blobs")
			if !yield(d) {
				return
			}
		}
	})
}

// A failing is a store that fails to let go at some point, in some way.
type failing struct {
	*proofgraph.Memory
	at  int // how many stubs and blobs it takes; negative: all
	how func() error
}

func (f *failing) Condense(
	ctx context.Context, stubs iter.Seq2[uint64, []byte], blobs iter.Seq[contracts.Digest],
) (err error) {
	n := 0
	stop := func() bool {
		n++
		return f.at >= 0 && n > f.at
	}
	err = f.Memory.Condense(ctx, func(yield func(uint64, []byte) bool) {
		for i, line := range stubs {
			if stop() || !yield(i, line) {
				return
			}
		}
	}, func(yield func(contracts.Digest) bool) {
		for d := range blobs {
			if stop() || !yield(d) {
				return
			}
		}
	})
	if err == nil && f.at >= 0 && n > f.at {
		return f.how()
	}
	return err
}

// Wherever the store fails, and however, the kernel goes on; nothing is lost; and Drop does the
// rest when it is called again: every stub, and every blob, those that only stubs named too.
func TestDropFailsAnywhere(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	for name, how := range map[string]func() error{
		"an error": func() error { return kerneltest.ErrDisk },
		"a panic":  func() error { panic("disk") },
	} {
		for _, at := range []int{0, 1, 600, 1199, 1200, 1201, 1700} {
			f := &failing{Memory: proofgraph.NewMemory(), at: -1, how: how}
			w := newWorld(t, f, func(o *helm.Options) { o.Keep.Outputs = true })
			w.fill("chat", 600)
			w.close("chat")
			w.later(25 * time.Hour)
			before := lines(t, f)
			had := w.blobs(before)
			w.condense()
			f.at = at
			_, err := w.kernel.Drop(context.Background())
			require.Error(t, err, "%s at %d", name, at)
			if name == "an error" {
				require.ErrorIs(t, err, kerneltest.ErrDisk)
			}
			require.NoError(t, w.kernel.Err())
			w.mustCall("more", "notes", `{"q":0}`)
			stubs := len(gone(t, f))
			assert.True(t, stubs <= at, "%d of %d", stubs, at)
			w.verify()
			f.at = -1
			d := w.drop()
			assert.EqualValues(t, 1200, d.Entries)
			assert.Len(t, gone(t, f), 1200)
			named := w.blobs(lines(t, f))
			for digest := range had {
				_, err := f.Blob(context.Background(), digest)
				_, ok := named[digest]
				assert.Equal(t, ok, err == nil, "%s at %d: blob %v", name, at, digest)
			}
			assert.Equal(t, helm.Dropped{}, w.drop())
			w.verify()
		}
	}
}

// A store that has other entries than the set was made of lets none go.
func TestDropOfAnotherLog(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	for name, spoil := range map[string]func(all []contracts.Entry, i int){
		"two exchanged":      func(all []contracts.Entry, i int) { all[i], all[i+2] = all[i+2], all[i] },
		"one twice":          func(all []contracts.Entry, i int) { all[i] = all[i+2] },
		"a denial for one":   func(all []contracts.Entry, i int) { all[i] = all[1] },
		"no entry at all":    func(all []contracts.Entry, i int) { all[i] = contracts.Entry("{}") },
		"one that ends soon": func(all []contracts.Entry, i int) { all[i] = all[i][:100] },
	} {
		f := &fork{blobs: map[contracts.Digest][]byte{}, base: proofgraph.NewMemory()}
		w := newWorld(t, f)
		w.fill("chat", 600)
		w.close("chat")
		w.later(25 * time.Hour)
		w.condense()
		honest := append([]contracts.Entry{}, f.all...)
		spoil(f.all, 700)
		_, err := w.kernel.Drop(context.Background())
		require.Error(t, err, name)
		assert.Empty(t, gone(t, f), name)
		assert.Nil(t, f.stubs, "%s: the store was asked", name)
		f.all = honest
		assert.EqualValues(t, 1200, w.drop().Entries, name)
	}
}

// A log in which an entry was lost, and a stub put in its place, is not opened; nor is one whose
// condense entry covers another set than its own.
func TestNewRefusesStubsOfNoSet(t *testing.T) {
	t.Parallel()
	w := old(t, 600)
	c := w.condense()
	w.fill("more", 3)
	all := newFork(t, w.store)
	o := w.over(all)
	o.drop()
	at := int(c.Entries[0].Index)
	stubs := all.stubs
	for name, lost := range map[string]func(f *fork){
		"a call after the set": func(f *fork) {
			d := statement(t, f.all[at+1])
			f.all[at+1] = contracts.NewStub(d, f.all[at+1].Hash(), 1).Append(nil)
			f.all[at+2] = contracts.NewStub(statement(t, f.all[at+2]), f.all[at+2].Hash(), uint64(at+1)).Append(nil)
		},
		"a decision without its receipt": func(f *fork) {
			f.all = append(f.all[:at+1:at+1], contracts.NewStub(statement(t, f.all[at+1]), f.all[at+1].Hash(), 1).Append(nil))
			f.note = nil
		},
		"another tool": func(f *fork) {
			f.all[700] = bytes.Replace(stubs[700], []byte(`"notes"`), []byte(`"web"`), 1)
		},
		"no charge": func(f *fork) {
			s, err := new(contracts.Reader).Stub(stubs[700])
			require.NoError(t, err)
			s.Decision.Charges = nil
			f.all[700] = s.Append(nil)
		},
		"another policy": func(f *fork) {
			f.all[700] = bytes.Replace(stubs[700], []byte(`"policy":1`), []byte(`"policy":2`), 1)
		},
	} {
		f := newFork(t, w.store)
		lost(f)
		options := w.options
		options.Store = f
		k, err := helm.New(options)
		assert.Error(t, err, name)
		assert.Nil(t, k, name)
	}
}

var errRead = errors.New("cannot read")

// Where the store fails to read, nothing is written and nothing goes.
func TestReadsFail(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	failed := 0
	for _, after := range []int{0, 1, 700, 1203, 1500, 2000, 2500, 3000} {
		m := proofgraph.NewMemory()
		s := &unread{Memory: m, left: -1}
		w := newWorld(t, s)
		w.fill("chat", 600)
		w.close("chat")
		w.later(25 * time.Hour)
		s.left = after
		_, err := w.kernel.Condense(context.Background(), time.Time{})
		if err == nil {
			s.left = after
			_, err = w.kernel.Drop(context.Background())
			if err == nil {
				continue // it read less
			}
		}
		failed++
		require.ErrorIs(t, err, errRead, fmt.Sprint(after))
		require.NoError(t, w.kernel.Err())
		assert.Empty(t, gone(t, m))
		s.left = -1
		w.condense()
		assert.EqualValues(t, 1200, w.drop().Entries)
		w.verify()
	}
	assert.Equal(t, 8, failed)
}

// An unread is a store that fails to read after so many entries.
type unread struct {
	*proofgraph.Memory
	left int // negative: it does not fail
}

func (u *unread) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range u.Memory.Entries(ctx, from, to) {
			if u.left == 0 {
				yield(nil, errRead)
				return
			}
			u.left--
			if !yield(e, err) {
				return
			}
		}
	}
}
