package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm/examples/internal/output"
)

// where names the files that the program keeps.
type where struct{ dir, pack, key string }

func (w where) log() string { return filepath.Join(w.dir, "log") }

// flags names them on the command line.
func (w *where) flags() *flag.FlagSet {
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.StringVar(&w.dir, "dir", "helm-quickstart",
		"keep the log, the key and the pack in this `directory`, which is made if there is none; a second run "+
			"continues the log")
	f.StringVar(&w.pack, "pack", "",
		"write the EvidencePack to this `file`, FILE.tar, and the trust state to FILE.trust.json; existing files\n"+
			"are replaced at the end, and only by whole new ones (default: pack.tar in the directory)")
	f.StringVar(&w.key, "key", "",
		"sign with the private key in this `file`, which is made if there is none (default: key.pem in the "+
			"directory)")
	return f
}

// make fills in the defaults, and makes the directory.
func (w *where) make() error {
	if w.pack == "" {
		w.pack = filepath.Join(w.dir, "pack.tar")
	}
	if w.key == "" {
		w.key = filepath.Join(w.dir, "key.pem")
	}
	if err := output.Apart(w.pack, w.key); err != nil {
		return err
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("-dir: %w", err)
	}
	return nil
}
