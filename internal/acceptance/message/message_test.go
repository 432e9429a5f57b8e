package message

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const prefix = "helm: user message: "

// A listener is a world whose log is read for messages. A session and a text that no error may
// quote are its own.
type listener struct{ *kerneltest.World }

// onEach runs f over a log in memory, and over one in files, which reopen closes and opens again.
func onEach(t *testing.T, f func(w listener, reopen func()), change ...func(*helm.Options)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		w := listener{kerneltest.New(t, change...)}
		f(w, w.Reopen)
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		var reopenStore func()
		w := listener{kerneltest.New(t, append([]func(*helm.Options){func(o *helm.Options) {
			reopenStore = kerneltest.OnFiles(t, kerneltest.Faulty(o.Store))
		}}, change...)...)}
		f(w, func() { w.Close(); reopenStore(); w.Open() })
	})
}

func (w listener) say(session, text string) error {
	return w.Kernel.UserMessage(context.Background(), session, text)
}

func (w listener) mustSay(session, text string) {
	w.T.Helper()
	require.NoError(w.T, w.say(session, text))
}

// mustRefuse holds a refusal to its text, and the log to its size.
func (w listener) mustRefuse(err error, size uint64, text string) {
	w.T.Helper()
	assert.EqualError(w.T, err, prefix+text)
	assert.Equal(w.T, size, w.Size(), "entries after a refusal")
}

// mustHear compares the messages of the log with what was said, session by session, and each with
// the blob that it names.
func (w listener) mustHear(want map[string][]string) {
	w.T.Helper()
	got := map[string][]string{}
	for index, st := range w.Statements() {
		if st.Message == nil {
			continue
		}
		text, err := w.Store.Store.Blob(context.Background(), st.Message.TextHash)
		require.NoError(w.T, err, "entry %d", index)
		require.Equal(w.T, crypto.Sum(text), st.Message.TextHash, "entry %d", index)
		require.True(w.T, contracts.IsMessage(string(text)))
		got[st.Session] = append(got[st.Session], string(text))
	}
	if len(want) == 0 && len(got) == 0 {
		return
	}
	assert.Equal(w.T, want, got)
}

func text(n int) string { return strings.Repeat("x", n) }

const full = "the session would have %d bytes of the user's text, and 262144 are the most: start another"

// A text is an entry of its session, in its turn, and its bytes are a blob, whatever is kept of
// inputs. The next process goes on.
func TestUserMessage(t *testing.T) {
	t.Parallel()
	onEach(t, func(w listener, reopen func()) {
		w.mustSay("s", "pay bob@corp.com")
		w.MustCall(kerneltest.Executed(`{"n":1}`), "echo", `{"n":1}`)
		w.mustSay("s", "\x00 é\u2028 \"\\")
		w.mustSay("t", "pay bob@corp.com")
		want := map[string][]string{"s": {"pay bob@corp.com", "\x00 é\u2028 \"\\"}, "t": {"pay bob@corp.com"}}
		w.mustHear(want)
		var kinds []contracts.Kind
		for _, st := range w.Statements() {
			if st.Session == "s" {
				require.Equal(w.T, len(kinds), int(st.Seq))
				kinds = append(kinds, st.Kind())
			}
			if st.Message != nil {
				assert.Empty(w.T, st.Parents)
			}
		}
		assert.Equal(w.T, []contracts.Kind{contracts.KindMessage, contracts.KindDecision, contracts.KindReceipt,
			contracts.KindMessage}, kinds)
		for _, e := range w.Events {
			assert.NotContains(w.T, fmt.Sprintf("%+v", e), "bob@corp.com")
		}
		reopen()
		w.mustSay("s", "and again")
		want["s"] = append(want["s"], "and again")
		reopen()
		w.mustHear(want)
		w.MustVerify()
		require.NoError(w.T, w.Kernel.CloseSession(context.Background(), "s"))
		reopen()
		w.mustRefuse(w.say("s", "late"), w.Size(), "the session is closed")
	}, func(o *helm.Options) { o.Keep.DropInputs = true })
}

