package sandbox_test

import (
	"context"
	"log"
	"os"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/sandbox"
)

// A tool that has nothing but its arguments, and default limits.
func Example() {
	wasm, err := os.ReadFile("sum.wasm")
	if err != nil {
		log.Fatal(err)
	}
	run, err := sandbox.New(sandbox.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer run.Close(ctx)
	tool, err := run.Load(ctx, wasm, contracts.ProfilePure, contracts.Sandbox{}, sandbox.Host{})
	if err != nil {
		log.Fatal(err)
	}
	_ = helm.Intent{Tool: "sum", Args: []byte(`{"numbers":[1,2]}`), Session: "chat-1", Driver: tool}
}
