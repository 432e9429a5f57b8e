//go:build unix

package kept

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
)

// TestForward: the file follows the log, and keeps its mode. It is not parallel: the umask is the
// process's.
func TestForward(t *testing.T) {
	a, b, c, _, _ := histories(t)
	f := begun(t, a)
	check := func(p pack, history evidence.History, holds pack, mode fs.FileMode) {
		t.Helper()
		r, err := Verify(t.Context(), f.path, bytes.NewReader(p.bytes), int64(len(p.bytes)), p.o)
		assert.True(t, err == nil && r.History == history && r.Success(evidence.Logged) == (history == evidence.Fresh),
			"%v, %v", r, err)
		f.mustHold(t, holds, mode)
	}
	same := f.print(t)
	check(a, evidence.Fresh, a, 0o600)
	assert.Equal(t, same, f.print(t), "there was nothing to write, and it was written")
	check(b, evidence.Fresh, b, 0o600)
	check(a, evidence.Stale, b, 0o600)
	require.NoError(t, os.Chmod(f.path, 0o640))
	umask := syscall.Umask(0o077)
	defer syscall.Umask(umask)
	check(c, evidence.Fresh, c, 0o640)
	check(b, evidence.Stale, c, 0o640)
	check(c, evidence.Fresh, c, 0o640)
	var none context.Context // what a caller might give
	r, err := c.verify(none, f)
	assert.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
}

// TestStore: a log in place moves the file as its packs do.
func TestStore(t *testing.T) {
	t.Parallel()
	a, _, c, _, fork := histories(t)
	f := begun(t, a)
	for _, x := range []struct {
		name    string
		p       pack
		o       evidence.Options
		history evidence.History
		holds   pack
	}{
		{"unpinned", c, evidence.Options{}, evidence.Fresh, a},
		{"forward", c, c.o, evidence.Fresh, c},
		{"again", c, c.o, evidence.Fresh, c},
		{"diverged", fork, c.o, evidence.Diverged, c},
	} {
		r, err := VerifyStore(t.Context(), f.path, x.p.store, x.o)
		if err != nil || r.History != x.history || r.Success(evidence.Logged) != (x.history == evidence.Fresh &&
			x.o.Trust != nil) {
			t.Errorf("%s: %v, %v", x.name, r, err)
		}
		f.mustHold(t, x.holds, 0o600)
	}
	r, err := VerifyStore(t.Context(), f.path, nil, c.o)
	assert.True(t, errors.Is(err, evidence.ErrInput) && r.Level == evidence.Invalid, "of no store: %v, %v", r, err)
	f.mustHold(t, c, 0o600)
}

