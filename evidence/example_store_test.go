package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

var noon = helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`"noon"`), nil
})

// newClock is a kernel over a store, of one tool that tells the time.
func newClock(store proofgraph.Store) (*helm.Kernel, crypto.Signer, error) {
	policy, err := guardian.Compile(contracts.Document{Name: "clock.json", Canonical: []byte(
		`{"bundle":{"name":"clock","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"clock.read",` +
			`"id":"all"}],"tools":{"clock.read":{"effect":"read","input":{"type":"object"}}}}`)})
	if err != nil {
		return nil, nil, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return nil, nil, err
	}
	k, err := helm.New(helm.Options{Policy: policy, Key: key, Store: store, Origin: "example.test/clock"})
	return k, key, err
}

// A log is verified in its directory, while its kernel goes on.
func ExampleVerifyStore() {
	base, err := os.MkdirTemp("", "evidence-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(base)
	ctx, dir := context.Background(), filepath.Join(base, "log")
	store, err := filestore.Open(dir, filestore.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	k, _, err := newClock(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Guard(ctx, helm.Intent{Tool: "clock.read", Args: json.RawMessage(`{}`), Driver: noon})
	if _, err := k.Checkpoint(ctx); err != nil {
		fmt.Println(err)
		return
	}
	k.Guard(ctx, helm.Intent{Tool: "clock.read", Args: json.RawMessage(`{}`), Driver: noon})

	// Another process: it has the directory and, from elsewhere, the trust state.
	files, err := filestore.OpenReadOnly(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer files.Close()
	report, err := evidence.VerifyStore(ctx, files, evidence.Options{Trust: k.Trust(), Origin: "example.test/clock"})
	fmt.Println(report.Success(evidence.Logged), report.Allows, "allowed,", report.Behind,
		"entries after the checkpoint,", err)
	// Output:
	// true 1 allowed, 2 entries after the checkpoint, <nil>
}

// A pack is verified, and then read.
func ExampleOpenPack() {
	ctx := context.Background()
	store := proofgraph.NewMemory()
	k, key, err := newClock(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Guard(ctx, helm.Intent{Tool: "clock.read", Args: json.RawMessage(`{}`), Driver: noon})
	if _, err := k.Checkpoint(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var b bytes.Buffer
	if err := evidence.Write(ctx, &b, store, key); err != nil {
		fmt.Println(err)
		return
	}

	pack, report, err := evidence.OpenPack(ctx, bytes.NewReader(b.Bytes()), int64(b.Len()),
		evidence.Options{Trust: k.Trust()})
	if err != nil || !report.Success(evidence.Logged) {
		fmt.Println(report, err)
		return
	}
	var r contracts.Reader
	for e, err := range pack.Entries(ctx, 0, report.Size) {
		if err != nil {
			fmt.Println(err)
			return
		}
		sealed, err := r.Open(e)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(sealed.Kind)
	}
	// Output:
	// genesis
	// policy
	// decision
	// receipt
}
