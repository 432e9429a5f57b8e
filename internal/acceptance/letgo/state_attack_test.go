package letgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/internal/state"
	"github.com/helmkernel/helm/proofgraph"
)

// reseal changes a state and signs it again, as the holder of the key can.
func reseal(t testing.TB, b []byte, key crypto.Signer, change func(h *state.Head, body []byte) []byte) []byte {
	t.Helper()
	h, body, err := state.Open(b, kerneltest.Public(t, 1))
	require.NoError(t, err)
	again, err := state.Seal(h, change(&h, bytes.Clone(body)), key)
	require.NoError(t, err)
	return again
}

// edit changes a member of the body.
func edit(t testing.TB, change func(members map[string]any)) func(*state.Head, []byte) []byte {
	return func(_ *state.Head, body []byte) []byte {
		d := json.NewDecoder(bytes.NewReader(body))
		d.UseNumber()
		var members map[string]any
		require.NoError(t, d.Decode(&members))
		change(members)
		b, err := state.Marshal(members)
		require.NoError(t, err)
		return b
	}
}

// told is a world with a story of so many steps, and the state of its log.
func told(t testing.TB, seed uint64, steps int) (w *world, s *story, saved []byte) {
	t.Helper()
	w = newWorld(t, proofgraph.NewMemory())
	s = newStory(seed)
	w.tell(s, steps)
	require.NoError(t, w.kernel.Close())
	saved, err := w.store.(proofgraph.Rememberer).State(context.Background())
	require.NoError(t, err)
	require.NotNil(t, saved)
	return w, s, saved
}

// mustRefuse fails the test if a kernel takes a state, or is another for having found it: it must
// report it, read the whole log, and leave the same entries as one that found none.
func (w *world) mustRefuse(s *story, what string, store *keeping) {
	w.Helper()
	size, err := store.Size(context.Background())
	require.NoError(w, err)
	x, events := w.quiet(store)
	list := events()
	if assert.Len(w, list, 1, what) {
		assert.Equal(w, helm.Event{Why: "state", Err: list[0].Err}, list[0])
		assert.ErrorContains(w, list[0].Err, "helm: state: ", what)
	}
	whole := newFork(w, store)
	y := w.over(whole)
	for _, k := range []*world{x, y} {
		k.tell(s.again(1), 12)
		require.NoError(w, k.kernel.Close())
	}
	a, b := lines(w, store), lines(w, whole)
	require.Len(w, a, len(b), what)
	require.Greater(w, len(a), int(size), what)
	for i := range a {
		require.Equal(w, string(b[i]), string(a[i]), "%s: entry %d", what, i)
	}
}

