//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names returns the names of all files in a directory.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// TestPlaces: the pack is written to the given place, and nothing else stays.
func TestPlaces(t *testing.T) {
	t.Run("relative", func(t *testing.T) {
		temp := t.TempDir()
		t.Chdir(t.TempDir())
		t.Setenv("TMPDIR", temp)
		for range 2 { // the second replaces the first
			var out, errs bytes.Buffer
			status := start(t.Context(), []string{"-dir", "d", "-pack", "x.tar"}, &out, &errs)
			require.True(t, status == 0 && strings.Contains(out.String(), "LOGGED, signer TRUSTED"), "exit %d: %s%s",
				status, &out, &errs)
		}
		got := names(t, ".")
		assert.True(t, slices.Equal(got, []string{"d", "x.tar", "x.trust.json"}), "there are %v", got)
		got = names(t, temp)
		assert.True(t, len(got) == 0, "left behind: %v", got)
	})
	t.Run("none named", func(t *testing.T) {
		t.Chdir(t.TempDir())
		for range 2 {
			var out, errs bytes.Buffer
			status := start(t.Context(), nil, &out, &errs)
			require.True(t, status == 0 && strings.Contains(out.String(), filepath.Join("helm-quickstart", "pack.tar")),
				"exit %d: the pack is not shown: %s%s", status, &out, &errs)
		}
		got := names(t, ".")
		assert.True(t, slices.Equal(got, []string{"helm-quickstart"}), "there are %v", got)
		if got := names(t, "helm-quickstart"); !slices.Equal(got,
			[]string{"key.pem", "log", "pack.tar", "pack.trust.json"}) {
			t.Errorf("there are %v", got)
		}
	})
	t.Run("no TMPDIR", func(t *testing.T) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", "") // the system's
		require.NoError(t, run(t.Context(), new(bytes.Buffer),
			where{dir: filepath.Join(dir, "d"), pack: filepath.Join(dir, "x")}))
		got := names(t, dir)
		assert.True(t, slices.Equal(got, []string{"d", "x", "x.trust.json"}), "there are %v", got)
	})
}

