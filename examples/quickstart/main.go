// Command quickstart lets a recorded model conversation loose on real tools in a real directory,
// and shows what HELM makes of it: a table of calls and verdicts, an EvidencePack with the trust
// state beside it, its verification, and what one flipped bit does to it.
//
//	go run ./examples/quickstart [-dir DIR] [-pack FILE] [-key FILE]
//
// The log stays in DIR, and with it the key that signs it: a second run goes on where the first
// ended. To begin anew, remove DIR.
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
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

//go:embed policy.yaml
var policyText []byte

const origin = "example.org/quickstart" // the log's name

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// start is main with an exit status: 1 for what went wrong, 2 for arguments that are none of its
// own.
func start(ctx context.Context, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.SetOutput(errs)
	var w where
	f.StringVar(&w.dir, "dir", "helm-quickstart",
		"keep the log, the key and the pack in this `directory`, which is made where there is none; a second run "+
			"goes on with the log")
	f.StringVar(&w.pack, "pack", "",
		"write the EvidencePack to this `file`, FILE.tar, and the trust state beside it, FILE.trust.json; files that "+
			"are there\n"+
			"are replaced at the end, and only by whole new ones (default: pack.tar in the directory)")
	f.StringVar(&w.key, "key", "",
		"sign with the private key in this `file`, which is made where there is none (default: key.pem in the "+
			"directory)")
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
	if err := run(ctx, out, w); err != nil {
		fmt.Fprintln(errs, "quickstart:", err)
		return 1
	}
	return 0
}

// where things are kept.
type where struct{ dir, pack, key string }

func (w where) log() string { return filepath.Join(w.dir, "log") }

// make fills in what was not said, and makes the directory.
func (w *where) make() error {
	if w.pack == "" {
		w.pack = filepath.Join(w.dir, "pack.tar")
	}
	if w.key == "" {
		w.key = filepath.Join(w.dir, "key.pem")
	}
	if err := apart(w.pack, w.key); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	return nil
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
	target, err := aim(w.pack) // before anything is done that a pack is wanted of
	if err != nil {
		return err
	}
	defer target.drop()
	key, err := signer(w.key)
	if err != nil {
		return err
	}
	tools, err := lay()
	if err != nil {
		return err
	}
	defer tools.remove()
	store, err := filestore.Open(w.log(), filestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	before, err := store.Size(ctx)
	if err != nil {
		return err
	}
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: store, Origin: origin, Drivers: tools.drivers()})
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
	if err := target.save(ctx, store, key, k.Trust()); err != nil {
		return err
	}
	after, err := store.Size(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nlog    %s (%d entries were there, %d came)\n", w.log(), before, after-before)
	return audit(ctx, out, target.pack.name)
}

// signer reads the key in a file, or makes one.
func signer(name string) (crypto.PrivateKey, error) {
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
