package proofgraph

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
)

// A readStore is a store that is read by a function.
type readStore struct {
	Store
	read func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool)
}

func (s readStore) Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error] {
	return func(yield func(contracts.Entry, error) bool) { s.read(ctx, from, to, yield) }
}

// numbered yields lines of one byte for each entry.
func numbered(_ context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
	for i := from; i < to && yield(contracts.Entry{byte(i)}, nil); i++ {
	}
}

func TestReadAhead(t *testing.T) {
	t.Parallel()
	ctx, gone := context.WithCancel(context.Background())
	gone()
	bad := errors.New("no disk")
	const n = 3*pieceLines + 7
	for _, x := range []struct {
		what  string
		ctx   context.Context
		read  func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool)
		lines int // that come before the error
		err   string
	}{
		{"all", t.Context(), numbered, n, ""},
		{"large lines", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			numbered(ctx, from, to, func(e contracts.Entry, err error) bool {
				return yield(append(e, make([]byte, pieceBytes/10)...), err)
			})
		}, n, ""},
		{"an error", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			if numbered(ctx, from, min(to, 2000), yield); to > 2000 {
				yield(nil, bad)
			}
		}, 2000, "no disk"},
		{"a panic", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			if numbered(ctx, from, min(to, 2000), yield); to > 2000 {
				panic("secret of the store")
			}
		}, 2000, "the store panicked with a string"},
		{"the goroutine's end", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			if numbered(ctx, from, to, yield); to > 2000 {
				runtime.Goexit()
			}
		}, pieceLines, "the store ended the goroutine that read it"},
		{"too few", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			numbered(ctx, from, min(to, 2000), yield)
		}, 2000, "the store has fewer entries than it says"},
		{"too many", t.Context(), func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
			numbered(ctx, from, to+1, yield)
		}, pieceLines, "the store has more entries than it says"},
		{"a context that has ended", ctx, func(ctx context.Context, _, _ uint64, yield func(contracts.Entry, error) bool) {
			yield(nil, ctx.Err())
		}, 0, "context canceled"},
	} {
		at := 0
		var last error
		for line, err := range readAhead(x.ctx, readStore{read: x.read}, 0, n) {
			require.NoError(t, last, "%s: a line after an error", x.what)
			if last = err; err != nil {
				continue
			}
			require.Equal(t, byte(at), line.bytes[0], x.what)
			require.Equal(t, line.bytes.Hash(), line.hash, x.what)
			at++
		}
		assert.Equal(t, x.lines, at, x.what)
		if x.err == "" {
			assert.NoError(t, last, x.what)
		} else {
			assert.EqualError(t, last, x.err, x.what)
		}
	}
}

// TestReadAheadStops: when the reader ends, by a panic too, the store is not read any more.
func TestReadAheadStops(t *testing.T) {
	t.Parallel()
	reading := make(chan bool, 1)
	store := readStore{read: func(ctx context.Context, from, to uint64, yield func(contracts.Entry, error) bool) {
		reading <- true
		defer func() { <-reading }()
		if from >= 2*pieceLines { // the piece after the next one
			<-ctx.Done()
			yield(nil, ctx.Err())
			return
		}
		numbered(ctx, from, to, yield)
	}}
	read := func(end func()) {
		for range readAhead(t.Context(), store, 0, 1<<20) {
			end()
			break
		}
	}
	ended := func() {
		select {
		case reading <- true:
			<-reading
		default:
			t.Fatal("the store is still read")
		}
	}
	read(func() {})
	ended()
	require.PanicsWithValue(t, "of the reader", func() { read(func() { panic("of the reader") }) })
	ended()
}
