package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// terminals returns both ends of a terminal: what a person has, and what a command has.
func terminals(t *testing.T) (person, command *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	t.Cleanup(func() { person.Close() })
	control := func(request uintptr, n *int32) {
		raw, err := person.SyscallConn()
		require.NoError(t, err)
		var errno syscall.Errno
		require.NoError(t, raw.Control(func(fd uintptr) {
			_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(n)))
		}))
		require.Zero(t, errno)
	}
	var locked, number int32
	control(syscall.TIOCSPTLCK, &locked)
	control(syscall.TIOCGPTN, &number)
	command, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here: ", err)
	}
	t.Cleanup(func() { command.Close() })
	return person, command
}

// TestTyped: at a terminal the word is asked for, and what it is about is shown before.
func TestTyped(t *testing.T) {
	t.Parallel()
	list, dir := askings(t)
	was := tree(t, dir)
	for name, x := range list {
		for _, typed := range []string{"yes", x.word + "s", x.word} {
			person, command := terminals(t)
			_, err := person.WriteString(typed + "\n")
			require.NoError(t, err)
			var out, errs strings.Builder
			code := run(context.Background(), slices.Clone(x.args), command, &out, &errs)
			assert.Contains(t, errs.String(), "type "+x.word+" to go on: ", name)
			if typed == x.word {
				assert.Equal(t, yes, code, "%s: %s", name, &errs)
				assert.NotEmpty(t, out.String(), name)
				continue
			}
			assert.Equal(t, no, code, "%s: %s", name, &errs)
			assert.Contains(t, errs.String(), "nothing was done: that is not "+x.word, name)
			assert.Empty(t, out.String(), name)
		}
		if name == "log erase" {
			was = tree(t, dir) // which it may change, as nothing else here
		}
		assert.Equal(t, was, tree(t, dir), "%s: something was done", name)
	}
}

// TestNothingToType: what has no name is not agreed to by a line end alone.
func TestNothingToType(t *testing.T) {
	t.Parallel()
	list, dir := askings(t)
	b, err := os.ReadFile(filepath.Join(dir, "request"))
	require.NoError(t, err)
	nameless := bytes.Replace(b, []byte(`"tool":"pay"`), []byte(`"tool":""`), 1)
	require.NotEqual(t, b, nameless)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "request"), nameless, 0o600))
	for _, name := range []string{"approve", "refuse"} {
		person, command := terminals(t)
		_, err := person.WriteString("\n")
		require.NoError(t, err)
		var out, errs strings.Builder
		assert.Equal(t, noAnswer, run(context.Background(), list[name].args, command, &out, &errs), "%s", &errs)
		assert.Empty(t, out.String())
	}
}