// Whatever is wrong with a state, New reports it and reads the whole log.
func TestStatesThatAreNotTaken(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w, s, saved := told(t, 3, 150)
	key := kerneltest.SeedKey(t, 1)
	size := len(lines(t, w.store))
	other := crypto.Sum([]byte("another")).String()
	h, body, err := state.Open(saved, kerneltest.Public(t, 1))
	require.NoError(t, err)
	head := func(change func(h *state.Head)) []byte {
		return reseal(t, saved, key, func(h *state.Head, body []byte) []byte { change(h); return body })
	}
	member := func(change func(map[string]any)) []byte { return reseal(t, saved, key, edit(t, change)) }
	raw := func(body string) []byte {
		return reseal(t, saved, key, func(*state.Head, []byte) []byte { return []byte(body) })
	}
	attacks := map[string][]byte{
		"empty line":   []byte("\n"),
		"null":         []byte("null\nnull\n"),
		"empty object": []byte("{}\n{}\n"),
		"twice":        append(bytes.Clone(saved), saved...),
		"cut":          saved[:len(saved)-1],
		"a line more":  append(bytes.Clone(saved), '\n'),
		"another key": reseal(t, saved, kerneltest.SeedKey(t, 2),
			func(_ *state.Head, body []byte) []byte { return body }),
		"another body":   append(bytes.Clone(saved[:bytes.IndexByte(saved, '\n')+1]), "{}\n"...),
		"the key's name": bytes.Replace(saved, []byte(crypto.KeyID(kerneltest.Public(t, 1)).String()), []byte(other), 1),
		"engine":         head(func(h *state.Head) { h.Engine.Rules++ }),
		"threat":         head(func(h *state.Head) { h.Engine.Threat++ }),
		"origin":         head(func(h *state.Head) { h.Origin = "example.test/other" }),
		"nodes":          head(func(h *state.Head) { h.Nodes[0][3] ^= 1 }),
		"no nodes":       head(func(h *state.Head) { h.Nodes = nil }),
		"last":           head(func(h *state.Head) { h.Last[0] ^= 1 }),
		"no checkpoint":  head(func(h *state.Head) { h.Checkpoint = "" }),
		"checkpoint of no log key": head(func(h *state.Head) {
			c, _, err := proofgraph.ParseCheckpoint([]byte(h.Checkpoint))
			require.NoError(t, err)
			c, err = proofgraph.SignCheckpoint(kerneltest.SeedKey(t, 2), c)
			require.NoError(t, err)
			h.Checkpoint = string(c.Note)
		}),
		"checkpoint of another size": head(func(h *state.Head) {
			c, _, err := proofgraph.ParseCheckpoint([]byte(h.Checkpoint))
			require.NoError(t, err)
			c.Size--
			c, err = proofgraph.SignCheckpoint(crypto.DeriveLogKey(key), c)
			require.NoError(t, err)
			h.Checkpoint = string(c.Note)
		}),
		"body null":          raw("null"),
		"body empty":         raw(""),
		"body {}":            raw("{}"),
		"body not canonical": raw(strings.Replace(string(body), ":", ": ", 1)),
		"body twice":         raw(string(body) + string(body)),
		"unknown member":     member(func(m map[string]any) { m["zzz"] = 1 }),
		"unknown in a fold":  member(func(m map[string]any) { m["archive"].(map[string]any)["zzz"] = 1 }),
		"unknown in a session": member(func(m map[string]any) {
			m["sessions"].(map[string]any)["main"].(map[string]any)["past"].(map[string]any)["zzz"] = 1
		}),
		"trust": member(func(m map[string]any) { m["trust"].(map[string]any)["frozen"] = "no" }),
		"a mark that there is not": member(func(m map[string]any) {
			m["changes"].(map[string]any)["main"] = [][]int{{5, 99}}
		}),
		"policy of another hash": member(func(m map[string]any) {
			m["again"].([]any)[0].(map[string]any)["hash"] = other
		}),
		"a policy that is none": member(func(m map[string]any) {
			m["again"].([]any)[0].(map[string]any)["index"] = json.Number("2")
		}),
		"a policy beyond": member(func(m map[string]any) {
			m["again"].([]any)[0].(map[string]any)["index"] = json.Number(fmt.Sprint(size))
		}),
	}
	attacks["again missing"] = member(func(m map[string]any) { delete(m, "again") })
	for name := range map[string]bool{"archive": true, "changes": true, "ledger": true, "marks": true,
		"prefix": true, "trust": true} {
		attacks[name+" null"] = member(func(m map[string]any) { m[name] = nil })
		attacks[name+" missing"] = member(func(m map[string]any) { delete(m, name) })
	}
	prefix := func(what string, change func(p map[string]any)) {
		attacks["prefix: "+what] = member(func(m map[string]any) { change(m["prefix"].(map[string]any)) })
	}
	prefix("genesis", func(p map[string]any) { p["Genesis"] = other })
	prefix("last", func(p map[string]any) { p["Last"] = other })
	prefix("size", func(p map[string]any) { p["Size"] = json.Number(fmt.Sprint(size - 1)) })
	prefix("no size", func(p map[string]any) { p["Size"] = json.Number("0") })
	prefix("no nodes", func(p map[string]any) { p["Nodes"] = nil })
	prefix("forgotten", func(p map[string]any) { p["Forgotten"] = "AQ==" + strings.Repeat("AAAA", 1000) })
	prefix("unanswered", func(p map[string]any) {
		p["Unanswered"] = []map[string]any{{"Hash": other, "Index": 3, "Lamport": 1}}
	})
	require.NotEmpty(t, h.Nodes)
	for what, b := range attacks {
		require.NotEqual(t, string(saved), string(b), what)
		w.mustRefuse(s, what, &keeping{fork: newFork(t, w.store), state: b})
	}

	// So it is of one that both lines agree on, where the log is another.
	both := func(what string, change func(h *state.Head, p map[string]any)) {
		b := reseal(t, saved, key, func(h *state.Head, body []byte) []byte {
			return edit(t, func(m map[string]any) { change(h, m["prefix"].(map[string]any)) })(h, body)
		})
		w.mustRefuse(s, what, &keeping{fork: newFork(t, w.store), state: b})
	}
	both("last in both", func(h *state.Head, p map[string]any) {
		h.Last = crypto.Sum([]byte("another"))
		p["Last"] = other
	})

	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := bytes.Clone(saved)
		i := r.IntN(8 * len(b))
		b[i/8] ^= 1 << (i % 8)
		x, events := w.quiet(&keeping{fork: newFork(t, w.store), state: b})
		require.Len(t, events(), 1, "bit %d", i)
		require.NoError(t, x.kernel.Err())
		require.Error(t, func() error { _, _, err := state.Open(b[:i/8], kerneltest.Public(t, 1)); return err }())
	}
}

