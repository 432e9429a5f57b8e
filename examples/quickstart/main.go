// Command quickstart runs a recorded model conversation against real tools in a real directory. It
// prints a table of calls and verdicts, writes an EvidencePack and its trust state, verifies the
// pack, and shows that one flipped bit is found.
//
//	go run ./examples/quickstart [-dir DIR] [-pack FILE] [-key FILE]
//
// DIR keeps the log and the key that signs it: a second run continues the log. To start over,
// remove DIR.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/examples/internal/command"
	"github.com/helmkernel/helm/examples/internal/notes"
	"github.com/helmkernel/helm/examples/internal/output"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

//go:embed policy.yaml
var policyText []byte

const origin = "example.org/quickstart" // the log's name

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	var w where
	return command.Run(w.flags(), args, errs, func() error { return run(ctx, out, w) })
}

func run(ctx context.Context, out io.Writer, w where) error {
	if err := w.make(); err != nil {
		return err
	}
	document, err := policy.Parse("policy.yaml", policyText)
	if err != nil {
		return err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return err
	}
	pack, err := output.New(w.pack) // before any call: a pack must be possible
	if err != nil {
		return err
	}
	defer pack.Drop()
	key, err := output.Key(w.key)
	if err != nil {
		return err
	}
	tools, err := notes.New()
	if err != nil {
		return err
	}
	defer tools.Remove()

	store, err := filestore.Open(w.log(), filestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	before, err := store.Size(ctx)
	if err != nil {
		return err
	}
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: store, Origin: origin, Drivers: tools.Drivers()})
	if err != nil {
		return fmt.Errorf("%s, with the key %s: %w", w.log(), w.key, err)
	}
	defer k.Close()
	if err := converse(ctx, out, k); err != nil {
		return err
	}

	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	if err := pack.Save(ctx, store, key, k.Trust()); err != nil {
		return err
	}
	after, err := store.Size(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nlog    %s (%d entries were there, %d came)\n", w.log(), before, after-before)
	return audit(ctx, out, w.pack)
}
