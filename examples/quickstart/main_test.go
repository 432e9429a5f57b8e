package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/examples/internal/output"
	"github.com/helmkernel/helm/internal/shared"
)

// want is the reason of each call of the conversation, in order.
var want = []contracts.ReasonCode{
	contracts.ReasonAllow, contracts.ReasonAllow, contracts.ReasonAllow, contracts.ReasonAllow, contracts.ReasonAllow,
	contracts.ReasonPolicyViolation, contracts.ReasonPolicyViolation, contracts.ReasonToolNotFound,
	contracts.ReasonDestinationNotAllowed,
	contracts.ReasonPolicyViolation, contracts.ReasonSchemaViolation, contracts.ReasonArgsCanonicalization,
	contracts.ReasonArgsCanonicalization,
	contracts.ReasonToolError, contracts.ReasonToolError, contracts.ReasonContractDrift,
}

func TestQuickstart(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	pack, key := filepath.Join(dir, "quickstart.tar"), filepath.Join(dir, "key.pem")
	var out bytes.Buffer
	require.NoError(t, run(context.Background(), &out, where{filepath.Join(dir, "d"), pack, key}))
	lines := strings.Split(out.String(), "\n")
	if !strings.HasPrefix(lines[0], "CALL") || len(lines) < len(want)+4 {
		t.Fatalf("no table:\n%s", out.String())
	}
	for i, reason := range want {
		assert.True(t, regexp.MustCompile(`  `+string(reason)+` .*#[0-9]+ [0-9a-f]{8}$`).MatchString(lines[i+1]),
			"call %d is not %s with a receipt: %s", i+1, reason, lines[i+1])
	}
	for _, s := range []string{"level  LOGGED, signer TRUSTED: 26 entries, 16 verdicts replayed",
		"one bit flipped: INVALID"} {
		assert.Contains(t, out.String(), s, "nothing says")
	}
	assert.False(t, strings.Contains(out.String(), "hunter2") && !strings.Contains(out.String(), `"text":"The pass`),
		"an argument is printed where it was not written")
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
	assert.True(t, err == nil && len(left) == 4 && len(hidden) == 0,
		"beside directory, pack, trust state and key there are %v %v", left, hidden)
	t.Run("second implementation", func(t *testing.T) { compare(t, pack, key, 26) })
	out.Reset()
	// continues the log
	require.NoError(t, run(context.Background(), &out, where{filepath.Join(dir, "d"), pack, key}))
	for _, s := range []string{"(26 entries were there, 24 came)",
		"level  LOGGED, signer TRUSTED: 50 entries, 32 verdicts replayed", "one bit flipped: INVALID"} {
		assert.Contains(t, out.String(), s, "the second run does not say %q:\n", s)
	}
	t.Run("second implementation, second run", func(t *testing.T) { compare(t, pack, key, 50) })
}

// compare has a second implementation of the formats verify a pack with its trust state.
func compare(t *testing.T, pack, key string, size int) {
	bin := shared.Oracle(t,
		"neither pack nor trust state is compared with the second implementation, nor one that it spoiled refused")
	b, err := exec.Command(bin, "verify", "-trust", output.TrustName(pack), "-origin",
		"example.org/quickstart",
		pack).CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, b)
	var result struct {
		Level, Signer string
		Size          int
	}
	err = json.Unmarshal(b, &result)
	assert.True(t, err == nil && result.Level == "LOGGED" && result.Signer == "TRUSTED" && result.Size == size, "%v %s",
		err, b)
	text, err := os.ReadFile(key)
	require.NoError(t, err)
	block, _ := pem.Decode(text)
	seed := block.Bytes[len(block.Bytes)-32:]
	spoiled := filepath.Join(t.TempDir(), "spoiled.tar")
	b, err = exec.Command(bin, "mutate", "-seed-hex", hex.EncodeToString(seed), "-n", "second-receipt", pack,
		spoiled).CombinedOutput()
	require.NoError(t, err, "%v\n%s", err, b)
	if state, err := os.ReadFile(output.TrustName(pack)); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(output.TrustName(spoiled), state, 0o600); err != nil {
		t.Fatal(err)
	}
	err = audit(context.Background(), &bytes.Buffer{}, spoiled)
	assert.True(t, err != nil && strings.Contains(err.Error(), "REFERENCE"), "a second receipt, well signed: %v", err)
}