// A state is of one log: one of a fork, of a log with another beginning, and of more entries than
// there are, is not taken; an older one of the same log is.
func TestStatesOfOtherLogs(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w, s, saved := told(t, 4, 120)
	size := len(lines(t, w.store))
	at := size - 20

	fork := w.over(newFork(t, w.store))
	fork.tell(s.again(1), 30)
	require.NoError(t, fork.kernel.Close())
	mine := w.over(newFork(t, w.store))
	mine.tell(s.again(2), 40)
	require.NoError(t, mine.kernel.Close())
	ofFork := w.stateAt(fork.store, size+15, nil)
	w.mustRefuse(s, "of a fork", &keeping{fork: newFork(t, mine.store), state: ofFork})

	w.mustRefuse(s, "of entries that are not there", &keeping{fork: cut(t, w.store, at), state: saved})

	again := newWorld(t, proofgraph.NewMemory(), func(o *helm.Options) { o.Rand = ones{} })
	again.tell(newStory(4), 140)
	require.NoError(t, again.kernel.Close())
	w.mustRefuse(s, "of a log that began otherwise", &keeping{fork: newFork(t, again.store), state: saved})

	old := w.stateAt(w.store, at, nil)
	w.alike(s, 40, size, "an older one", newFork(t, w.store), &keeping{fork: newFork(t, w.store), state: old})

	// Nor is one of another kernel key, though the log has that key too.
	o := w.options
	o.Key = kerneltest.SeedKey(t, 2)
	o.Store = &keeping{fork: newFork(t, w.store), state: reseal(t, saved, kerneltest.SeedKey(t, 2),
		func(_ *state.Head, body []byte) []byte { return body })}
	_, err := helm.New(o)
	require.ErrorContains(t, err, "the log began with another trust state")
}

// A state says nothing of what calls were about.
func TestNothingPrivateInAState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory(), func(o *helm.Options) { o.Keep.Outputs = true })
	ctx := context.Background()
	require.NoError(t, w.kernel.UserMessage(ctx, "chat", "please pay ACC-5 for the roses"))
	w.mustCall("chat", "notes", `{"q":5}`)
	w.mustCall("chat", "pay", `{"to":"ACC-5"}`)
	w.mustCall("chat", "web", `{"q":10}`)
	in := helm.Intent{Tool: "notes", Args: json.RawMessage(`{"q":20}`), Session: "chat", Idempotency: "k", Caller: kim}
	w.call(in)
	require.NoError(t, w.kernel.Close())
	saved, err := w.store.(proofgraph.Rememberer).State(ctx)
	require.NoError(t, err)
	_, body, err := state.Open(saved, kerneltest.Public(t, 1))
	require.NoError(t, err)
	require.Contains(t, string(body), "notes")
	for _, private := range []string{"ACC", "roses", `"q"`, `"to"`, "/to", "please"} {
		assert.NotContains(t, string(body), private)
	}

	// Of what may be erased not even a piece is in it. Besides arguments, inputs have what the
	// state has too: names, times and balances.
	pieces := 0
	var reader contracts.Reader
	for _, line := range lines(t, w.store) {
		entry.Blobs(statement(t, line), func(d contracts.Digest, role entry.Role) {
			if role.Required() {
				return
			}
			b, err := w.store.Blob(ctx, d)
			require.NoError(t, err)
			if role == entry.Inputs {
				in, err := reader.Inputs(b)
				require.NoError(t, err)
				b = in.Args.Append(nil)
			}
			for ; len(b) >= 8; b = b[1:] {
				pieces++
				assert.NotContains(t, string(body), string(b[:8]), "%s", role)
			}
		})
	}
	assert.Greater(t, pieces, 40)
}

