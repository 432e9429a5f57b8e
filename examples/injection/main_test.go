package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/policy"
)

// TestOutput compares every call, verdict and rule with the table that the example is there to
// show.
func TestOutput(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("testdata/output.txt")
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, strings.Split(string(want), "\n"), strings.Split(out.String(), "\n"))
}

// TestWrongFact: the policy does not load if the fact that was wrongly marked is not marked. So the
// mark is the author's decision, and never an oversight.
func TestWrongFact(t *testing.T) {
	t.Parallel()
	text, err := policies.ReadFile("with.yaml")
	require.NoError(t, err)
	const mark = "{email: {at: /*/email, trusted: true}}"
	require.Equal(t, 1, strings.Count(string(text), mark))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/with.yaml", text, 0o600))
	_, err = policy.Load(dir + "/with.yaml")
	require.NoError(t, err)
	unmarked := strings.Replace(string(text), mark, "{email: /*/email}", 1)
	require.NoError(t, os.WriteFile(dir+"/with.yaml", []byte(unmarked), 0o600))
	_, err = policy.Load(dir + "/with.yaml")
	assert.ErrorContains(t, err, "contacts.find#email is what an untrusted tool says")
}

func TestArguments(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := start(t.Context(), []string{"-x"}, &out, &errs)
	assert.True(t, code == 2 && out.Len() == 0 && errs.Len() != 0, "exit status %d, %q, %q", code, &out, &errs)
}
