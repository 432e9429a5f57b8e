package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// letGo puts stubs in the place of the call of hostileLog that ran, entries 2 and 3, and forgets
// its blobs.
func letGo(t *testing.T, dir string) {
	t.Helper()
	store, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	defer store.Close()
	var stubs [][]byte
	var blobs []contracts.Digest
	var r contracts.Reader
	for e, err := range store.Entries(t.Context(), 2, 4) {
		require.NoError(t, err)
		sealed, err := r.Open(e)
		require.NoError(t, err)
		st, err := sealed.Statement()
		require.NoError(t, err)
		names := uint64(2) // its decision
		if d := st.Decision; d != nil {
			names = 1 // its policy
			blobs = append(blobs, d.InputsHash)
		}
		stubs = append(stubs, contracts.NewStub(st, e.Hash(), names).Append(nil))
	}
	require.NoError(t, store.Condense(t.Context(), func(yield func(uint64, []byte) bool) {
		_ = yield(2, stubs[0]) && yield(3, stubs[1])
	}, slices.Values(blobs)))
}

// TestStubs: entries that a log let go of are listed as stubs, and nobody can say why they are as
// they are.
func TestStubs(t *testing.T) {
	t.Parallel()
	dir := hostileLog(t)
	log := filepath.Join(dir, "log")
	letGo(t, log)
	page := filepath.Join(dir, "page.html")
	for _, c := range []struct {
		args []string
		code int
		says []string
		not  string
	}{
		{[]string{"log", "show", log}, yes, []string{"  s/0  decision, a stub  pay  ALLOW\n",
			"  s/1  receipt, a stub  ALLOW  EXECUTED\n", "  s/2  receipt  "}, "P1:bank:all"},
		{[]string{"log", "show", log, "--verdict", "ALLOW"}, yes, []string{"  s/0  decision, a stub", "  s/1  receipt, a stub"}, "s/2"},
		{[]string{"log", "show", log, "--tool", "pay", "--json"}, yes, []string{`"stub":true`, `"kind":"decision"`,
			`"tool":"pay"`}, `"rule"`},
		{[]string{"log", "show", log, "--why", "s/0"}, yes, []string{"decision, a stub",
			"no steps: only the stub of this entry is left: the log let go of it\n"}, "caller"},
		{[]string{"log", "show", log, "--why", "s/1"}, yes, []string{"receipt, a stub", "no steps: only the stub",
			"What led to it:\n", "  s/0  decision, a stub  pay  ALLOW\n"}, "caller"},
		{[]string{"log", "show", log, "--why", "s/2"}, yes, []string{"DENY DENY_TOOL_NOT_FOUND"}, "no steps"},
		{[]string{"log", "show", log, "--html", page}, yes, []string{"page.html"}, "stub"},
		{[]string{"log", "graph", log}, yes, []string{`2 decision, a stub\ns/0\n`, "e3 -> e2 [label=prev];"}, ""},
		{[]string{"log", "graph", log, "--json"}, yes, []string{`"kind":"receipt","stub":true,`}, ""},
		{[]string{"log", "erase", log, "--session", "s", "--yes", "s"}, yes, []string{"3 calls: "}, ""},
	} {
		var out, errs strings.Builder
		code := run(context.Background(), c.args, strings.NewReader(""), &out, &errs)
		name := strings.Join(c.args, " ")
		assert.Equal(t, c.code, code, "%s: %s", name, errs.String())
		for _, want := range c.says {
			assert.Contains(t, out.String(), want, name)
		}
		if c.not != "" {
			assert.NotContains(t, out.String(), c.not, name)
		}
	}
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	assert.Contains(t, string(b), `"{\"stub\":{\"decision\":2,`)
}
