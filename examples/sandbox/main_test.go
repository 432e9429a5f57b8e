package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/internal/race"
)

// want are parts of lines that the program prints, in order. Gas and digests are those of the Go
// that built the guests.
var want = []string{
	`^  csv.summary: ALLOW ALLOW$`,
	`^    {"columns":\[{"distinct":2,"name":"city","values":3},` +
		`{"distinct":3,"greatest":4.5,"least":2.25,"mean":3.25,"name":"price","values":3}\],"rows":3}$`,
	`^    receipt EXECUTED: gas [0-9]+, module [0-9a-f]{8}, profile summary$`,
	`^  letter.write: ALLOW ALLOW$`,
	`^    Dear Ann, your invoice 4711 is due on 1 March.$`,
	`^    receipt EXECUTED: gas [0-9]+, module [0-9a-f]{8}, profile letters$`,
	`^  SUCCESS: LOGGED, NONE, TRUSTED`,
	`^  run again: 2 the same; of these, 1 of a module that no policy lists$`,
	`^  SUCCESS: LOGGED, NONE, TRUSTED`, // nothing but a run again finds the output that was changed
	`^  NO SUCCESS: INVALID: RERUN at entry 7: predicate.outputHash: `,
	`^  the module                  ALLOW ALLOW`,
	`^  a wrapper around the module DENY .*wraps a sandboxed driver: bind the module itself$`,
	`^  a function of the host      DENY SANDBOX_VIOLATION `,
	`^  the module with more gas    DENY SANDBOX_VIOLATION .*gas`,
	`^  another module              DENY SANDBOX_VIOLATION .*modules`,
	`^32 ways, 0 got out. What the host keeps beside the directories: unchanged\.$`,
	`^  SUCCESS: LOGGED, NONE, TRUSTED`,
	`^  run again: 12 the same; of these, 12 of a module that no policy lists$`,
}

// reasons are the endings of ways that do not end with an output.
var reasons = map[string]string{
	"sleep for a year":      "ERR_COMPUTE_GAS_EXHAUSTED",
	"exit with 3":           "TOOL_ERROR",
	"loop for ever":         "ERR_COMPUTE_GAS_EXHAUSTED",
	"recurse for ever":      "ERR_COMPUTE_MEMORY_EXHAUSTED",
	"allocate for ever":     "ERR_COMPUTE_MEMORY_EXHAUSTED",
	"print 1 GiB":           "ERR_COMPUTE_OUTPUT_EXHAUSTED",
	"print 1 GiB of errors": "ERR_COMPUTE_GAS_EXHAUSTED",
}

func TestSandbox(t *testing.T) {
	race.Alone(t)
	if testing.Short() {
		t.Skip("-short: building and compiling three guests takes half a minute; without it they run")
	}
	var out bytes.Buffer
	err := run(t.Context(), &out)
	t.Log("\n" + out.String())
	require.NoError(t, err)
	lines := strings.Split(out.String(), "\n")
	at := 0
	for _, x := range want {
		for at < len(lines) && !regexp.MustCompile(x).MatchString(lines[at]) {
			at++
		}
		require.Less(t, at, len(lines), "no line is %s, behind those before it", x)
		at++
	}
	for way, reason := range reasons {
		assert.Regexp(t, `(?m)^  `+way+` +(ALLOW|DENY) +`+reason+` `, out.String())
	}
	stopped := regexp.MustCompile(`(?m)^  \S.* ALLOW +ALLOW +(stopped: .*|null)$`).FindAllString(out.String(), -1)
	assert.Equal(t, 32-len(reasons), len(stopped), "%q", stopped)
}

func TestArguments(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := start(t.Context(), []string{"-x"}, &out, &errs)
	assert.True(t, code == 2 && out.Len() == 0 && errs.Len() != 0, "exit status %d, %q, %q", code, &out, &errs)
}