// TestUnchanged: whatever is not a success that goes on from what is kept leaves the file as it
// was, to the byte.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	a, b, c, same, fork := histories(t)
	other := packs(t, "example.test/other", "no.tool", 20)[0]
	other.o.Origin = ""
	flipped, unpinned, cancelled, beside := c, c, c, c
	flipped.bytes = bytes.Clone(c.bytes)
	flipped.bytes[len(c.bytes)/2] ^= 1
	unpinned.o.Trust = nil
	beside.o.Last = a.note
	ended, end := context.WithCancel(t.Context())
	end()
	says := func(text string) func(evidence.Report, error) bool {
		return func(r evidence.Report, err error) bool {
			return err != nil && strings.HasPrefix(err.Error(), "kept: ") && strings.Contains(err.Error(),
				"log.checkpoint: ") &&
				strings.Contains(err.Error(), text)
		}
	}
	history := func(h evidence.History) func(evidence.Report, error) bool {
		return func(r evidence.Report, err error) bool {
			return err == nil && r.History == h && r.Level == evidence.Logged
		}
	}
	report := func(r evidence.Report) func(evidence.Options) (evidence.Report, error) {
		return func(evidence.Options) (evidence.Report, error) { r.Checkpoint = c.note; return r, nil }
	}
	unlike := func(string) error { return nil }
	for name, x := range map[string]struct {
		ctx    context.Context
		p      pack
		made   func(path string) error // in place of the file
		verify func(evidence.Options) (evidence.Report, error)
		want   func(evidence.Report, error) bool
	}{
		"stale":               {p: a, want: history(evidence.Stale)},
		"diverged":            {p: fork, want: history(evidence.Diverged)},
		"diverged, same size": {p: same, want: history(evidence.Diverged)},
		"same": {p: b,
			want: func(r evidence.Report, err error) bool { return err == nil && r.Success(evidence.Logged) }},
		"invalid": {p: flipped,
			want: func(r evidence.Report, err error) bool { return r.Fault != nil && errors.Is(err, r.Fault.Check) }},
		"unpinned": {p: unpinned,
			want: func(r evidence.Report, err error) bool { return err == nil && r.Signer == evidence.Unpinned }},
		"below what was asked": {p: c,
			verify: report(evidence.Report{Level: evidence.Intact, Asked: evidence.Logged, History: evidence.Fresh,
				Signer: evidence.Trusted}),
			want: func(r evidence.Report, err error) bool { return err == nil && r.Level == evidence.Intact }},
		"no history": {p: c,
			verify: report(evidence.Report{Level: evidence.Logged, Asked: evidence.Logged, Signer: evidence.Trusted}),
			want:   func(r evidence.Report, err error) bool { return err == nil && r.History == evidence.None }},
		"a failure with a report": {p: c, verify: func(o evidence.Options) (evidence.Report, error) {
			r, err := evidence.Verify(t.Context(), bytes.NewReader(c.bytes), int64(len(c.bytes)), o)
			return r, errors.Join(err, errDisk)
		}, want: func(_ evidence.Report, err error) bool { return errors.Is(err, errDisk) }},
		"ended": {p: cancelled, ctx: ended,
			want: func(_ evidence.Report, err error) bool { return errors.Is(err, context.Canceled) }},
		"ended when it was verified": {p: c, ctx: ended, verify: func(o evidence.Options) (evidence.Report, error) {
			return evidence.Verify(t.Context(), bytes.NewReader(c.bytes), int64(len(c.bytes)), o)
		}, want: says("cannot be kept: context canceled")},
		"last given beside": {p: beside, want: says("Options.Last was given beside it")},
		"another log":       {p: other, want: says("of the origin example.test/log, not example.test/other")},
		"another origin asked": {p: pack{bytes: c.bytes, o: other.o}, made: hold(other.note),
			want: says("of the origin example.test/other, not example.test/log")},

		"nothing":     {p: c, made: unlike, want: says("or make the file with Begin")},
		"empty":       {p: c, made: hold(nil), want: says("what is there is no checkpoint")},
		"garbage":     {p: c, made: hold([]byte("garbage")), want: says("what is there is no checkpoint")},
		"half a note": {p: c, made: hold(a.note[:len(a.note)/2]), want: says("what is there is no checkpoint")},
		"two notes": {p: c, made: hold(append(bytes.Clone(a.note), b.note...)),
			want: says("what is there is no checkpoint")},
		"long": {p: c, made: hold(append(bytes.Clone(a.note), make([]byte, 2<<20)...)),
			want: says("more than 1,000,000 bytes")},
		"a directory": {p: c, made: func(path string) error { return os.Mkdir(path, 0o700) },
			want: says("not a regular file")},
		"a pipe": {p: c, made: func(path string) error { return syscall.Mkfifo(path, 0o600) },
			want: says("not a regular file")},
		"a link":            {p: c, made: link(a.note), want: says("a symbolic link")},
		"a link to nothing": {p: c, made: link(nil), want: says("a symbolic link")},
		"a line that does not verify": {p: c, made: hold(forged(t, a, b)),
			want: func(r evidence.Report, err error) bool {
				return errors.Is(err, evidence.ErrInput) && says("a line of a log key does not verify")(r, err)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			f := begun(t, b)
			if x.made != nil {
				require.NoError(t, errors.Join(os.Remove(f.path), x.made(f.path)))
			}
			if x.ctx == nil {
				x.ctx = t.Context()
			}
			was := f.print(t)
			list, _ := os.ReadDir(filepath.Dir(f.path))
			var r evidence.Report
			var err error
			if x.verify != nil {
				r, err = f.verify(x.ctx, x.p.o, x.verify)
			} else {
				r, err = Verify(x.ctx, f.path, bytes.NewReader(x.p.bytes), int64(len(x.p.bytes)), x.p.o)
			}
			assert.True(t, x.want(r, err) && (err == nil || r.Level == evidence.Invalid || errors.Is(err, errDisk)),
				"%v, %v", r, err)
			assert.Equal(t, was, f.print(t), "was %s\nis", was)
			f.mustBeAlone(t, len(list))
		})
	}
	f := begun(t, b) // or all of it was refused for nothing
	r, err := c.verify(t.Context(), f)
	assert.True(t, err == nil && r.Success(evidence.Logged), "%v, %v", r, err)
	f.mustHold(t, c, 0o600)
}

