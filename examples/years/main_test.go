package main

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestYears: after the first quarter the condensed log lets go of entries, the customer's among
// them, and still proves the customer's receipt.
func TestYears(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	require.Zero(t, start(t.Context(), []string{"-days", "100"}, &out, &errs), "%s%s", &out, &errs)
	require.Empty(t, errs.String())
	t.Log(out.String())
	row := regexp.MustCompile(`(?m)^ +0[.]3 +(\d+) +(\d+) MiB +[\d.]+ ms +[\d.]+ ms +(\d+) MiB +[\d.]+ ms +[\d.]+ ms +(\d+)$`).
		FindStringSubmatch(out.String())
	require.NotNil(t, row, "%s", &out)
	number := func(i int) int {
		n, err := strconv.Atoi(row[i])
		require.NoError(t, err)
		return n
	}
	entries, went := number(1), number(4)
	assert.Greater(t, entries, 100*clerks*12)
	assert.Greater(t, went*4, entries, "of the first two months' entries most went")
	assert.Regexp(t, `the receipt of entry \d+, from the customer's copy: WITNESSED in a log of \d+ entries, \d+ bytes`,
		out.String())
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	assert.True(t, err == nil && len(left) == 0, "left: %v, %v", left, err)
}

func TestArguments(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, 2, start(t.Context(), []string{"-days"}, &out, &errs))
	assert.Equal(t, 2, start(t.Context(), []string{"more"}, &out, &errs))
	assert.Empty(t, out.String())
}
