package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

// An asking is a command that does what it does only if a word was typed.
type asking struct {
	args []string
	word string
}

// askings makes what the commands that ask are about, in a new directory, and returns one call of
// each of them, and the directory.
func askings(t *testing.T) (map[string]asking, string) {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	helms(t, yes, "init", in("d"))
	helms(t, yes, "keygen", in("olga.pem"))
	event, _ := helms(t, yes, "trust", "event", "freeze", "--why", "test", "--config", in("d/helm.yaml"))
	require.NoError(t, os.WriteFile(in("event"), []byte(event), 0o600))
	require.NoError(t, os.WriteFile(in("request"), requestFile(t), 0o600))
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	call, end := kernelOver(t, in("log"), key)
	call("monday")
	end()
	return map[string]asking{
		"approve":    {[]string{"approve", in("request"), "--key", in("olga.pem")}, "pay"},
		"refuse":     {[]string{"refuse", in("request"), "--key", in("olga.pem")}, "pay"},
		"trust sign": {[]string{"trust", "sign", in("event"), "--key", in("d/root.pem")}, "freeze"},
		"log erase":  {[]string{"log", "erase", in("log"), "--session", "monday"}, "monday"},
	}, dir
}

// TestNobodyTypes: without a terminal no command takes a word from anywhere but --yes: not from a
// pipe, which a program may have written, and not from the environment. Nothing is done then.
func TestNobodyTypes(t *testing.T) {
	t.Setenv("HELM_YES", "pay")
	list, dir := askings(t)
	var asks []string
	for _, c := range leaves((&app{}).root()) {
		if commandOf(t, c).Flags().Lookup("yes") != nil {
			asks = append(asks, c)
		}
	}
	assert.Len(t, list, len(asks), "a command that asks, and has no case: %v", asks)
	was := tree(t, dir)
	null, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer null.Close()
	for _, name := range asks {
		x := list[name]
		require.NotEmpty(t, x.args, name)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		_, err = io.WriteString(write, x.word+"\n")
		require.NoError(t, err)
		require.NoError(t, write.Close())
		for from, stdin := range map[string]io.Reader{
			"closed": strings.NewReader(""), "text": strings.NewReader(x.word + "\n"), "pipe": read, "null": null,
		} {
			for _, more := range [][]string{nil, {"--json"}} {
				var out, errs strings.Builder
				code := run(context.Background(), append(slices.Clone(x.args), more...), stdin, &out, &errs)
				assert.Equal(t, usage, code, "%s, stdin %s: %s", name, from, &errs)
				assert.Empty(t, out.String(), "%s, stdin %s", name, from)
				assert.Contains(t, errs.String(), "nobody can type here: --yes "+x.word, "%s, stdin %s", name, from)
			}
		}
		require.NoError(t, read.Close())
		for _, wrong := range []string{x.word + " ", strings.ToUpper(x.word), x.word + "\n", "yes", "y"} {
			out, errs := helms(t, no, append(slices.Clone(x.args), "--yes", wrong)...)
			assert.Empty(t, out, name)
			assert.Contains(t, errs, "nothing was done", name)
		}
	}
	assert.Equal(t, was, tree(t, dir), "something was done")
	for _, name := range asks {
		out, _ := helms(t, yes, append(slices.Clone(list[name].args), "--yes", list[name].word)...)
		assert.NotEmpty(t, out, name)
	}
}

// commandOf returns the command of a path.
func commandOf(t *testing.T, path string) *cobra.Command {
	t.Helper()
	c, rest, err := (&app{}).root().Find(strings.Fields(path))
	require.NoError(t, err)
	require.Empty(t, rest)
	return c
}

// tree returns what is in a directory, by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	}))
	return files
}

// requestFile returns what an approver gets.
func requestFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, writeRequest(&b, `{"sum":5000}`, nil))
	return b.Bytes()
}

// TestSpelt: a member in other letter case is no member, at any depth that is ours.
func TestSpelt(t *testing.T) {
	t.Parallel()
	for text, well := range map[string]bool{
		`{"tool":"pay","args":{"Tool":"x","tool":"y"},"caller":{"id":"ann","roles":["a"]}}`: true,
		`{"Tool":"pay"}`:                            false,
		`{"tool":"pay","Tool":"look"}`:              false,
		`{"tool":"pay","caller":{"ID":"ann"}}`:      false,
		`{"tool":"pay","caller":{"id":"","ıd":""}}`: false,
		`{"tool":"pay","tool":"look"}`:              false,
		`{"tool":"pay","caller":null}`:              true,
	} {
		var q question
		assert.Equal(t, well, strict([]byte(text), &q) == nil, text)
	}
	var p pending
	good := string(requestFile(t))
	require.NoError(t, strict([]byte(good), &p))
	for _, name := range []string{"request", "args", "tool", "nonce", "caller", "quorum"} {
		other := strings.Replace(good, `"`+name+`":`, `"`+strings.ToUpper(name)+`":`, 1)
		require.NotEqual(t, good, other)
		assert.Error(t, strict([]byte(other), new(pending)), name)
	}
}