// Each text that is refused, and why. No error quotes it.
func TestUserMessageRefuses(t *testing.T) {
	t.Parallel()
	onEach(t, func(w listener, reopen func()) {
		const nameOne = `name a session: "main" and "" are of all calls that name none`
		require.NoError(w.T, w.Kernel.CloseSession(context.Background(), "closed"))
		w.mustSay("full", text(contracts.MaxMessage))
		size := w.Size()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		for _, c := range []struct {
			ctx                 context.Context
			session, text, says string
		}{
			{nil, "", "secret", nameOne},
			{nil, "main", "secret", nameOne},
			{nil, "@refused", "secret", "not a legal session name"},
			{nil, "@", "secret", "not a legal session name"},
			{nil, "a session", "secret", "not a legal session name"},
			{nil, "secret\n", "secret", "not a legal session name"},
			{nil, text(129), "secret", "not a legal session name"},
			{nil, "s", "", "empty"},
			{nil, "s", "secret\xff", "not UTF-8"},
			{nil, "s", "secret\xed\xa0\x80", "not UTF-8"},
			{nil, "s", "secret\xc3", "not UTF-8"},
			{nil, "full", "s", fmt.Sprintf(full, contracts.MaxMessage+1)},
			{nil, "s", text(contracts.MaxMessage + 1), fmt.Sprintf(full, contracts.MaxMessage+1)},
			{nil, "s", text(262400), fmt.Sprintf(full, 262400)},
			{nil, "s", text(2 << 20), fmt.Sprintf(full, 2<<20)},
			{nil, "closed", "secret", "the session is closed"},
			{ended, "s", "secret", "the context ended"},
			{kerneltest.Hostile(context.Background(), 0), "s", "secret", "the context ended"},
			{kerneltest.Hostile(context.Background(), 1), "s", "secret", "the context ended"},
			{kerneltest.Hostile(context.Background(), 2), "s", "secret", "the context ended"},
		} {
			w.mustRefuse(w.Kernel.UserMessage(c.ctx, c.session, c.text), size, c.says)
		}
		assert.ErrorIs(w.T, w.Kernel.UserMessage(ended, "s", "x"), context.Canceled)
		reopen()
		size = w.Size()
		w.mustRefuse(w.say("full", "x"), size, fmt.Sprintf(full, contracts.MaxMessage+1))
		w.mustHear(map[string][]string{"full": {text(contracts.MaxMessage)}})
		w.Close()
		err := w.say("s", "secret")
		assert.ErrorContains(w.T, err, prefix+"the kernel is sealed: ")
		assert.ErrorContains(w.T, err, "helm: the kernel was closed")
		assert.NotContains(w.T, err.Error(), "secret")
		assert.Equal(w.T, size, w.Size())
	})
	for _, k := range []*helm.Kernel{nil, {}} {
		assert.EqualError(
			t,
			k.UserMessage(context.Background(), "s", "x"),
			prefix+"the kernel is sealed: helm: no kernel",
		)
	}
}

// A session has 262,144 bytes of text, however they come, and before and after a restart. Other
// sessions have their own. A refusal uses nothing up.
func TestUserMessageAllowance(t *testing.T) {
	t.Parallel()
	onEach(t, func(w listener, reopen func()) {
		w.mustSay("s", text(100_000))
		w.mustSay("s", strings.Repeat("é", 31_072)) // bytes count, not code points
		size := w.Size()
		w.mustRefuse(w.say("s", text(100_001)), size, fmt.Sprintf(full, 262_145))
		w.mustSay("t", text(contracts.MaxMessage))
		reopen()
		size = w.Size()
		w.mustRefuse(w.say("s", text(100_001)), size, fmt.Sprintf(full, 262_145))
		w.mustRefuse(w.say("t", "x"), size, fmt.Sprintf(full, 262_145))
		w.mustSay("s", text(99_999))
		w.mustSay("s", "x")
		size = w.Size()
		for range 2 {
			w.mustRefuse(w.say("s", "x"), size, fmt.Sprintf(full, 262_145))
			w.mustRefuse(w.say("s", text(256)), size, fmt.Sprintf(full, 262_400))
			reopen()
			size = w.Size()
		}
	})
}

// 64 callers at once, of whom 32 fit.
func TestUserMessagesAtOnce(t *testing.T) {
	t.Parallel()
	w := listener{kerneltest.New(t)}
	each := text(contracts.MaxMessage / 32)
	errs := make([]error, 64)
	kerneltest.AtOnce(64, func(i int) { errs[i] = w.say("s", each) })
	stored := 0
	for _, err := range errs {
		if err == nil {
			stored++
			continue
		}
		assert.EqualError(t, err, prefix+fmt.Sprintf(full, contracts.MaxMessage+len(each)))
	}
	assert.Equal(t, 32, stored)
	w.Reopen()
	n := 0
	for _, st := range w.Statements() {
		if st.Message != nil {
			n++
		}
	}
	assert.Equal(t, 32, n)
}

