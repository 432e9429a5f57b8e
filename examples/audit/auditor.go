package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/trust/registry"
)

// An auditor has the log's initial trust state, which they got when the log was new and from
// another source than its packs, a file of their own with the last checkpoint, and the packs that
// they receive. They need neither network nor keys.
type auditor struct {
	out     io.Writer
	options evidence.Options
	kept    string // the file; "" is none, and then an old pack passes for the latest
	json    bool   // how reports are printed
}

const maxTrust = 64 << 20 // registry.ParseState takes no more

var errNoSuccess = errors.New("not what was asked for: the report says why")

func newAuditor(out io.Writer, trust, origin, kept string) (*auditor, error) {
	f, size, err := openFile(trust)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxTrust {
		return nil, fmt.Errorf("%s: %d bytes are no trust state", trust, size)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxTrust))
	if err != nil {
		return nil, err
	}
	state, err := registry.ParseState(b)
	if err != nil {
		return nil, fmt.Errorf("%s: not the State.Canonical of a log's initial Kernel.Trust: %w", trust, err)
	}
	return &auditor{out, evidence.Options{Trust: state, Origin: origin}, kept, false}, nil
}

// begin audits the first pack, and keeps its checkpoint.
func (a *auditor) begin(ctx context.Context, pack string) error {
	report, err := a.read(pack, func(r io.ReaderAt, size int64) (evidence.Report, error) {
		return evidence.Verify(ctx, r, size, a.options)
	})
	if err == nil {
		err = kept.Begin(a.kept, report)
	}
	return err
}

// audit audits a pack. It returns errNoSuccess for one that is not as it should be.
func (a *auditor) audit(ctx context.Context, pack string) error {
	_, err := a.read(pack, func(r io.ReaderAt, size int64) (evidence.Report, error) {
		if a.kept == "" {
			return evidence.Verify(ctx, r, size, a.options)
		}
		return kept.Verify(ctx, a.kept, r, size, a.options)
	})
	return err
}

func (a *auditor) read(pack string, verify func(r io.ReaderAt,
	size int64) (evidence.Report, error)) (evidence.Report, error) {
	f, size, err := openFile(pack)
	if err != nil {
		return evidence.Report{}, err
	}
	defer f.Close()
	report, err := verify(f, size)
	if report.Fault == nil && err != nil {
		return report, err // the fault is not the pack's: it is of the file with the checkpoint, say
	}
	if perr := a.print(report); perr != nil {
		return report, perr
	}
	switch {
	case errors.Is(err, evidence.ErrInput):
		return report, err // it names the file too
	case !report.Success(evidence.Invalid): // the zero level: the level that the options require
		return report, errNoSuccess
	}
	return report, nil
}

func (a *auditor) print(report evidence.Report) error {
	if !a.json {
		_, err := fmt.Fprint(a.out, report)
		return err
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err == nil {
		_, err = fmt.Fprintf(a.out, "%s\n", b)
	}
	return err
}

// backTest reports how other rules would have judged the calls of a pack that is as it should be:
// the calls in another pack may be made up.
func (a *auditor) backTest(ctx context.Context, pack string, candidate *guardian.Policy) error {
	var n evidence.Differences
	var changes bytes.Buffer // until that is known
	_, err := a.read(pack, func(r io.ReaderAt, size int64) (_ evidence.Report, err error) {
		n, err = evidence.BackTest(ctx, r, size, a.options, candidate, func(c evidence.Change) error {
			fmt.Fprintf(&changes, "  %s\n", c)
			return nil
		})
		return n.Report, err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "\n%s  %d calls judged: "+
		"%d as before, %d denied now, %d allowed now, %d to be approved anew, %d otherwise; %d not judged\n",
		changes.Bytes(), n.Judged, n.Same, n.Denied, n.Allowed, n.Anew, n.Otherwise, len(n.Unjudged))
	return err
}

// openFile opens a file for reading at any offset. It does not wait for the writer of a pipe.
func openFile(name string) (*os.File, int64, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, 0, err
	case info.IsDir():
		return nil, 0, fmt.Errorf("%s: a directory: give the file that was made of the log", name)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s: not a regular file: copy it to one first", name)
	}
	f, err := os.Open(name)
	return f, info.Size(), err
}
