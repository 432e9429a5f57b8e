package kept

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// Begin makes the file from the checkpoint of r, which must be a success, and the file of condense
// entries, before that, if r has some whose sets stand whole. Only their owner may read and write
// the files. If there is a checkpoint already, Begin leaves both files alone and returns an error.
// Hashes without a checkpoint, of a Begin that failed, stay in their file.
func Begin(path string, r evidence.Report) error { return file{path: path}.begin(r) }

func (f file) begin(r evidence.Report) error {
	if f.path == "" {
		return errNoPath
	}
	if !r.Success(evidence.Invalid) {
		return f.wrong(errors.New("the report is no success: there is nothing to begin with"))
	}
	if _, err := sizeOf(r.Checkpoint); err != nil {
		return f.wrong(fmt.Errorf("the report has no checkpoint: %w", err))
	}
	_, err := os.Lstat(f.path)
	switch {
	case err == nil:
		err = &fs.PathError{Op: "begin", Path: f.path, Err: fs.ErrExist}
	case errors.Is(err, fs.ErrNotExist):
		if seen := whole(r); len(seen) > 0 { // first: what the note covers may be let go of
			if err := f.seen().add(seen, 0o600); err != nil {
				return f.seen().wrong(err)
			}
		}
		err = f.write(r.Checkpoint, 0o600, f.link)
	}
	if errors.Is(err, fs.ErrExist) {
		return f.wrong(fmt.Errorf("it is there already, and Verify moves it forward; for another log give "+
			"another path: %w", err))
	}
	if err != nil {
		return f.wrong(fmt.Errorf("it cannot be made: %w", err))
	}
	return nil
}

// Verify calls evidence.Verify with Options.Last from the file and more Options.Seen, and moves the
// file forward. If the file is at fault or cannot be moved, the error names its path and the report
// is not a success. Verify may be called by many goroutines at once.
func Verify(ctx context.Context, path string, r io.ReaderAt, size int64, o evidence.Options) (evidence.Report, error) {
	return file{path: path}.verify(ctx, o,
		func(o evidence.Options) (evidence.Report, error) { return evidence.Verify(ctx, r, size, o) })
}

// VerifyStore is like Verify for a log in its store: it calls evidence.VerifyStore.
func VerifyStore(ctx context.Context, path string, s proofgraph.Store, o evidence.Options) (evidence.Report, error) {
	return file{path: path}.verify(ctx, o,
		func(o evidence.Options) (evidence.Report, error) { return evidence.VerifyStore(ctx, s, o) })
}

// verify does what Verify promises, with a function that verifies a pack or a store.
func (f file) verify(ctx context.Context, o evidence.Options,
	verify func(evidence.Options) (evidence.Report, error)) (evidence.Report, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	if f.path == "" {
		return evidence.Report{}, errNoPath
	}
	if o.Last != nil {
		return evidence.Report{}, f.wrong(errors.New("Options.Last was given beside it: leave one of them out"))
	}
	given := o.Seen
	for {
		note, at, err := f.read()
		if err != nil {
			return evidence.Report{}, f.wrong(err)
		}
		seen, err := f.seen().hashes()
		if err != nil {
			return evidence.Report{}, f.seen().wrong(err)
		}
		o.Last, o.Seen = note, slices.Concat(given, seen)
		report, err := verify(o)
		if err != nil {
			if report.Fault != nil && report.Fault.Check == evidence.ErrInput && report.Fault.Field == "Last" {
				err = f.wrong(err) // it is not a note of this log
			}
			return report, err
		}
		if !report.Success(evidence.Invalid) || report.History != evidence.Fresh {
			return report, nil
		}
		size, err := sizeOf(report.Checkpoint)
		switch {
		case err != nil:
			return evidence.Report{}, f.wrong(err) // cannot happen: it was verified
		case size <= at && len(without(whole(report), seen)) == 0:
			return report, nil
		}
		now := note
		if size > at {
			now = report.Checkpoint
		}
		moved, err := f.advance(ctx, note, now, without(whole(report), seen))
		switch {
		case err != nil:
			return evidence.Report{}, f.wrong(fmt.Errorf("what was verified cannot be kept: %w", err))
		case moved:
			return report, nil
		}
		// Another auditor has moved the file, and their checkpoint counts.
	}
}

// advance replaces the note was by now, and adds hashes to those of condense entries. It reports
// whether the file still held was; if it did not, nothing is changed.
func (f file) advance(ctx context.Context, was, now []byte, seen []crypto.Digest) (bool, error) {
	lock, err := f.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock(lock)
	info, err := lock.Stat()
	if err != nil {
		return false, err
	}
	b, err := io.ReadAll(io.LimitReader(lock, maxNote+1))
	if err != nil || !bytes.Equal(b, was) {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if len(seen) > 0 { // first: what the next note covers may be let go of
		if err := f.seen().add(seen, info.Mode().Perm()); err != nil {
			return false, fmt.Errorf("%s: %w", f.seen().path, err)
		}
	}
	if bytes.Equal(was, now) {
		return true, nil
	}
	return true, f.write(now, info.Mode().Perm(), f.rename)
}

var errNoPath = errors.New("kept: no path was given: say which file has the checkpoint")

// maxNote is the largest signed note in bytes, as in package note.
const maxNote = 1_000_000

func sizeOf(note []byte) (uint64, error) {
	c, _, err := proofgraph.ParseCheckpoint(note)
	return c.Size, err
}

func (f file) wrong(err error) error { return fmt.Errorf("kept: %s: %w", f.path, err) }