// A text that is erased, damaged or not to be read makes the size of the user's text unknown: no
// more of it is recorded, until it is there again. A running kernel knows what it recorded.
func TestUserMessageAfterUnreadableText(t *testing.T) {
	t.Parallel()
	w := listener{kerneltest.New(t)}
	store := w.Store.Store
	w.mustSay("s", "secret")
	for name, bad := range map[string]kerneltest.ReadStore{
		"erased":  kerneltest.ReadBlob(store, nil, errors.New("erased")),
		"forged":  kerneltest.ReadBlob(store, []byte("Secret"), nil),
		"a panic": kerneltest.PanicBlob(store),
	} {
		w.Store.Store = bad
		w.mustSay("s", "more "+name)
		w.Store.Store = store
		w.Close()
		w.Open()
		w.Store.Store = bad
		for range 2 {
			size := w.Size()
			err := w.say("s", "secret")
			assert.ErrorContains(t, err, prefix+"the texts of the user cannot be read: ", name)
			assert.NotContains(t, err.Error(), "ecret", name)
			assert.Equal(t, size, w.Size(), name)
		}
		w.mustSay("of-"+name[:1], "another session")
		w.Store.Store = store
		w.mustSay("s", "and on")
	}
}

// A tool passes on what the user says while it runs, in its own session and in another one. The
// session that waits to close takes it from inside. From outside it waits, and is refused.
func TestUserMessageFromInsideATool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := listener{kerneltest.New(t)}
		closed, outside, gone := make(chan error, 1), make(chan error, 1), make(chan error, 1)
		patience, cancel := context.WithCancel(context.Background())
		w.Tool = func(ctx context.Context, c contracts.Call) (executor.Result, error) {
			assert.NoError(t, w.Kernel.UserMessage(ctx, "s", "before"))
			go func() { closed <- w.Kernel.CloseSession(context.Background(), "s") }()
			synctest.Wait()
			go func() { outside <- w.Kernel.UserMessage(context.Background(), "s", "from outside") }()
			go func() { gone <- w.Kernel.UserMessage(patience, "s", "from outside") }()
			synctest.Wait()
			assert.NoError(t, w.Kernel.UserMessage(ctx, "s", "while it closes"))
			assert.Empty(t, outside, "did not wait for the close")
			assert.Empty(t, gone, "did not wait for the close")
			cancel()
			assert.EqualError(t, <-gone, prefix+"the context ended")
			assert.NoError(t, w.Kernel.UserMessage(ctx, "t", "elsewhere"))
			return executor.Result{Output: []byte(`{}`)}, nil
		}
		w.MustCall(kerneltest.Executed(`{}`), "echo", `{}`)
		require.NoError(t, <-closed)
		assert.EqualError(t, <-outside, prefix+"the session is closed")
		w.mustHear(map[string][]string{"s": {"before", "while it closes"}, "t": {"elsewhere"}})
	})
}

// A narrowed kernel records to the same log, until it is closed by itself. A frozen system records.
func TestUserMessageOnOtherKernels(t *testing.T) {
	t.Parallel()
	w := listener{kerneltest.NewGoverned(t)}
	bg := context.Background()
	task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
	step := w.Narrow(task, kerneltest.Overlay(t, "step", 1, 3))
	require.NoError(t, task.UserMessage(bg, "s", text(200_000)))
	size := w.Size()
	w.mustRefuse(w.say("s", text(62_145)), size, fmt.Sprintf(full, 262_145))
	w.mustRefuse(step.UserMessage(bg, "s", text(62_145)), size, fmt.Sprintf(full, 262_145))
	require.NoError(t, task.Close())
	err := task.UserMessage(bg, "s", "x")
	w.mustRefuse(err, size, "the kernel is sealed: helm: the kernel was closed")
	require.NoError(t, step.UserMessage(task.Context(bg), "s", "step"))
	w.Freeze()
	require.NoError(t, step.UserMessage(bg, "s", "frozen"))
	w.mustSay("s", "frozen too")
	w.Unfreeze()
	w.mustHear(map[string][]string{"s": {text(200_000), "step", "frozen", "frozen too"}})
}

