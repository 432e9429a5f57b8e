//go:build unix

package witness_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http/httptest"
	"os"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// A kernel has each of its checkpoints cosigned, and keeps the cosignatures in its store.
func ExampleClient() {
	must := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	pol, err := guardian.Compile(contracts.Document{Name: "clock", Canonical: []byte(`{"bundle":` +
		`{"name":"clock","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"clock","id":"all"}],` +
		`"tools":{"clock":{"effect":"read","input":{"type":"object"}}}}`)})
	must(err)
	key, err := crypto.GenerateKey()
	must(err)
	public, err := crypto.PublicOf(crypto.DeriveLogKey(key))
	must(err)
	logKey := proofgraph.VerifierKey("example.com/log", public)

	// A witness, which another party runs.
	dir, err := os.MkdirTemp("", "witness")
	must(err)
	defer os.RemoveAll(dir)
	state, err := httpwitness.DirState(dir)
	must(err)
	witnessKey, err := crypto.GenerateKey()
	must(err)
	w := &witness.Witness{Name: "witness.example.com/w1", Key: witnessKey, State: state,
		Logs: func(string) []string { return []string{logKey} }}
	vkey, err := w.VerifierKey()
	must(err)
	server := httptest.NewServer(httpwitness.Handler(w))
	defer server.Close()

	agreed, err := httpwitness.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness w1 %s %s\nquorum w1\n", logKey, vkey,
		server.URL))
	must(err)
	store := proofgraph.NewMemory()
	options := helm.Options{Policy: pol, Key: key, Store: store, Origin: "example.com/log"}
	var client httpwitness.Client
	var k *helm.Kernel
	ready := make(chan struct{}) // closed when New has returned
	options.Checkpoint = helm.Checkpoints{
		Every:     1000,
		After:     time.Minute,
		Witnesses: agreed.Keys(),
		Quorum:    agreed.Quorum,
		Done: func(ctx context.Context, c proofgraph.Checkpoint) {
			<-ready
			note, err := client.Cosign(ctx, k, c, agreed) // k proves that its log goes on
			if note != nil {
				err = errors.Join(err, k.Cosigned(ctx, note))
			}
			if err != nil {
				log.Print(err)
			}
		},
	}
	k, err = helm.New(options)
	close(ready)
	must(err)
	must(k.Close())

	note, err := store.Checkpoint(context.Background())
	must(err)
	c, lines, err := proofgraph.ParseCheckpoint(note)
	must(err)
	fmt.Println(c.Size, "entries,", lines[1].Name)
	// Output:
	// 2 entries, witness.example.com/w1
}