func hold(b []byte) func(string) error {
	return func(path string) error { return os.WriteFile(path, b, 0o600) }
}

// link is a symbolic link to a note next to the directory.
func link(b []byte) func(string) error {
	return func(path string) error {
		to := filepath.Join(filepath.Dir(filepath.Dir(path)), "elsewhere")
		if b != nil {
			if err := os.WriteFile(to, b, 0o600); err != nil {
				return err
			}
		}
		return os.Symlink(to, path)
	}
}

// forged is the checkpoint of one pack with the signature of another.
func forged(t *testing.T, a, b pack) []byte {
	t.Helper()
	text, _, ok := bytes.Cut(a.note, []byte("\n\n"))
	_, line, also := bytes.Cut(b.note, []byte("\n\n"))
	require.True(t, ok && also, "not notes")
	return append(append(bytes.Clone(text), "\n\n"...), line...)
}

// TestBegin: what is there is never replaced, and nothing is begun with what proves nothing.
func TestBegin(t *testing.T) {
	a, b, _, _, _ := histories(t)
	good := verified(t, b)
	unpinned, low, bare, garbage := good, good, good, good
	unpinned.Signer, low.Level, bare.Checkpoint, garbage.Checkpoint = evidence.Unpinned, evidence.Intact, nil,
		[]byte("garbage")
	stale := good
	stale.History = evidence.Stale
	for name, r := range map[string]evidence.Report{"zero": {}, "unpinned": unpinned, "low": low, "stale": stale,
		"bare": bare, "garbage": garbage} {
		f := file{path: filepath.Join(t.TempDir(), "x")}
		assert.Error(t, Begin(f.path, r), "%s: begun", name)
		f.mustBeAlone(t, 0)
	}
	for name, made := range map[string]func(string) error{"a note": hold(a.note), "nothing": hold(nil),
		"a link":            link(a.note),
		"a link to nothing": link(nil),
		"a directory":       func(path string) error { return os.Mkdir(path, 0o700) }} {
		f := file{path: filepath.Join(t.TempDir(), "sub", "x")}
		require.NoError(t, errors.Join(os.Mkdir(filepath.Dir(f.path), 0o700), made(f.path)))
		was := f.print(t)
		err := Begin(f.path, good)
		assert.True(t, errors.Is(err, fs.ErrExist) && f.print(t) == was, "%s: %v", name, err)
		f.mustBeAlone(t, 1)
	}
	assert.ErrorIs(t, Begin(filepath.Join(t.TempDir(), "no", "such"), good), fs.ErrNotExist)
	t.Chdir(t.TempDir()) // where the file would be whose path is ""
	assert.ErrorIs(t, Begin("", good), errNoPath)
	r, err := a.verify(t.Context(), file{})
	assert.True(t, errors.Is(err, errNoPath) && r.Level == evidence.Invalid, "%v %v", r, err)
	defer syscall.Umask(syscall.Umask(0))
	begun(t, a)
	syscall.Umask(0o777)
	begun(t, b)
}

// TestHeld: the holder of the lock is waited for, as long as the caller has time, and not for ever.
func TestHeld(t *testing.T) {
	a, b, _, _, _ := histories(t)
	f := begun(t, a)
	h, err := f.lock(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	_, err = f.verify(ctx, b.o, func(o evidence.Options) (evidence.Report, error) {
		defer cancel()
		return evidence.Verify(ctx, bytes.NewReader(b.bytes), int64(len(b.bytes)), o)
	})
	assert.ErrorIs(t, err, context.Canceled, "ended while it waited")
	defer func(was time.Duration) { patience = was }(patience)
	patience = time.Millisecond
	r, err := b.verify(t.Context(), f)
	assert.True(t, errors.Is(err, errHeld) && r.Level == evidence.Invalid, "held for ever: %v, %v", r, err)
	r, err = a.verify(t.Context(), f)
	assert.True(t, err == nil && r.Success(evidence.Logged), "there is nothing to move: %v, %v", r, err)
	f.mustHold(t, a, 0o600)
	unlock(h)
	if r, err := b.verify(t.Context(), f); err != nil || !r.Success(evidence.Logged) {
		t.Errorf("%v, %v", r, err)
	}
	f.mustHold(t, b, 0o600)
}
