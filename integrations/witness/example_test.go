//go:build unix

package witness_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

func Example() {
	const origin = "example.com/log"
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}

	// A log, with genesis alone in it.
	logKey, err := crypto.GenerateKey()
	must(err)
	log, err := proofgraph.Open(context.Background(), proofgraph.NewMemory(), proofgraph.Options{Origin: origin,
		Key: logKey, LogKey: logKey, Trust: []byte(`{}`)}, nil)
	must(err)
	checkpoint, err := log.Checkpoint(context.Background())
	must(err)

	// A witness that has been told of it.
	public, err := crypto.PublicOf(logKey)
	must(err)
	vkey := proofgraph.VerifierKey(origin, public)
	key, err := crypto.GenerateKey()
	must(err)
	dir, err := os.MkdirTemp("", "witness")
	must(err)
	defer os.RemoveAll(dir)
	state, err := httpwitness.DirState(dir)
	must(err)
	server := httptest.NewServer(httpwitness.Handler(&witness.Witness{
		Name: "witness.example.com/w1",
		Key:  key,
		Logs: func(o string) []string {
			if o == origin {
				return []string{vkey}
			}
			return nil
		},
		State: state,
	}))
	defer server.Close()

	add := func(old int) {
		body := fmt.Sprintf("old %d\n\n%s", old, checkpoint.Note)
		r, err := http.Post(server.URL+"/add-checkpoint", "text/plain", strings.NewReader(body))
		must(err)
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		must(err)
		fmt.Printf("%d %.24q\n", r.StatusCode, b)
	}
	add(0) // the first
	add(0) // by a client who does not know that
	add(1) // a new line for the same checkpoint
	// Output:
	// 200 "— witness.example.com/w1"
	// 409 "1\n"
	// 200 "— witness.example.com/w1"
}
