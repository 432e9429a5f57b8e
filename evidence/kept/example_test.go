package kept_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

func Example() {
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	policy, err := guardian.Compile(contracts.Document{Name: "clock.json", Canonical: []byte(
		`{"bundle":{"name":"clock","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"clock.read",` +
			`"id":"all"}],` +
			`"tools":{"clock.read":{"effect":"read","input":{"type":"object"}}}}`)})
	must(err)
	key, err := crypto.GenerateKey()
	must(err)
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: policy, Key: key, Store: store, Origin: "example.test/clock"})
	must(err)
	pack := func() *bytes.Reader { // of the log as it is now, after one more call
		k.Guard(ctx, helm.Intent{Tool: "clock.set", Args: json.RawMessage(`{}`)})
		_, err := k.Checkpoint(ctx)
		must(err)
		var b bytes.Buffer
		must(evidence.Write(ctx, &b, store, key))
		return bytes.NewReader(b.Bytes())
	}
	monday, tuesday := pack(), pack()

	// The auditor has the trust state from elsewhere, and a place for what was seen last.
	dir, err := os.MkdirTemp("", "auditor")
	must(err)
	defer os.RemoveAll(dir)
	path, o := filepath.Join(dir, "clock.checkpoint"), evidence.Options{Trust: k.Trust(), Origin: "example.test/clock"}

	_, err = kept.Verify(ctx, path, monday, monday.Size(), o)
	fmt.Println("nothing is kept:", errors.Is(err, fs.ErrNotExist))
	report, err := evidence.Verify(ctx, monday, monday.Size(), o)
	must(err)
	must(kept.Begin(path, report))

	report, err = kept.Verify(ctx, path, tuesday, tuesday.Size(), o)
	must(err)
	fmt.Println("Tuesday:", report.Success(evidence.Logged), report.History)

	report, err = kept.Verify(ctx, path, monday, monday.Size(), o) // as if it were the latest
	must(err)
	fmt.Println("Monday again:", report.Success(evidence.Logged), report.History)
	// Output:
	// nothing is kept: true
	// Tuesday: true FRESH
	// Monday again: false STALE
}
