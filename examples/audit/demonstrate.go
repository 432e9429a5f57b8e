package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/evidence/erasure"
)

// demonstrate has a log made and audited. Only files go from the operator to the auditor.
func demonstrate(ctx context.Context, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "helm-audit-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o, err := open(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	trust := filepath.Join(dir, "trust.json")
	if err := os.WriteFile(trust, o.Trust().Canonical(), 0o600); err != nil {
		return err
	}
	a, err := newAuditor(out, trust, origin, filepath.Join(dir, "kept.checkpoint"))
	if err != nil {
		return err
	}
	says := func(line string) { fmt.Fprintln(out, line) }

	says("== Monday's pack, the first")
	monday, err := o.day(ctx, "monday")
	if err != nil {
		return err
	}
	if err := a.begin(ctx, monday); err != nil {
		return err
	}

	says("\n== Tuesday's: it goes on where Monday's ended, and its checkpoint is kept from now on")
	tuesday, err := o.day(ctx, "tuesday")
	if err != nil {
		return err
	}
	if err := a.audit(ctx, tuesday); err != nil {
		return err
	}

	says("\n== Tuesday's again, after 300 euros were changed to 80")
	tampered, err := replaced(tuesday, `"euros":300`, `"euros":080`)
	if err != nil {
		return err
	}
	if err := refused(a.audit(ctx, tampered)); err != nil {
		return err
	}

	says("\n== Monday's again, as if there had been no Tuesday")
	if err := refused(a.audit(ctx, monday)); err != nil {
		return err
	}

	says("\n== Wednesday's, after the arguments of all of ben's calls were erased")
	erased, err := erasure.Erase(ctx, o.store, erasure.Selection{Callers: []helm.Caller{{ID: "ben"}}})
	if err != nil {
		return err
	}
	wednesday, err := o.day(ctx, "wednesday")
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "(%d blobs erased)\n", len(erased.Erased))
	if err := a.audit(ctx, wednesday); err != nil {
		return err
	}

	says("\n== What would have become of the calls up to Tuesday under candidate.yaml")
	candidate, err := compile("candidate.yaml", candidateText)
	if err != nil {
		return err
	}
	return a.backTest(ctx, tuesday, candidate)
}

// refused requires that an audit has found the fault.
func refused(err error) error {
	if errors.Is(err, errNoSuccess) {
		return nil
	}
	return errors.Join(errors.New("a pack that proves nothing was not refused"), err)
}

// replaced makes a copy of a pack with other bytes in one place.
func replaced(pack, old, with string) (string, error) {
	b, err := os.ReadFile(pack)
	if err != nil {
		return "", err
	}
	if !bytes.Contains(b, []byte(old)) {
		return "", fmt.Errorf("%s: nothing to replace", pack)
	}
	name := pack + ".tampered"
	return name, os.WriteFile(name, bytes.Replace(b, []byte(old), []byte(with), 1), 0o600)
}
