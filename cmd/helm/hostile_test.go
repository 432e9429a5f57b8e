package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// unseen is what turns text round, ends a line, hides, or colours, of all that may be in the name
// of a caller. The kernel names no entry by other bytes; files and arguments may be.
const (
	unseen  = "a\u202ecod\u2066\u200b\ufeff\u0085DENY\u2028é\u009b31m\U000e0041\"\\"
	hostile = "\x1b[2J\x1b]0;owned\x07\r\b" + unseen
)

const openPolicy = `helm: policy/v1
layer: P1
bundle: {name: bank, version: 1}
tools:
  pay: {effect: write, input: {type: object, properties: {to: {type: string}}}}
rules:
  - {id: all, allow: pay}
`

// hostileLog makes a log in which every name that others choose is hostile, in a new directory, and
// returns that.
func hostileLog(t *testing.T) string {
	dir := t.TempDir()
	file := filepath.Join(dir, "pay.yaml")
	require.NoError(t, os.WriteFile(file, []byte(openPolicy), 0o600))
	p, err := policy.Load(file)
	require.NoError(t, err)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	store, err := filestore.Open(filepath.Join(dir, "log"), filestore.Options{})
	require.NoError(t, err)
	pay := func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`"paid"`), nil }
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "example.org/pay", Store: store,
		Keep: helm.Keep{Outputs: true}, Drivers: map[string]helm.Driver{"pay": helm.Func(pay)}})
	require.NoError(t, err)
	for _, tool := range []string{"pay", "hidden", hostile} {
		k.Guard(context.Background(), helm.Intent{Tool: tool, Args: []byte(`{"to":"x"}`), Session: "s",
			Caller: helm.Caller{ID: unseen, Tenant: unseen, Roles: []string{unseen}}})
	}
	_, err = k.Checkpoint(context.Background())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "trust.json"), k.Trust().Canonical(), 0o600))
	require.NoError(t, k.Close())
	require.NoError(t, store.Close())
	var b strings.Builder
	require.NoError(t, crypto.WriteKey(&b, key))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "key.pem"), []byte(b.String()), 0o600))
	return dir
}

// No name moves a cursor, turns text round or ends a line; what comes from a log is ASCII. With
// --json all that is printed is JSON.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	dir := hostileLog(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	tools, err := json.Marshal([]map[string]any{{"name": hostile, "description": hostile,
		"inputSchema": map[string]any{"type": "object", "description": hostile}}})
	require.NoError(t, err)
	for name, b := range map[string][]byte{"hostile.pack": hostilePack(t), "tools.json": tools,
		"two/" + hostile: nil} {
		require.NoError(t, os.MkdirAll(filepath.Dir(at(name)), 0o700))
		require.NoError(t, os.WriteFile(at(name), b, 0o600))
	}
	const log = true // what is printed comes from a log
	trust := []string{"--trust", at("trust.json")}
	for _, c := range []struct {
		code int
		log  bool
		args []string
	}{
		{yes, log, []string{"log", "show", at("log")}},
		{yes, log, []string{"log", "show", at("log"), "--session", "s"}},
		{yes, log, []string{"log", "show", at("log"), "--why", "s/1"}},
		{yes, log, []string{"log", "show", at("log"), "--why", "s/2"}},
		{yes, log, []string{"log", "show", at("log"), "--why", "5"}},
		{usage, !log, []string{"log", "show", at("log"), "--why", hostile + "/7"}},
		{usage, !log, []string{"log", "show", at("log"), "--verdict", hostile}},
		{noAnswer, !log, []string{"log", "show", at("two")}},
		{yes, log, []string{"log", "graph", at("log")}},
		{usage, !log, []string{"log", "graph", at("log"), "--of", hostile}},
		{yes, log, append([]string{"log", "verify", at("log")}, trust...)},
		{usage, !log, append([]string{"log", "verify", at("log"), "--origin", hostile}, trust...)},
		{yes, log, []string{"log", "export", at("log"), at("NEW.pack"), "--key", at("key.pem")}},
		{yes, log, []string{"excerpt", "write", at("log"), "s/1", at("NEW.excerpt")}},
		{usage, !log, []string{"excerpt", "write", at("log"), hostile, at("NEW.excerpt")}},
		{noAnswer, !log, []string{"excerpt", "write", at("log"), "s/1", at("none/" + hostile)}},
		{yes, log, append([]string{"excerpt", "verify", at("a.excerpt")}, trust...)},
		{no, log, append([]string{"excerpt", "verify", at("hostile.pack")}, trust...)},
		{yes, log, append([]string{"pack", "show", at("a.pack")}, trust...)},
		{yes, log, []string{"pack", "show", at("a.pack"), "--why", "s/2"}},
		{yes, log, []string{"pack", "graph", at("a.pack")}},
		{no, log, []string{"pack", "verify", at("a.pack")}},
		{no, log, append([]string{"pack", "verify", at("hostile.pack")}, trust...)},
		{no, log, append([]string{"pack", "show", at("hostile.pack")}, trust...)},
		{noAnswer, !log, append([]string{"pack", "backtest", at("a.pack"), at(hostile)}, trust...)},
		{yes, log, append([]string{"pack", "backtest", at("a.pack"), at("pay.yaml")}, trust...)},
		{no, log, []string{"policy", "explain", at("pay.yaml"), "--call",
			`{"tool":"pay","caller":{"id":"\u202e\u009b31m"},"args":{"to":"\u202e"}}`}},
		{no, log, []string{"policy", "explain", at("pay.yaml"), "--call", `{"tool":"a\u001b[2J\u202e"}`}},
		{noAnswer, !log, []string{"policy", "check", at(hostile)}},
		{usage, !log, []string{hostile}},
		{usage, !log, []string{"log", "show", "--" + hostile}},
		{usage, log, []string{"log", "erase", at("log"), "--session", hostile}},
		{no, log, []string{"log", "erase", at("log"), "--session", hostile, "--yes", "x"}},
		{yes, log, []string{"log", "erase", at("log"), "--session", hostile, "--yes", hostile}},
		{yes, log, []string{"log", "erase", at("log"), "--session", "s", "--yes", "s"}},
		{yes, log, []string{"log", "show", at("log"), "--why", "s/2"}},
	} {
		for _, form := range []string{"--json=false", "--json"} {
			args := slices.Clone(c.args)
			for i := range args {
				args[i] = strings.Replace(args[i], at("NEW"), at(map[bool]string{true: "b", false: "a"}[form == "--json"]), 1)
			}
			var out, errs strings.Builder
			code := run(context.Background(), append(args, form), strings.NewReader(""), &out, &errs)
			name := strings.Join(c.args[:min(2, len(c.args))], " ") + " " + form
			assert.Equal(t, c.code, code, "%s: %s%s", name, out.String(), errs.String())
			assert.NotEmpty(t, out.String()+errs.String(), name)
			for _, text := range []string{out.String(), errs.String()} {
				harmless(t, name, text, c.log || form == "--json")
				if form == "--json" {
					isJSON(t, name, text)
				}
			}
		}
	}
}

