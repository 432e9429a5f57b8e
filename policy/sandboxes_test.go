package policy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

var tree = strings.Repeat("5d41402a", 8)

var boxesText = `helm: policy/v1
layer: P1
bundle: {name: reports, version: 1}
sandboxes:
  csv:
    args: ["-5", --head]
    env: [LANG]
    files: {/in: read, /lib: sha256:` + tree + `}
    gas: 2e9
    memory: 64MiB
    modules:
      - ` + tree + `
  quiet: {output: 64KiB, clock: fixed, random: seeded}
tools:
  csv.sum: {effect: read, input: {type: object}, sandbox: csv}
  csv.list: {effect: read, input: {type: object}, sandbox: pure}
rules:
  - {id: all, allow: [csv.sum, csv.list]}
`

const boxesFloor = `helm: policy/v1
layer: P0
name: floor
version: 1
sandboxes: {small: {memory: 128MiB, files: {/in: read, /lib: read}, env: [LANG, TZ], gas: 1e12}}
profile:
  sandbox: {read: small, destructive: pure}
`

func TestSandboxes(t *testing.T) {
	t.Parallel()
	p, err := guardian.Compile(mustParse(t, "reports.yaml", boxesText), mustParse(t, "floor.yaml", boxesFloor))
	require.NoError(t, err)
	module, err := crypto.ParseDigest(tree)
	require.NoError(t, err)
	usual := contracts.Sandbox{}.Filled()
	small, csv := usual, usual
	small.Memory, small.Gas, small.Env = 2048, 1e12, []string{"LANG", "TZ"}
	small.Files = map[string]string{"/in": "read", "/lib": "read"}
	csv.Args, csv.Env, csv.Gas = []string{"-5", "--head"}, []string{"LANG"}, 2e9
	csv.Files = map[string]string{"/in": "read", "/lib": "sha256:" + tree}
	assert.Equal(t, []guardian.Demand{
		{Document: "P0:floor", Name: "small", Grants: small},
		{Document: "P1:reports", Name: "csv", Grants: csv, Args: true, Modules: []contracts.Digest{module}},
	}, p.Sandboxes("csv.sum"))
	assert.Equal(t, []guardian.Demand{{Document: "P0:floor", Name: "small", Grants: small},
		{Document: "P1:reports", Name: "pure", Grants: usual}}, p.Sandboxes("csv.list"))
}

// All faults of the profiles of a stack are said at once, each with its line.
func TestSandboxPlaces(t *testing.T) {
	t.Parallel()
	reports := strings.NewReplacer(`"-5"`, `-5`, "[LANG]", "[LANG, 1A]", "/in: read", "in: raed", "2e9", "2.5",
		"64MiB", "100KiB", "{output", "{outputs", "sandbox: pure", "sandbox: small").Replace(boxesText)
	floor := strings.NewReplacer("read: small", "read: csv", "gas: 1e12", "random: 1").Replace(boxesFloor)
	_, err := guardian.Compile(mustParse(t, "reports.yaml", reports), mustParse(t, "floor.yaml", floor))
	require.Error(t, err)
	assert.Equal(t, []string{
		`floor.yaml:5:94: /sandboxes/small/random: is a number, not a string; quote it`,
		`floor.yaml:7:19: /profile/sandbox/read: no profile "csv" in this document; declare it under sandboxes, or write pure or reported`,
		`reports.yaml:6:12: /sandboxes/csv/args/0: is a number, not a string; quote it`,
		`reports.yaml:7:17: /sandboxes/csv/env/1: "1A" is not a name of a variable: 1 to 128 of A-Z a-z 0-9 _, and no digit first; correct it`,
		`reports.yaml:8:17: /sandboxes/csv/files/in: "in" is no path of a guest; write an absolute, clean path of at most 128 bytes`,
		`reports.yaml:9:10: /sandboxes/csv/gas: no amount of gas; write an integer from 1 to 1e12`,
		`reports.yaml:10:13: /sandboxes/csv/memory: "100KiB" is not whole pages of 64KiB, at most 1024MiB; write it like 64KiB or 64MiB`,
		`reports.yaml:13:20: /sandboxes/quiet/outputs: unknown key "outputs"; did you mean output?`,
		`reports.yaml:16:60: /tools/csv.list/sandbox: no profile "small" in this document; declare it under sandboxes, or write pure or reported`,
	}, strings.Split(err.Error(), "\n"))
}