// Who holds the key can write a state with false balances; the log that comes of it shows them.
func TestForgedBalancesAreFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	w.mustCall("chat", "notes", `{"q":5}`)
	require.NoError(t, w.kernel.Close())
	saved, err := w.store.(proofgraph.Rememberer).State(context.Background())
	require.NoError(t, err)
	for _, spent := range []string{"3", "0", "1"} {
		forged := reseal(t, saved, kerneltest.SeedKey(t, 1), func(_ *state.Head, body []byte) []byte {
			require.Equal(t, 1, bytes.Count(body, []byte(`"spent":3`)))
			if spent == "0" { // what is not spent is not in it
				i := bytes.Index(body, []byte(`"ledger":[`))
				j := i + bytes.Index(body[i:], []byte(`],"marks"`))
				return append(append(bytes.Clone(body[:i]), `"ledger":[`...), body[j:]...)
			}
			return bytes.Replace(body, []byte(`"spent":3`), []byte(`"spent":`+spent), 1)
		})
		store := &keeping{fork: newFork(t, w.store), state: forged}
		x, events := w.quiet(store)
		require.Empty(t, events(), "it was taken")
		x.mustCall("chat", "notes", `{"q":10}`)
		_, err = x.kernel.Checkpoint(context.Background())
		require.NoError(t, err)
		var pack bytes.Buffer
		require.NoError(t, evidence.Write(context.Background(), &pack, store, x.options.Key))
		_, err = evidence.Verify(context.Background(), bytes.NewReader(pack.Bytes()), int64(pack.Len()),
			evidence.Options{Trust: x.kernel.Trust(), Origin: kerneltest.Origin})
		if spent == "3" {
			require.NoError(t, err, "or the others would prove nothing")
		} else {
			require.ErrorIs(t, err, evidence.ErrBudget, spent)
		}
	}
}

// Someone who holds the key can write a state from which a used approval is left out: the kernel
// then takes the approval again, and the log shows it.
func TestForgedApprovalsAreFound(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, forged := range []bool{false, true} {
		b := kerneltest.NewBank(t)
		approval := b.ApprovedRent(kerneltest.Ann)
		b.MustPay(approval)
		require.NoError(t, b.Kernel.Close())
		store := b.Options.Store.(proofgraph.Rememberer)
		saved, err := store.State(ctx)
		require.NoError(t, err)
		if forged {
			saved = reseal(t, saved, kerneltest.SeedKey(t, 1), edit(t, func(m map[string]any) {
				require.Len(t, m["nonces"], 1)
				delete(m, "nonces")
				session := m["sessions"].(map[string]any)["chat"].(map[string]any)
				require.Len(t, session["approved"], 1)
				delete(session, "approved")
			}))
		}
		require.NoError(t, store.SaveState(ctx, saved))
		b.Reopen()
		d, _ := b.Pay(approval)
		assert.Equal(t, forged, d.Allowed(), "%v", d.Reason)
		_, err = b.Kernel.Checkpoint(ctx)
		require.NoError(t, err)
		_, err = evidence.VerifyStore(ctx, b.Options.Store, evidence.Options{Trust: b.Kernel.Trust(), Origin: kerneltest.Origin})
		if !forged {
			require.NoError(t, err, "or the other would prove nothing")
		} else {
			require.ErrorIs(t, err, evidence.ErrReference)
		}
	}
}

// Options.Last is held to a log that is continued from a state: at a size below the state's, at it
// and above it.
func TestLastOverAState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	s := newStory(5)
	var notes [][]byte
	for range 4 {
		w.tell(s, 25)
		c, err := w.kernel.Checkpoint(context.Background())
		require.NoError(t, err)
		notes = append(notes, c.Note)
	}
	size := len(lines(t, w.store))
	second, _, err := proofgraph.ParseCheckpoint(notes[1])
	require.NoError(t, err)
	saved := w.stateAt(w.store, int(second.Size), nil)
	for _, hashed := range []bool{false, true} {
		for i, note := range notes {
			var store proofgraph.Store = &keeping{fork: newFork(t, w.store), state: saved}
			if hashed {
				m := w.store.(*proofgraph.Memory)
				require.NoError(t, w.kernel.Close())
				require.NoError(t, m.SaveState(context.Background(), saved))
				store = m
			}
			x := *w
			x.options.Last = note
			y, events := x.quiet(store)
			require.Empty(t, events(), "checkpoint %d", i)
			require.NoError(t, y.kernel.Close())

			c, _, err := proofgraph.ParseCheckpoint(note)
			require.NoError(t, err)
			c.Root[0] ^= 1
			c, err = proofgraph.SignCheckpoint(crypto.DeriveLogKey(kerneltest.SeedKey(t, 1)), c)
			require.NoError(t, err)
			o := x.options
			o.Store, o.Last = store, c.Note
			_, err = helm.New(o)
			require.ErrorContains(t, err, "Options.Last: ", "checkpoint %d", i)
			require.ErrorContains(t, err, "not those of the checkpoint", "checkpoint %d", i)
		}
	}
	require.Len(t, lines(t, w.store), size)
}