// TestRefused: a file that cannot be written is refused before any call, by its name, and
// everything is left as it was.
func TestRefused(t *testing.T) {
	for name, x := range map[string]struct {
		lay       func(t *testing.T) // in the current directory
		pack, key string
		say       string
	}{
		"the key":            {nil, "x", "x", "x is the file of the key"},
		"another name of it": {nil, "x", "./y/../x", "is the file of the key"},
		"the trust state":    {nil, "x.tar", "x.trust.json", "x.trust.json is the file of the key"},
		"a link": {func(t *testing.T) { write(t, "k", "key"); must(t, os.Link("k", "x.tar")) }, "x.tar",
			"k", "x.tar is the file of the key"},
		"a symbolic link": {func(t *testing.T) { write(t, "x.tar", "key"); must(t, os.Symlink("x.tar", "k")) },
			"x.tar", "k", "x.tar is the file of the key"},
		"no directory": {nil, "no/x.tar", "", "no/x.tar"},
		"below a file": {func(t *testing.T) { write(t, "f", "") }, "f/x.tar", "", "f/x.tar"},
		"a directory": {func(t *testing.T) { must(t, os.Mkdir("x.tar", 0o700)) }, "x.tar", "",
			"x.tar: there is something"},
		"a link to a pack": {func(t *testing.T) { must(t, os.Symlink("y", "x.tar")) }, "x.tar", "",
			"x.tar: there is something"},
		"the trust state's name": {func(t *testing.T) { must(t, os.Mkdir("x.trust.json", 0o700)) }, "x.tar", "",
			"x.trust.json: there is something"},
		"no key":               {func(t *testing.T) { write(t, "k", "no key") }, "x.tar", "k", "-key k: "},
		"an unreadable key":    {func(t *testing.T) { must(t, os.Mkdir("k", 0o700)) }, "x.tar", "k", "read k: "},
		"no place for the key": {nil, "x.tar", "no/k", "no/k"},
	} {
		t.Run(name, func(t *testing.T) {
			temp := t.TempDir()
			t.Chdir(t.TempDir())
			t.Setenv("TMPDIR", temp)
			if x.lay != nil {
				x.lay(t)
			}
			before := names(t, ".")
			var out bytes.Buffer
			dir := filepath.Join(t.TempDir(), "d")
			err := run(t.Context(), &out, where{dir, x.pack, x.key})
			assert.True(t, err != nil && strings.Contains(err.Error(), x.say), "%v; want %q", err, x.say)
			if out.Len() > 0 {
				t.Errorf("it began:\n%s", &out)
			}
			if after := names(t, "."); !slices.Equal(before, after) || len(names(t, temp)) > 0 {
				t.Errorf("there were %v, there are %v, and %v", before, after, names(t, temp))
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	require.NoError(t, err)
}

// TestUnwritable: a file, or a directory, that this user may not write. Root may write anywhere, so
// root runs it as nobody.
func TestUnwritable(t *testing.T) {
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	t.Chdir(t.TempDir())
	write(t, "x.tar", "old")
	must(t, os.Chmod("x.tar", 0o400))
	must(t, os.Mkdir("shut", 0o500))
	for _, pack := range []string{"x.tar", "shut/x.tar"} {
		var out bytes.Buffer
		err := run(t.Context(), &out, where{dir: t.TempDir(), pack: pack})
		assert.True(t, err != nil && strings.Contains(err.Error(), pack) && out.Len() == 0, "%s: %v\n%s", pack, err,
			&out)
	}
}

// asNobody runs this test again, in a process of a user with few rights.
func asNobody(t *testing.T) {
	t.Helper()
	b, err := os.ReadFile(os.Args[0])
	must(t, err)
	dir, err := os.MkdirTemp("", "quickstart") // not below the test's own, which nobody may enter
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := filepath.Join(dir, "quickstart.test")
	must(t, os.WriteFile(program, b, 0o755))
	must(t, os.Chmod(program, 0o755))
	must(t, os.Chmod(dir, 0o755))
	again := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	again.Dir, again.Env = "/", append(os.Environ(), "TMPDIR=/tmp")
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := again.CombinedOutput()
	require.True(t, err == nil && strings.Contains(string(out), "--- PASS: "+t.Name()), "%v\n%s", err, out)
}

// An ending writer ends the context once the table is printed.
type ending struct{ end context.CancelFunc }

func (w ending) Write(b []byte) (int, error) {
	w.end()
	return len(b), nil
}

// TestOldPackStays: a run that fails after the conversation leaves the old pack, and nothing of its
// own.
func TestOldPackStays(t *testing.T) {
	for _, pack := range []string{"x.tar", ""} {
		temp := t.TempDir()
		t.Chdir(t.TempDir())
		t.Setenv("TMPDIR", temp)
		write(t, "x.tar", "old")
		write(t, "x.trust.json", "old state")
		ctx, cancel := context.WithCancel(t.Context())
		dir := t.TempDir()
		require.ErrorIs(t, run(ctx, ending{cancel}, where{dir: dir, pack: pack}), context.Canceled, "%q", pack)
		for name, want := range map[string]string{"x.tar": "old", "x.trust.json": "old state"} {
			b, err := os.ReadFile(name)
			assert.True(t, err == nil && string(b) == want, "%s: %q, %v", name, b, err)
		}
		if left := names(t, temp); len(left) > 0 || len(names(t, ".")) != 2 {
			t.Errorf("%q: left behind: %v %v", pack, left, names(t, "."))
		}
		if got := names(t, dir); !slices.Equal(got, []string{"key.pem", "log"}) { // the log of the calls is kept
			t.Errorf("%q: there are %v", pack, got)
		}
	}
}

// TestWhatIsInTheDirectory: a log that cannot be continued is refused, with its name and the fault,
// and left as it is.
func TestWhatIsInTheDirectory(t *testing.T) {
	for what, x := range map[string]struct {
		spoil func(t *testing.T, w where)
		say   string
	}{
		"another key": {func(t *testing.T, w where) { must(t, os.Remove(filepath.Join(w.dir, "key.pem"))) },
			"with the key"},
		"other files": {func(t *testing.T, w where) { write(t, filepath.Join(w.log(), "thesis.tex"), "x") },
			"thesis.tex: not a file of a log"},
		"a cut log": {func(t *testing.T, w where) {
			must(t, os.Truncate(filepath.Join(w.log(), "00000001.log"), 9000))
		}, "00000001.log: offset "},
		"a file": {func(t *testing.T, w where) { must(t, os.RemoveAll(w.log())); write(t, w.log(), "x") }, "log"},
		"no log": {func(t *testing.T, w where) { must(t, os.RemoveAll(w.dir)); write(t, w.dir, "x") }, "-dir: "},
	} {
		w := where{dir: filepath.Join(t.TempDir(), "d")}
		must(t, run(t.Context(), new(bytes.Buffer), w))
		x.spoil(t, w)
		var out bytes.Buffer
		err := run(t.Context(), &out, w)
		assert.True(t, err != nil && strings.Contains(err.Error(), x.say) && out.Len() == 0, "%s: %v\n%s", what, err,
			&out)
	}
}

// TestArguments: arguments that are none of its own are refused with the usage.
func TestArguments(t *testing.T) {
	for _, x := range []struct {
		args   []string
		status int
		say    string
	}{
		{[]string{"-no"}, 2, "not defined: -no"},
		{[]string{"x.tar"}, 2, `unexpected argument "x.tar"`},
		{[]string{"-h"}, 0, "only by whole new ones"},
		{[]string{"-dir", t.TempDir(), "-pack", "no/x.tar"}, 1, "quickstart: -pack: no/x.tar"},
	} {
		var out, errs bytes.Buffer
		status := start(t.Context(), x.args, &out, &errs)
		if status != x.status || !strings.Contains(errs.String(), x.say) ||
			(status != 1) != strings.Contains(errs.String(), "Usage") || out.Len() > 0 {
			t.Errorf("%v: exit %d: %s%s", x.args, status, &out, &errs)
		}
	}
}
