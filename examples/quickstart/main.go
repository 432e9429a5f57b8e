// Command quickstart lets a recorded model conversation loose on real tools in a real directory, and shows what HELM makes of it: a table
// of calls and verdicts, an EvidencePack with the trust state beside it, its verification, and what one flipped bit does to it.
//
//	go run ./examples/quickstart [-pack FILE] [-key FILE]
package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var policyText []byte

const origin = "example.org/quickstart" // the log's name

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// start is main with an exit status: 1 for what went wrong, 2 for arguments that are none of its own.
func start(ctx context.Context, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(errs)
	pack := f.String("pack", "", "write the EvidencePack to this `file`, FILE.tar, and the trust state beside it, FILE.trust.json; files that are there\n"+
		"are replaced at the end, and only by whole new ones (default: in a new temporary directory, which is kept)")
	key := f.String("key", "", "sign with the private key in this `file`, which is made where there is none (default: a new key each time)")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case f.NArg() > 0:
		fmt.Fprintf(errs, "quickstart: unexpected argument %q\n", f.Arg(0))
		f.Usage()
		return 2
	}
	if err := run(ctx, out, *pack, *key); err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, out io.Writer, pack, keyFile string) error {
	if err := apart(pack, keyFile); err != nil {
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
	target, err := aim(pack) // before anything is done that a pack is wanted of
	if err != nil {
		return err
	}
	defer target.drop()
	key, err := signer(keyFile)
	if err != nil {
		return err
	}
	tools, err := lay()
	if err != nil {
		return err
	}
	defer tools.remove()
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: store, Origin: origin, Drivers: tools.drivers()})
	if err != nil {
		return err
	}
	defer k.Close()

	if err := converse(ctx, out, k); err != nil {
		return err
	}
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	if err := target.save(ctx, store, key, k.Trust()); err != nil {
		return err
	}
	return audit(ctx, out, target.pack.name)
}

// signer reads the key in a file, or makes one.
func signer(name string) (crypto.PrivateKey, error) {
	if name == "" {
		return crypto.GenerateKey()
	}
	b, err := os.ReadFile(name)
	if err == nil {
		key, err := crypto.LoadKey(bytes.NewReader(b))
		if err != nil {
			return key, fmt.Errorf("-key %s: %w", name, err)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return crypto.PrivateKey{}, fmt.Errorf("-key: %w", err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return key, err
	}
	var text bytes.Buffer
	if err := crypto.WriteKey(&text, key); err != nil {
		return key, err
	}
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		return key, fmt.Errorf("-key: %w", err)
	}
	return key, nil
}
