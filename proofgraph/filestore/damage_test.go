package filestore

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// answer opens the files to read and to write, and reads everything. If it returns nil, all n
// batches are there. If not, the files are as they were.
func (f files) answer(t *testing.T, n int) error {
	t.Helper()
	return f.answerBut(t, n, nil)
}

// answerBut is answer of a log of which some batches are condensed.
func (f files) answerBut(t *testing.T, n int, condensed []int) error {
	t.Helper()
	d := f.disk()
	s, readErr := openReadOnly(d, dir)
	if readErr == nil {
		readErr = matchesBut(s, n, condensed)
		mustClose(t, s)
	}
	assert.True(t, maps.EqualFunc(filesOf(d), f, bytes.Equal), "reading changed something")
	s, err := open(d, dir, Options{}, small)
	assert.True(t, err == nil || maps.EqualFunc(filesOf(d), f, bytes.Equal), "something was changed: %v", err)
	if err == nil {
		err = matchesBut(s, n, condensed)
		mustClose(t, s)
	}
	assert.True(t, (err == nil) == (readErr == nil), "to write: %v; to read: %v", err, readErr)
	return err
}

// mustBeIn checks that an error names file and offset of damage.
func mustBeIn(t *testing.T, err error, name string) {
	t.Helper()
	var d *damage
	require.True(t, errors.As(err, &d) && d.path == filepath.Join(dir, name) && strings.Contains(err.Error(),
		name+": offset "), "not damage in %s: %v", name, err)
}

// everyByte says that one byte in so many is flipped, or the file cut there. It is odd.
func everyByte() int {
	switch {
	case testing.Short():
		return 63
	case race.Enabled:
		return 15
	}
	return 3
}

func flipped(b []byte, at int, bit int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1 << bit
	return b
}

// A flipped bit in any byte (of a sample) of the acknowledged frames is an error with its place,
// when the log is opened or when the byte is read.
func TestEveryFlippedBitIsNoticed(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 12
	good := logOf(t, n)
	require.Len(t, good.segments(), 3, "segments")
	everyFlippedBit(t, good, n, nil)
}

// everyFlippedBit flips bits in a log of which some batches are condensed.
func everyFlippedBit(t *testing.T, good files, n int, condensed []int) {
	t.Helper()
	names := good.segments()
	noticed, unread := 0, 0
	for i, name := range names {
		for at := range trimmed(good[name]) {
			if at%everyByte() != 0 {
				continue
			}
			f := good
			if at%2 == 0 {
				f = good.bare()
			}
			err := f.but(name, flipped(f[name], at, (at*5+i)%8)).answerBut(t, n, condensed)
			require.True(t, err != nil || !carries(t, good[name], at), "%s, offset %d: passed for the log", name, at)
			if err == nil {
				unread++
				continue
			}
			noticed++
			mustBeIn(t, err, name)
		}
	}
	t.Logf("%d noticed, %d in what is not read where there is an index", noticed, unread)
	assert.True(t, noticed >= 2*unread && noticed >= 9_000/everyByte(), "%d noticed, %d not", noticed, unread)
}

// carries reports whether that byte of a segment is in its header, an entry or a blob, or the
// segment is the last, which is read whole.
func carries(t *testing.T, b []byte, at int) bool {
	g, err := newSegment("", b)
	if err == nil {
		err = g.classifyTail(b)
	}
	require.NoError(t, err)
	for _, offset := range append(slices.Clone(g.entries), g.blobs...) {
		if size := recordHead + int(le.Uint32(b[offset+4:])); at >= int(offset) && at < int(offset)+size {
			return true
		}
	}
	return at < int(g.start()) || !g.full
}

// Bytes after the last frame, in place of zeros, are taken for a torn frame or for damage. The
// acknowledged frames stay.
func TestWhateverIsBehindTheEnd(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 5
	good := logOf(t, n)
	names := good.segments()
	name := names[len(names)-1]
	random := rand.New(rand.NewPCG(5, 6))
	refused := 0
	for i := trimmed(good[name]); i < len(good[name]); i += stride() {
		b := bytes.Clone(good[name])
		for range 1 + i%3 {
			b[i+random.IntN(len(b)-i)] = byte(random.Uint32())
		}
		b[i] = kindBegin
		if err := good.but(name, b).answer(t, n); err != nil {
			mustBeIn(t, err, name)
			refused++
		}
	}
	t.Logf("%d of %d refused", refused, len(good[name])-trimmed(good[name]))
}

// A file that was cut is an error, wherever that was, if anything is missing.
func TestEveryCutIsNoticed(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 12
	everyCut(t, logOf(t, n), n, nil)
}