// Whatever the store or the key does with a text, nobody is told that it is recorded if it may not
// be, the kernel is sealed, and the next process goes by what is there.
func TestUserMessageThatIsNotStored(t *testing.T) {
	t.Parallel()
	for how, f := range map[string]func(error) error{
		"writes nothing":          nil,
		"writes, reports failure": func(error) error { return kerneltest.ErrDisk },
		"panics":                  func(error) error { panic("disk") },
	} {
		t.Run(how, func(t *testing.T) {
			onEach(t, func(w listener, reopen func()) {
				w.mustSay("s", "first")
				w.Store.OnFail = f
				w.Store.FailIn(1)
				err := w.say("s", "secret")
				require.ErrorContains(w.T, err, prefix+"it could not be signed or stored: ")
				assert.NotContains(w.T, err.Error(), "secret")
				w.MustBeSealed()
				size := w.Size()
				again := w.say("s", "secret")
				assert.ErrorContains(w.T, again, prefix+"the kernel is sealed: ")
				assert.Equal(w.T, size, w.Size())
				w.Store.Heal()
				w.Kernel.Close()
				reopen()
				want := []string{"first"}
				if how != "writes nothing" {
					want = append(want, "secret")
				}
				w.mustHear(map[string][]string{"s": want})
				w.mustSay("s", "on")
				w.MustVerify()
			})
		})
	}
	for name, fault := range map[string]func(*kerneltest.FaultySigner){
		"the signer fails":              func(*kerneltest.FaultySigner) {},
		"the signer panics":             func(k *kerneltest.FaultySigner) { k.Panics = true },
		"the signer ends the goroutine": func(k *kerneltest.FaultySigner) { k.Exits = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := listener{kerneltest.New(t)}
			fault(w.Key)
			w.Key.FailIn(1)
			size := w.Size()
			said := make(chan error, 1)
			go func() {
				defer close(said)
				said <- w.say("s", "secret")
			}()
			if err, ok := <-said; ok {
				require.ErrorContains(t, err, prefix+"it could not be signed or stored: ")
			}
			w.MustBeSealed()
			assert.Equal(t, size, w.Size())
		})
	}
}

// Whatever runs at once, the log is one that the next process takes: no message comes after the
// close of its session, and each that was acknowledged is there.
func TestUserMessageRaces(t *testing.T) {
	t.Parallel()
	for range 4 {
		w := listener{kerneltest.New(t)}
		bg := context.Background()
		task := w.Narrow(w.Kernel, kerneltest.Overlay(t, "task", 1, 5))
		kernels := []*helm.Kernel{w.Kernel, task}
		policies := []int{2, 3, 4, 5}
		said := make([]bool, 64)
		kerneltest.AtOnce(64, func(i int) {
			k, session := kernels[i%2], fmt.Sprint("s", i%3)
			switch {
			case i == 20:
				assert.NoError(t, k.CloseSession(bg, "s0"))
			case i == 40:
				assert.NoError(t, task.Close())
			case i%16 == 5:
				k.Narrow(kerneltest.Overlay(t, fmt.Sprint("task-", i), 1, 5))
			case i%16 == 6:
				w.Kernel.Swap(bg, kerneltest.Version(t, policies[i/16]))
			case i%4 == 0:
				k.Guard(bg, helm.Intent{Tool: "echo", Args: json.RawMessage(`{}`), Session: session})
			default:
				err := k.UserMessage(bg, session, fmt.Sprint("message ", i))
				said[i] = err == nil
				if err != nil {
					assert.Regexp(
						t,
						prefix+"(the session is closed|the kernel is sealed: helm: the kernel was closed)$",
						err.Error(),
					)
				}
			}
		})
		w.Options.Policy = kerneltest.Version(t, 5)
		w.Reopen()
		heard := map[string]int{}
		for index, st := range w.Statements() {
			if st.Message != nil {
				b, err := w.Store.Store.Blob(bg, st.Message.TextHash)
				require.NoError(t, err, "entry %d", index)
				heard[string(b)]++
			}
		}
		for i, ok := range said {
			want := 0
			if ok {
				want = 1
			}
			assert.Equal(t, want, heard[fmt.Sprint("message ", i)], "message %d", i)
		}
		w.MustVerify()
	}
}
