package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
)

// TestAudit compares the demonstration with what it says of each pack, in order.
func TestAudit(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	if code := start(context.Background(), nil, &out, &errs); code != 0 || errs.Len() > 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	rest := out.String()
	for _, want := range []string{
		`== Monday's pack`, `SUCCESS: LOGGED, NONE, TRUSTED: no last checkpoint`, `replayed        6\n`,
		`== Tuesday's:`, `SUCCESS: LOGGED, FRESH, TRUSTED\n`, `replayed        12\n`,
		`== Tuesday's again`, `NO SUCCESS: INVALID: BLOB at entry \d+: blobs/[0-9a-f]{64}: `,
		`== Monday's again`, `NO SUCCESS: LOGGED, STALE, TRUSTED`,
		`== Wednesday's`, `\(6 blobs erased\)\n`, `SUCCESS: LOGGED, FRESH, TRUSTED\n`, `replayed        12\n`,
		`not replayable  6: entry 6, 8, 10, 17, 19, and 1 more\n`,
		`under candidate.yaml`,
		`entry 6 monday-ben/0 refund.pay: ALLOW \(P1:desk:clerks\) → DENY MISSING_REQUIREMENT \(P1:desk:looked\)\n`,
		`12 calls judged: 6 as before, 4 denied now, 0 allowed now, 0 to be approved anew, 2 otherwise; ` +
			`0 not judged\n$`,
	} {
		at := regexp.MustCompile(want).FindStringIndex(rest)
		require.NotNil(t, at, "nothing says %q in:\n%s", want, rest)
		rest = rest[at[1]:]
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	assert.True(t, err == nil && len(left) == 0, "left behind: %v, %v", left, err)
}

// TestOwnPack audits packs from files, as an auditor does who has nothing else.
func TestOwnPack(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	o, first, second := twoDays(t, dir)
	trust, kept := filepath.Join(dir, "trust.json"), filepath.Join(dir, "kept")
	require.NoError(t, os.WriteFile(trust, o.Trust().Canonical(), 0o600))
	var out, errs bytes.Buffer
	run := func(want int, args ...string) string {
		t.Helper()
		out.Reset()
		errs.Reset()
		if code := start(ctx, args, &out, &errs); code != want || (code != 0) != (errs.Len() > 0) {
			t.Errorf("%v: exit %d, not %d: %s%s", args, code, want, out.String(), errs.String())
		}
		return out.String() + errs.String()
	}
	with := func(pack string, more ...string) []string {
		return append([]string{"-pack", pack, "-trust", trust, "-origin", origin}, more...)
	}
	run(0, with(second)...)
	run(1, with(first, "-kept", kept)...) // there is no such file yet, and none is made
	run(0, with(first, "-kept", kept, "-begin")...)
	run(1, with(first, "-kept", kept, "-begin")...) // the second audit continues it
	run(0, with(second, "-kept", kept)...)
	assert.Contains(t, run(1, with(first, "-kept", kept)...), "STALE", "the old pack")
	run(1, "-pack", second, "-trust", trust, "-origin", "example.org/other")
	run(1, "-pack", second, "-trust", second)
	run(1, with(filepath.Join(dir, "none"))...)
	run(2, "-pack", second)
	run(2, "-json")
	run(2, with(first, "-begin")...)
	run(2, "more")
	for what, name := range map[string]string{"directory": dir, "regular file": os.DevNull} {
		for _, args := range [][]string{with(name), {"-pack", first, "-trust", name}} {
			s := run(1, args...)
			assert.True(t, strings.Contains(s, what) && strings.Contains(s, name), "%v: %s", args, s)
		}
	}
	// of a variable that is not set: it would mean no history, and any log
	for _, name := range []string{"-kept", "-origin"} {
		if s := run(2, with(second, name, "")...); !strings.Contains(s, name+" is empty") {
			t.Errorf("%s: %s", name, s)
		}
	}
	other, err := replaced(kept, origin, "example.org/else")
	require.NoError(t, err)
	assert.Contains(t, run(1, with(second, "-kept", other)...), "audit: kept: "+other, "the checkpoint of another log")
	large := filepath.Join(dir, "large")
	require.NoError(t, errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, maxTrust+1)))
	assert.Contains(t, run(1, "-pack", first, "-trust", large), large+": 67108865 bytes", "a large trust state")
	run(2, "-none")

	var report struct {
		Success bool
		Size    uint64
	}
	run(0, with(second, "-json")...)
	err = json.Unmarshal(out.Bytes(), &report)
	assert.True(t, err == nil && report.Success && report.Size == 24, "%+v, %v", report, err)
}

// TestBackTestOfNoSuccess: the calls of a pack that is not as it should be are not judged again.
func TestBackTestOfNoSuccess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o, first, _ := twoDays(t, t.TempDir())
	last, err := o.store.Checkpoint(ctx)
	require.NoError(t, err)
	candidate, err := compile("candidate.yaml", candidateText)
	require.NoError(t, err)
	for name, options := range map[string]evidence.Options{"stale": {Trust: o.Trust(), Last: last}, "unpinned": {}} {
		var out bytes.Buffer
		a := auditor{out: &out, options: options}
		if err := a.backTest(ctx, first, candidate); !errors.Is(err, errNoSuccess) ||
			!strings.HasPrefix(out.String(), "NO SUCCESS") ||
			strings.Contains(out.String(), "refund.pay") {
			t.Errorf("%s: %v: %s", name, err, out.String())
		}
	}
}

// twoDays has an operator with a pack of each day.
func twoDays(t *testing.T, dir string) (o *operator, first, second string) {
	t.Helper()
	o, err := open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { o.close() })
	if first, err = o.day(t.Context(), "monday"); err == nil {
		second, err = o.day(t.Context(), "tuesday")
	}
	require.NoError(t, err)
	return o, first, second
}