// everyCut cuts files of a log of which some batches are condensed.
func everyCut(t *testing.T, good files, n int, condensed []int) {
	t.Helper()
	for _, name := range good.segments() {
		for i := 0; i < len(good[name]); i += everyByte() {
			f := good
			if i%2 == 0 {
				f = good.bare()
			}
			if err := f.but(name, good[name][:i:i]).answerBut(t, n, condensed); err != nil {
				mustBeIn(t, err, name)
			} else if i < trimmed(good[name]) {
				t.Fatalf("%s cut at %d passed for the log", name, i)
			}
		}
	}
}

// A crash may leave a part of the last frame, from its beginning, or any of its sectors, and zeros.
// The frame is dropped, or is whole; and the log goes on.
func TestTornTailsAreMended(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 7
	random := rand.New(rand.NewPCG(3, 4))
	before, after := logOf(t, n-1), logOf(t, n)
	names := after.segments()
	name := names[len(names)-1]
	require.Equal(t, len(names), len(before.segments()), "the last batch began a segment")
	from, to := trimmed(before[name]), trimmed(after[name])
	dropped, kept := 0, 0
	try := func(b []byte, what string, i int) {
		t.Helper()
		d := after.but(name, b).but(endName, before[endName]).disk() // it was not acknowledged
		r, err := openReadOnly(d, dir)
		require.NoError(t, err, "%s %d: to read", what, i)
		s := mustOpen(t, d)
		there := n
		if kept++; s.entries < 2*n {
			there = n - 1
			dropped, kept = dropped+1, kept-1
		}
		if whole := bytes.Equal(b, after[name]); whole != (there == n) {
			t.Fatalf("%s %d: whole %v, %d batches", what, i, whole, there)
		}
		mustHold(t, r, there)
		mustHold(t, s, there)
		grow(t, s, there, n+3)
		mustClose(t, s)
		s = mustOpen(t, d)
		mustHold(t, s, n+3)
		mustClose(t, s)
	}
	for i := from; i <= to; i += stride() {
		b := bytes.Clone(after[name])
		clear(b[i:])
		try(b, "prefix", i)
	}
	for i := range 1000 / stride() {
		b := bytes.Clone(after[name])
		for at := from &^ (sector - 1); at < to; at += sector {
			if random.IntN(3) == 0 {
				copy(b[at:at+sector], before[name][at:at+sector])
			}
		}
		try(b, "sectors", i)
	}
	assert.True(t, dropped >= 1000/stride() && kept >= 20/stride(), "%d dropped, %d kept", dropped, kept)

	// What would be a torn frame is damage if another frame, or only a byte, follows it.
	b := bytes.Clone(after[name])
	earlier := trimmed(logOf(t, n-2)[name])
	clear(b[earlier : earlier|(sector-1)+1])
	mustBeIn(t, after.but(name, b).answer(t, n), name)
	b = bytes.Clone(after[name])
	b[to-1], b[to+10] = 0, 1
	mustBeIn(t, after.but(name, b).answer(t, n), name)
}

// A frame whose blob has zeros by itself is not torn: no flipped bit in it passes for a crash. And
// if it is torn, it is dropped.
func TestZerosInABlobAreNoTear(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, 1)
	before := filesOf(d)
	b := batch(1)
	blob := bytes.Join([][]byte{[]byte("head"), []byte("middle"), []byte("tail")}, make([]byte, 1100))
	b.Blobs = append(b.Blobs, blob)
	require.NoError(t, s.Append(t.Context(), b))
	mustClose(t, s)
	good := filesOf(d)
	s = mustOpen(t, d)
	mustHold(t, s, 2)
	z, err := s.Blob(t.Context(), crypto.Sum(blob))
	require.True(t, err == nil && bytes.Equal(z, blob), "%v %v", len(z), err)
	mustClose(t, s)
	name := good.segments()[0]
	from, to := trimmed(before[name]), trimmed(good[name])
	for at := from; at < to; at += stride() {
		mustBeIn(t, good.but(name, flipped(good[name], at, at%8)).answer(t, 2), name)
	}
	torn := 0
	for at := from &^ (sector - 1); at < to; at += sector {
		f := bytes.Clone(good[name])
		clear(f[max(at, from) : at+sector])
		if !bytes.Equal(f, good[name]) {
			s := mustOpen(t, good.but(name, f).but(endName, before[endName]).disk())
			mustHold(t, s, 1)
			mustClose(t, s)
			torn++
		}
	}
	assert.True(t, torn >= 4, "%d sectors", torn)
}