// A forgetful is a store whose state fails.
type forgetful struct {
	*keeping
	onSave, onState func() error
}

func (f *forgetful) SaveState(ctx context.Context, b []byte) error {
	if f.onSave != nil {
		return f.onSave()
	}
	return f.keeping.SaveState(ctx, b)
}

func (f *forgetful) State(ctx context.Context) ([]byte, error) {
	if f.onState != nil {
		return nil, f.onState()
	}
	return f.keeping.State(ctx)
}

// A store whose state fails costs an event, and nothing else.
func TestStatesThatFail(t *testing.T) {
	t.Parallel()
	errDisk := errors.New("disk")
	for name, fail := range map[string]func() error{
		"error": func() error { return errDisk },
		"panic": func() error { panic("disk") },
	} {
		w, s, saved := told(t, 6, 40)
		size := len(lines(t, w.store))
		store := &forgetful{keeping: &keeping{fork: newFork(t, w.store), state: saved}, onState: fail, onSave: fail}
		x, events := w.quiet(store)
		require.Len(t, events(), 1, "%s: New", name)
		x.tell(s, 10)
		require.Greater(t, len(lines(t, store)), size)
		require.NoError(t, x.kernel.Close(), name)
		require.Len(t, events(), 2, "%s: Close", name)
		require.Equal(t, string(saved), string(store.state))
		store.onState, store.onSave = nil, nil
		y, events := w.quiet(store)
		require.Empty(t, events(), name)
		require.NoError(t, y.kernel.Close())
	}
}

// A torn is a store of which one entry cannot be read.
type torn struct {
	*keeping
	at   uint64
	with contracts.Entry // in its place; nil: an error
}

func (x *torn) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) {
		for e, err := range x.keeping.Entries(ctx, from, to) {
			if from == x.at && x.at != 0 {
				if e = x.with; e == nil {
					err = kerneltest.ErrDisk
				}
			}
			if !yield(e, err) {
				return
			}
			from++
		}
	}
}

// An After that names an entry before the state is looked up in the store: what it brings counts,
// and a store that fails or has another entry there denies the call, and seals nothing.
func TestAfterBelowAState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	cause := w.mustCall("chat", "web", `{"q":5}`).Ref()
	calm := w.mustCall("calm", "notes", `{"q":5}`).Ref()
	w.fill("more", 5)
	w.close("chat")
	size := len(lines(t, w.store))
	saved := w.stateAt(w.store, size, nil)
	for name, x := range map[string]struct {
		with   contracts.Entry
		reason contracts.ReasonCode
	}{
		"error": {nil, contracts.ReasonFailClosedError},
		"other": {lines(t, w.store)[calm.Index], contracts.ReasonIntentMalformed},
	} {
		store := &torn{keeping: &keeping{fork: newFork(t, w.store), state: saved}}
		k, events := w.quiet(store)
		require.Empty(t, events())
		ask := func(tool string, refs ...contracts.Ref) contracts.ReasonCode {
			d, r := k.call(helm.Intent{Tool: tool, Args: json.RawMessage(`{}`), Session: "new", Caller: kim, After: refs})
			if d.Allowed() {
				assert.Contains(t, r.Record.Tool, tool)
			}
			return d.Reason
		}
		assert.Equal(t, contracts.ReasonAllow, ask("tell", calm), name)
		store.at, store.with = cause.Index, x.with
		assert.Equal(t, x.reason, ask("tell", calm, cause), name)
		assert.Equal(t, contracts.ReasonAllow, ask("tell", calm), name)
		store.at = 0
		assert.Equal(t, contracts.ReasonIntentMalformed, ask("tell", contracts.Ref{Index: cause.Index + 1, Hash: cause.Hash}))
		assert.Equal(t, contracts.ReasonPolicyViolation, ask("tell", cause), "the session is tainted by what its cause read")
		store.at = cause.Index
		assert.Equal(t, contracts.ReasonPolicyViolation, ask("tell", cause), "what was found stays known")
		require.NoError(t, k.kernel.Err())
		store.at = 0
		k.verify()
	}
}

