package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
)

// An auditor comes every quarter, with a file of their own: the checkpoint that they saw last, and
// which condense entries they saw with the entries of their sets.
type auditor struct {
	kept    string
	options evidence.Options
	visits  int
}

// visit verifies the log as a pack, and continues the auditor's file.
func (a *auditor) visit(ctx context.Context, s *shop) (report evidence.Report, err error) {
	f, err := os.CreateTemp(filepath.Dir(a.kept), "*.tar")
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if err := evidence.Write(ctx, f, s.store, s.key); err != nil {
		return report, err
	}
	info, err := f.Stat()
	if err != nil {
		return report, err
	}
	if a.visits == 0 {
		if report, err = evidence.Verify(ctx, f, info.Size(), a.options); err == nil {
			err = kept.Begin(a.kept, report)
		}
	} else {
		report, err = kept.Verify(ctx, a.kept, f, info.Size(), a.options)
	}
	a.visits++
	if err == nil && !report.Success(evidence.Witnessed) {
		err = errors.New("no success")
	}
	if err != nil {
		return report, fmt.Errorf("the auditor's visit %d: %w\n%s", a.visits, err, report)
	}
	for _, r := range report.Condensed {
		if r.Stubs > 0 && !r.Seen {
			return report, fmt.Errorf("the auditor's visit %d: entries of %d to %d went before they were seen",
				a.visits, r.From, r.To)
		}
	}
	return report, nil
}