// harmless fails if a text has what no terminal should be told.
func harmless(t *testing.T, name, text string, inASCII bool) {
	t.Helper()
	assert.NotContains(t, text, "\nDENY\u2028", name)
	for _, r := range text {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) || inASCII && r >= 0x7f {
			t.Errorf("%s: %U in %q", name, r, text)
			return
		}
	}
}

func isJSON(t *testing.T, name, text string) {
	t.Helper()
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var v any
		if !assert.NoError(t, d.Decode(&v), "%s: %q", name, text) {
			return
		}
	}
}

// hostilePack returns an archive in which a file has a hostile name.
func hostilePack(t *testing.T) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: hostile, Mode: 0o644, Size: 1}))
	_, err := w.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// An entry is a line, whatever is in its names.
func TestAnEntryIsALine(t *testing.T) {
	t.Parallel()
	dir := hostileLog(t)
	var lines, objects, errs strings.Builder
	args := []string{"log", "show", filepath.Join(dir, "log")}
	require.Equal(t, yes, run(context.Background(), args, nil, &lines, &errs))
	require.Equal(t, yes, run(context.Background(), append(args, "--json"), nil, &objects, &errs))
	assert.Equal(t, 6, strings.Count(lines.String(), "\n"), lines.String())
	assert.Equal(t, 6, strings.Count(objects.String(), "\n"))

	lines.Reset()
	require.Equal(t, yes, run(context.Background(), append(args, "--why", "s/2"), nil, &lines, &errs))
	assert.Contains(t, lines.String(), `caller a\u202ecod\u2066\u200b\ufeff\u0085DENY\u2028\u00e9\u009b31m\U000e0041`)
}

// No moment at which an export is interrupted leaves half a file, or another file.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	dir := hostileLog(t)
	before, err := os.ReadDir(dir)
	require.NoError(t, err)
	pack := filepath.Join(dir, "a.pack")
	args := []string{"log", "export", filepath.Join(dir, "log"), pack, "--key", filepath.Join(dir, "key.pem")}
	interrupted := 0
	for n := 0; ; n++ {
		require.Less(t, n, 10_000)
		var out, errs strings.Builder
		code := run(&endsAt{Context: context.Background(), left: n}, args, strings.NewReader(""), &out, &errs)
		if code == yes {
			break
		}
		interrupted++
		require.Equal(t, noAnswer, code)
		require.Empty(t, out.String())
		require.Contains(t, errs.String(), "interrupted")
		after, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, after, len(before))
	}
	assert.Positive(t, interrupted)
	after, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, after, len(before)+1, "the pack, and no other file")
	args = []string{"pack", "verify", pack, "--trust", filepath.Join(dir, "trust.json")}
	assert.Equal(t, yes, run(context.Background(), args, nil, &strings.Builder{}, &strings.Builder{}))
}

// endsAt is canceled when it has been asked a number of times.
type endsAt struct {
	context.Context
	left int
}

func (c *endsAt) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func (c *endsAt) Done() <-chan struct{} { return nil }

func (c *endsAt) Deadline() (time.Time, bool) { return time.Time{}, false }
