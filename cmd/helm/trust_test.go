package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/trust/registry"
)

// helms runs a command that must answer so, and returns stdout and stderr.
func helms(t *testing.T, code int, args ...string) (string, string) {
	t.Helper()
	var out, errs strings.Builder
	require.Equal(t, code, run(context.Background(), args, strings.NewReader(""), &out, &errs), "%s", &errs)
	return out.String(), errs.String()
}

// TestOtherKernelKey: a directory goes on with another key. The event that ends the key of the
// directory itself is in force, and says that another is needed.
func TestOtherKernelKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	in := func(name string) string { return filepath.Join(dir, name) }
	helms(t, yes, "init", dir)
	helms(t, yes, "keygen", in("next.pem"))
	config := "--config=" + in("helm.yaml")
	enter := func(args ...string) string {
		t.Helper()
		event, _ := helms(t, yes, append([]string{"trust", "event", config}, args...)...)
		require.NoError(t, os.WriteFile(in("event"), []byte(event), 0o600))
		signed, _ := helms(t, yes, "trust", "sign", in("event"), "--key", in("root.pem"), "--yes", args[0])
		require.NoError(t, os.WriteFile(in("event"), []byte(signed), 0o600))
		_, errs := helms(t, yes, "trust", "enter", config, in("event"))
		return errs
	}
	g, err := state.ReadTrust(context.Background(), in("state"))
	require.NoError(t, err)
	for _, role := range []string{"kernel", "log"} {
		assert.Empty(t, enter("key", "--role", role, "--name", "next", "--key", in("next.pem")))
	}
	id := crypto.KeyID(g.Trust.Keys(registry.Kernel, 0)[0]).String()
	assert.Contains(t, enter("revoke", "--id", id, "--why", "old"), "it ends the key of this directory")
	helms(t, noAnswer, "log", "checkpoint", config)
	out, _ := helms(t, no, "doctor", config)
	assert.Contains(t, out, "key.pem: no key of a kernel")
	require.NoError(t, os.Rename(in("next.pem"), in("state/key.pem")))
	helms(t, yes, "doctor", config)
	out, _ = helms(t, yes, "log", "checkpoint", config)
	assert.Contains(t, out, g.Origin)
	helms(t, yes, "log", "verify", in("state/log"), "--trust", in("state/trust.json"))
}

// TestTokenNotShown: a token that nobody could read is in no file.
func TestTokenNotShown(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "d")
	helms(t, yes, "init", dir)
	config := "--config=" + filepath.Join(dir, "helm.yaml")
	for _, json := range []string{"--json=false", "--json"} {
		var errs strings.Builder
		args := []string{"token", "new", "bot", "--caller", "ann", config, json}
		require.Equal(t, noAnswer, run(context.Background(), args, strings.NewReader(""), closed{}, &errs))
		assert.Contains(t, errs.String(), "stdout: ")
		out, _ := helms(t, yes, "token", "list", config)
		assert.Empty(t, out)
	}
}
