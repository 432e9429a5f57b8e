package evidence_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

func Example() {
	ctx := context.Background()
	policy, err := guardian.Compile(contracts.Document{Name: "clock.json", Canonical: []byte(
		`{"bundle":{"name":"clock","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"clock.read",` +
			`"id":"all"}],"tools":{"clock.read":{"effect":"read","input":{"type":"object"}}}}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		fmt.Println(err)
		return
	}
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: policy, Key: key, Store: store, Origin: "example.test/clock"})
	if err != nil {
		fmt.Println(err)
		return
	}
	noon := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"noon"`), nil
	})
	k.Guard(ctx, helm.Intent{Tool: "clock.read", Args: json.RawMessage(`{}`), Driver: noon})
	k.Guard(ctx, helm.Intent{Tool: "clock.set", Args: json.RawMessage(`{}`), Driver: noon})
	if _, err := k.Checkpoint(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, store, key); err != nil {
		fmt.Println(err)
		return
	}

	// The auditor has the pack and, from elsewhere, the trust state.
	o := evidence.Options{Trust: k.Trust(), Origin: "example.test/clock"}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
	fmt.Println(report.Success(evidence.Logged), report.Level, report.Signer, err)
	fmt.Println(report.Allows, "allowed,", report.Denials, "denied,", report.Replay.Replayed, "verdicts made again")

	// A byte is changed.
	pack.Bytes()[pack.Len()/2] ^= 1
	report, err = evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
	fmt.Println(report.Level, err != nil)
	// Output:
	// true LOGGED TRUSTED <nil>
	// 1 allowed, 1 denied, 2 verdicts made again
	// INVALID true
}

// TestPackageComment verifies the pack in the package comment.
func TestPackageComment(t *testing.T) {
	t.Parallel()
	src, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, example, ok := strings.Cut(string(src), "// # Example\n")
	f := regexp.MustCompile(`(?m)((?:^//\t.*\n)+)`).FindAllString(example, -1)
	require.True(t, ok && len(f) == 3, "%d indented blocks after the heading", len(f))
	block := func(i int) string { return strings.NewReplacer("//\t", "", "\n", "").Replace(f[i]) }
	zipped, err := base64.StdEncoding.DecodeString(block(0))
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	require.NoError(t, err)
	pack, err := io.ReadAll(z)
	require.NoError(t, err)
	key, err := hex.DecodeString(block(1))
	require.NoError(t, err)
	r, err := evidence.Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)),
		evidence.Options{Kernel: key, Origin: "example.test/log"})
	assert.True(t, err == nil && r.Success(evidence.Logged) && r.Size == 1 && r.MerkleRoot.String() == block(2),
		"%+v, %v", r, err)
}
