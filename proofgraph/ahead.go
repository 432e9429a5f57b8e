package proofgraph

import (
	"context"
	"errors"
	"iter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/contain"
)

// Lines are read ahead in pieces of so many, and of about so many bytes.
const (
	pieceLines = 1024
	pieceBytes = 1 << 20
)

// A storedLine is a line as the store has it, and what its bytes alone say.
type storedLine struct {
	bytes contracts.Entry
	hash  contracts.Digest // of the entry
	stub  *contracts.Stub  // nil if there is the entry
	err   error            // of the stub
}

// A piece is lines one after the other.
type piece struct {
	lines []storedLine
	err   error // of the store, after the lines
}

// readAhead returns the lines of a store. Another goroutine reads them while those before are added
// to the log: if most of a log went, reading is half of the work.
func readAhead(ctx context.Context, s Store, from, to uint64) iter.Seq2[storedLine, error] {
	return func(yield func(storedLine, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		pieces := make(chan piece, 1)
		go readPieces(ctx, s, from, to, pieces)
		defer func() { // the store is not read after this
			stop()
			for range pieces {
			}
		}()
		left := to - from
		for p := range pieces {
			for _, line := range p.lines {
				if !yield(line, nil) {
					return
				}
			}
			if left -= uint64(len(p.lines)); p.err != nil {
				yield(storedLine{}, p.err)
				return
			}
		}
		if left > 0 {
			err := ctx.Err()
			if err == nil {
				err = errors.New("the store ended the goroutine that read it")
			}
			yield(storedLine{}, err)
		}
	}
}

// readPieces sends the lines of a store, up to an error.
func readPieces(ctx context.Context, s Store, from, to uint64, pieces chan<- piece) {
	defer close(pieces)
	var r contracts.Reader
	for from < to {
		p := readPiece(ctx, s, &r, from, min(from+pieceLines, to))
		from += uint64(len(p.lines))
		select {
		case pieces <- p:
		case <-ctx.Done():
			return
		}
		if p.err != nil {
			return
		}
	}
}

// readPiece reads lines, at least one if there is no error.
func readPiece(ctx context.Context, s Store, r *contracts.Reader, from, to uint64) (p piece) {
	defer contain.Error(&p.err, "the store")
	p.lines = make([]storedLine, 0, to-from)
	size := 0
	for e, err := range s.Entries(ctx, from, to) {
		if err != nil {
			p.err = err
			return p
		}
		if from+uint64(len(p.lines)) == to {
			p.err = errors.New("the store has more entries than it says")
			return p
		}
		line := storedLine{bytes: e}
		if contracts.IsStub(e) {
			if line.stub, line.err = r.Stub(e); line.err == nil {
				line.hash = line.stub.Entry
			}
		} else {
			line.hash = e.Hash()
		}
		p.lines = append(p.lines, line)
		if size += len(e); size >= pieceBytes {
			return p
		}
	}
	if from+uint64(len(p.lines)) < to {
		p.err = errors.New("the store has fewer entries than it says")
	}
	return p
}
