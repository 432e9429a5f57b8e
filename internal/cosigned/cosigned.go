// Package cosigned keeps the cosignatures of a log's checkpoint in its store, and knows up to which
// size a quorum of witnesses has cosigned the log.
package cosigned

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/internal/proofs"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// maxLines is how many signature lines a stored checkpoint has at most, that of the log included.
const maxLines = 16

// ErrOlder is helm.ErrOlder.
var ErrOlder = errors.New("the log has a later checkpoint by now")

// A Log is the witnesses of a log, and what they have cosigned. It is safe for concurrent use.
type Log struct {
	by      []cosign.Witness
	quorum  int
	size    atomic.Uint64 // the largest that a quorum has cosigned
	storing sync.Mutex    // held while a note is stored
}

// New returns the witnesses with these verifier keys, which have cosigned nothing yet.
func New(vkeys []string, quorum int) (*Log, error) {
	by, err := cosign.Parse(vkeys)
	if err != nil {
		return nil, fmt.Errorf("helm: Options.Checkpoint.Witnesses: %w", err)
	}
	if err := cosign.CheckQuorum(quorum, len(by)); err != nil {
		return nil, fmt.Errorf("helm: Options.Checkpoint.Quorum: %w", err)
	}
	if quorum >= maxLines {
		const room = "helm: Options.Checkpoint.Quorum: %d, and a stored checkpoint has room for %d cosignatures"
		return nil, fmt.Errorf(room, quorum, maxLines-1)
	}
	return &Log{by: by, quorum: quorum}, nil
}

// Size returns the largest size that a quorum has cosigned, as far as this process knows. It is 0
// if there is none.
func (l *Log) Size() uint64 { return l.size.Load() }

// Stored notes the checkpoint that a store has.
func (l *Log) Stored(ctx context.Context, s proofgraph.Store) (err error) {
	defer contain.Error(&err, "the store")
	note, err := s.Checkpoint(ctx)
	if err != nil || note == nil {
		return err
	}
	c, lines, err := proofgraph.ParseCheckpoint(note)
	if err == nil {
		l.count(c, lines)
	}
	return err
}

// A cosignature is the latest line of a witness; the zero cosignature if it has none.
type cosignature struct {
	line proofgraph.SignatureLine
	time int64
}

// latest adds to list, which has an element for each witness, the lines that verify.
func (l *Log) latest(list []cosignature, c proofgraph.Checkpoint, lines []proofgraph.SignatureLine) (n int) {
	for i := range l.by {
		has := false
		for _, line := range lines {
			if at, ok := l.by[i].Verify(c, line); ok {
				has = true
				if at > list[i].time {
					list[i] = cosignature{line, at}
				}
			}
		}
		if has {
			n++
		}
	}
	return n
}

// count notes that witnesses have cosigned a checkpoint of the log, if they are a quorum.
func (l *Log) count(c proofgraph.Checkpoint, lines []proofgraph.SignatureLine) {
	if l.quorum == 0 || l.latest(make([]cosignature, len(l.by)), c, lines) < l.quorum {
		return
	}
	for old := l.size.Load(); old < c.Size && !l.size.CompareAndSwap(old, c.Size); old = l.size.Load() {
	}
}

// errOther is of a note of other three lines than the stored one.
var errOther = errors.New("other three lines")

// Add adds the cosignatures of a note to the checkpoint that is stored of log in s. See
// helm.Kernel.Cosigned.
func (l *Log) Add(
	ctx context.Context, log *proofgraph.Log, s proofgraph.Store, trust *registry.State, note []byte,
) (err error) {
	defer contain.Error(&err, "the context or the store")
	if len(l.by) == 0 {
		return errors.New("Options.Checkpoint has no Witnesses")
	}
	c, lines, err := proofgraph.ParseCheckpoint(note)
	if err != nil {
		return err
	}
	var stored []byte
	var size uint64
	err = l.store(ctx, log, func(now []byte) ([]byte, error) {
		next, at, err := l.merge(now, c, lines)
		stored, size = next, at
		return next, err
	})
	if err == errOther {
		return l.older(ctx, s, trust, size, c, lines)
	}
	if err != nil {
		return err
	}
	if c, lines, err = proofgraph.ParseCheckpoint(stored); err == nil {
		l.count(c, lines)
	}
	return err
}

func (l *Log) store(ctx context.Context, log *proofgraph.Log, edit func([]byte) ([]byte, error)) error {
	l.storing.Lock()
	defer l.storing.Unlock()
	return log.Annotate(ctx, edit)
}

// Wait waits for an Add that stores. No other will if the log was sealed.
func (l *Log) Wait() {
	l.storing.Lock()
	defer l.storing.Unlock()
}

// merge returns the stored checkpoint with the line of the log, and of each witness the latest in
// either note. It also returns the size that the stored one is of.
func (l *Log) merge(
	stored []byte, c proofgraph.Checkpoint, lines []proofgraph.SignatureLine,
) (next []byte, size uint64, err error) {
	was, wasLines, err := proofgraph.ParseCheckpoint(stored)
	switch {
	case err != nil:
		return nil, 0, err
	case c.Origin != was.Origin:
		return nil, 0, errors.New("a checkpoint of another log")
	case c.Size != was.Size || c.Root != was.Root:
		return nil, was.Size, errOther
	}
	own := slices.IndexFunc(wasLines, func(line proofgraph.SignatureLine) bool {
		return !slices.ContainsFunc(l.by, func(w cosign.Witness) bool { return w.Names(line) })
	})
	if own < 0 {
		return nil, 0, errors.New("the stored checkpoint has no line of the log")
	}
	list := make([]cosignature, len(l.by))
	l.latest(list, was, wasLines)
	if l.latest(list, c, lines) == 0 {
		return nil, 0, errors.New("no line of Options.Checkpoint.Witnesses verifies")
	}
	body, _, _ := bytes.Cut(stored, []byte("\n\n"))
	next = cosign.AppendLine(append(bytes.Clone(body), '\n', '\n'), wasLines[own])
	n := 1
	for _, x := range list {
		if x.time > 0 && n < maxLines {
			next = cosign.AppendLine(next, x.line)
			n++
		}
	}
	return next, was.Size, nil
}

// older returns ErrOlder if a log key has signed the checkpoint, and the log began with those
// entries. size is that of the stored checkpoint.
func (l *Log) older(
	ctx context.Context, s proofgraph.Store, trust *registry.State, size uint64, c proofgraph.Checkpoint,
	lines []proofgraph.SignatureLine,
) error {
	if c.Size > size {
		return fmt.Errorf("a checkpoint of %d entries, and the latest one is of %d", c.Size, size)
	}
	if !signed(c, lines, trust) {
		return errors.New("not signed by a log key")
	}
	root, err := proofs.Root(ctx, s, c.Size)
	if err != nil {
		return err
	}
	if root != c.Root {
		return fmt.Errorf("the first %d entries of the log have another root", c.Size)
	}
	l.count(c, lines)
	return ErrOlder
}

// signed reports whether a key has signed that is a log key after the entries of the checkpoint.
func signed(c proofgraph.Checkpoint, lines []proofgraph.SignatureLine, trust *registry.State) bool {
	for _, key := range trust.Keys(registry.Log, c.Size) {
		for _, line := range lines {
			if c.SignedBy(line, key) {
				return true
			}
		}
	}
	return false
}