// A sealed kernel leaves the state alone.
func TestSealedKeepsNoState(t *testing.T) {
	t.Parallel()
	w, s, saved := told(t, 7, 40)
	inner := &keeping{fork: newFork(t, w.store), state: saved}
	f := &kerneltest.FaultyStore{Store: inner}
	x, events := w.quiet(f)
	x.tell(s, 3)
	f.FailIn(1)
	x.kernel.Guard(context.Background(), helm.Intent{Tool: "notes", Args: json.RawMessage(`{"q":5}`), Session: "s"})
	require.ErrorIs(t, x.kernel.Err(), proofgraph.ErrSealed)
	require.NoError(t, x.kernel.Close())
	require.Empty(t, events())
	require.Equal(t, string(saved), string(inner.state))
}

// ones are other nonces than those of a world.
type ones struct{}

func (ones) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 1
	}
	return len(b), nil
}

// Someone who can write in the store, and has no key, gets nothing signed: an entry that was
// changed since it was appended makes no state, and no checkpoint of it.
func TestNothingIsSignedOverWhatTheStoreSays(t *testing.T) {
	t.Parallel()
	w, s, saved := told(t, 6, 40)
	for name, change := range map[string]bool{"as it was": false, "changed": true} {
		store := &torn{keeping: &keeping{fork: newFork(t, w.store), state: saved}}
		x, events := w.quiet(store)
		x.tell(s, 10)
		all := lines(t, store)
		if change {
			last := bytes.Clone(all[len(all)-1])
			i := bytes.Index(last, []byte(`"sig":"`)) + len(`"sig":"`)
			last[i] = map[bool]byte{true: 'B', false: 'A'}[last[i] == 'A'] // no link and no form tells
			store.at, store.with = uint64(len(all)-1), last
		}
		require.NoError(t, x.kernel.Close(), name)
		if !change {
			require.Empty(t, events(), name)
			require.NotEqual(t, string(saved), string(store.state), name)
			continue
		}
		require.Len(t, events(), 1, name)
		require.ErrorContains(t, events()[0].Err, "does not have the log's entries any more", name)
		require.Equal(t, string(saved), string(store.state), name)
	}
}

// An entry below the state that was exchanged in the store is not read by New; the checkpoints of
// the kernel go on over the hash of the one that was there, so no pack of the store can be written.
func TestExchangedBelowAState(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, proofgraph.NewMemory())
	at := w.mustCall("chat", "notes", `{"q":5}`).Index
	w.fill("more", 5)
	size := len(lines(t, w.store))
	saved := w.stateAt(w.store, size, nil)

	// The same log but for one call, by the same key.
	other := newWorld(t, proofgraph.NewMemory())
	require.Equal(t, at, other.mustCall("chat", "notes", `{"q":10}`).Index)
	store := &keeping{fork: newFork(t, w.store), state: saved}
	for _, i := range []uint64{at - 1, at} {
		store.all[i] = lines(t, other.store)[i]
	}
	require.NotEqual(t, lines(t, w.store)[at], store.all[at])

	x, events := w.quiet(store)
	require.Empty(t, events())
	_, err := x.kernel.Checkpoint(ctx)
	require.NoError(t, err)
	var pack bytes.Buffer
	require.ErrorContains(t, evidence.Write(ctx, &pack, store, x.options.Key), "not those of the checkpoint")
	o := x.options
	o.Store = struct{ proofgraph.Store }{store}
	_, err = helm.New(o)
	require.Error(t, err, "it is found by reading the log")
}

// A checkpoint in the store whose signature was changed is not that of a state: Close has its own
// signed.
func TestTheCheckpointOfAStateVerifies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	w.fill("chat", 3)
	_, err := w.kernel.Checkpoint(context.Background())
	require.NoError(t, err)
	store := &keeping{fork: newFork(t, w.store)}
	i := bytes.LastIndexByte(store.note, ' ') + 20
	store.note[i] = map[bool]byte{true: 'B', false: 'A'}[store.note[i] == 'A']
	for range 2 {
		x, events := w.quiet(store)
		require.NoError(t, x.kernel.Close())
		require.Empty(t, events())
	}
	require.Equal(t, 1, store.saves)
}
