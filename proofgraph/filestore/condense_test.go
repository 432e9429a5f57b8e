package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// what is what Condense is asked to do of some batches.
func what(batches []int, more ...contracts.Digest) (iter.Seq2[uint64, []byte], iter.Seq[contracts.Digest]) {
	batches = slices.Sorted(slices.Values(batches))
	return func(yield func(uint64, []byte) bool) {
			for _, n := range batches {
				for i, e := range batch(n).Entries {
					if !yield(uint64(2*n+i), stubOf(e)) {
						return
					}
				}
			}
		}, func(yield func(contracts.Digest) bool) {
			for _, n := range batches {
				if !yield(crypto.Sum(batch(n).Blobs[0])) {
					return
				}
			}
			for _, d := range more {
				if !yield(d) {
					return
				}
			}
		}
}

// condense condenses batches.
func (s *Store) condense(batches []int, more ...contracts.Digest) error {
	stubs, blobs := what(batches, more...)
	return s.Condense(context.Background(), stubs, blobs)
}

func mustCondense(t testing.TB, s *Store, batches ...int) {
	t.Helper()
	require.NoError(t, s.condense(batches))
}

// condensedLog returns the files of a log of n batches of which some are condensed.
func condensedLog(t testing.TB, n int, batches ...int) files {
	t.Helper()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, n)
	mustCondense(t, s, batches...)
	mustClose(t, s)
	return filesOf(d)
}

func headerOf(t testing.TB, f files, name string) header {
	t.Helper()
	var h header
	require.NoError(t, h.decode(f[name]))
	return h
}

// What goes is in no file any more, in the last segment neither. Segments that nothing goes from
// stay as they are, and a condensed one keeps its place in the log.
func TestCondensedFiles(t *testing.T) {
	t.Parallel()
	const n = 16
	first, second := []int{1, 2, 8, 15}, []int{1, 2, 3, 8, 15}
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, n)
	before := filesOf(d)
	names := before.segments()
	require.GreaterOrEqual(t, len(names), 4, "segments")
	mustCondense(t, s, first...)
	require.NoError(t, matchesBut(s, n, first))
	once := filesOf(d)
	require.Len(t, once.segments(), len(names)+1, "the last segment was ended")
	mustCondense(t, s, first...)
	require.True(t, maps.EqualFunc(filesOf(d), once, bytes.Equal), "there was nothing to do")
	mustCondense(t, s, second...)
	twice := filesOf(d)
	require.NoError(t, matchesBut(s, n, second))
	require.NoError(t, s.Check(t.Context()))

	condensed := 0
	for i, name := range names {
		was, one, two := headerOf(t, before, name), headerOf(t, once, name), headerOf(t, twice, name)
		g, err := newSegment("", before[name])
		require.NoError(t, err)
		require.NoError(t, g.classifyTail(before[name]))
		switch {
		case one.times == 0:
			assert.True(t, two.times == 0 && bytes.Equal(before[name], twice[name]), "%s was changed", name)
			continue
		case two.times == 1:
			assert.Equal(t, once[name], twice[name], "%s was changed again", name)
		default:
			assert.Equal(t, uint32(3), two.times, "%s: without blobs first, and then with stubs", name)
			assert.NotEqual(t, one.sum, two.sum, "%s: readers see by the header that it is another file", name)
		}
		condensed++
		assert.Equal(t, uint32(2), le.Uint32(twice[name][16:]), "an older program refuses this version by its number")
		assert.Less(t, trimmed(twice[name]), trimmed(before[name]), "%s", name)
		for _, h := range []header{one, two} {
			assert.Equal(t, was.sum, h.original(), "%s", name)
			if i+1 < len(names) {
				assert.Equal(t, g.tail, h.ended, "%s", name)
				assert.Equal(t, h.ended, headerOf(t, twice, names[i+1]).chain, "%s", names[i+1])
			}
		}
	}
	require.True(t, condensed >= 3 && condensed < len(names), "%d segments were condensed, of %d", condensed, len(names))
	for _, i := range second {
		for name, b := range twice {
			assert.False(t, bytes.Contains(b, batch(i).Blobs[0][:300]), "%s has the blob of batch %d", name, i)
			assert.False(t, bytes.Contains(b, batch(i).Entries[0][:200]), "%s has entry %d", name, 2*i)
		}
	}
	for _, f := range []files{twice, twice.bare()} { // the process was killed just now
		d := f.disk()
		r, err := openReadOnly(d, dir)
		require.NoError(t, err)
		require.NoError(t, matchesBut(r, n, second))
		require.NoError(t, r.Copy(t.Context(), "copy"))
		mustClose(t, r)
		for _, place := range []string{dir, "copy"} {
			s, err := open(d, place, Options{}, small)
			require.NoError(t, err)
			require.NoError(t, matchesBut(s, n, second))
			grow(t, s, n, n+8)
			require.NoError(t, matchesBut(s, n+8, second))
			require.NoError(t, s.condense([]int{0, 1, n + 7}))
			require.NoError(t, matchesBut(s, n+8, append([]int{0, n + 7}, second...)))
			require.NoError(t, s.Check(t.Context()))
			mustClose(t, s)
		}
	}
}

// Any flipped bit, and any cut, of a condensed log is noticed as of any other.
func TestCondensedDamage(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	const n = 12
	condensed := []int{0, 2, 4, 5, 6, 9, 11}
	good := condensedLog(t, n, condensed...)
	require.NoError(t, good.answerBut(t, n, condensed))
	require.Len(t, good.segments(), 4)
	everyFlippedBit(t, good, n, condensed)
	everyCut(t, good, n, condensed)
}

// Segments of one log and what became of them can be exchanged, as after a part of a backup was put
// back. Those of another are refused.
func TestCondensedAndOlderFiles(t *testing.T) {
	t.Parallel()
	const n = 12
	condensed := []int{0, 1, 4, 5, 8, 9}
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, n)
	before := filesOf(d)
	mustCondense(t, s, 0, 4, 8)
	mustCondense(t, s, condensed...)
	mustClose(t, s)
	after := filesOf(d)
	other, third := condensedLog(t, n, 1, 5, 9), condensedLog(t, n, 0, 4, 5, 8)
	require.Equal(t, headerOf(t, other, "00000001.log"), headerOf(t, third, "00000001.log"))
	mixed := 0
	for _, name := range before.segments()[:2] {
		index := strings.TrimSuffix(name, logKind) + indexKind
		for _, f := range []files{before, other} {
			for _, indexes := range []files{before, after, other, third, nil} { // an index of another file is not believed
				d := after.but(name, f[name]).but(index, indexes[index]).disk()
				s := mustOpen(t, d)
				i, whole := 0, 0
				for e, err := range s.Entries(t.Context(), 0, 2*n) {
					require.NoError(t, err)
					entry := batch(i / 2).Entries[i%2]
					require.True(t, bytes.Equal(e, entry) || bytes.Equal(e, stubOf(entry)), "entry %d is %s", i, e)
					if bytes.Equal(e, entry) {
						whole++
					}
					i++
				}
				assert.Greater(t, whole, 2*(n-len(condensed)))
				mustCondense(t, s, condensed...)
				require.NoError(t, matchesBut(s, n, condensed))
				mustClose(t, s)
				mixed++
			}
		}
	}
	assert.Equal(t, 20, mixed)

	name := before.segments()[1]
	later := bytes.Clone(after[name])
	h := headerOf(t, after, name)
	h.ended++
	copy(later, h.encode())
	err := after.but(name, later).answerBut(t, n, condensed)
	require.Error(t, err, "another end than the next segment expects")
	h = headerOf(t, after, name)
	copy(later, h.encode())
	le.PutUint32(later[16:], 3)
	require.ErrorContains(t, after.but(name, later).answerBut(t, n, condensed),
		"a segment of format 3; this program knows formats 1 and 2")
	h.times = 0
	short := append(h.encode(), after[name][longHeader:]...)
	require.Error(t, after.but(name, short).answerBut(t, n, condensed), "stubs in a segment of version 1")
}

// The last segment is never one that was condensed: the next one is missing then.
func TestCondensedLastIsMissing(t *testing.T) {
	t.Parallel()
	good := condensedLog(t, 3, 0, 1)
	require.Len(t, good.segments(), 2)
	err := good.but(good.segments()[1], nil).answerBut(t, 3, []int{0, 1})
	require.ErrorContains(t, err, "the file is missing")
}

// A reader that opened the log before goes on: with the files that it has open as they were, and
// with those that it opens now as they are. It sees no more entries than there were.
func TestReadersOfWhatIsCondensed(t *testing.T) {
	t.Parallel()
	const n = 10
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, n)
	var readers []*Store
	for range 3 {
		r, err := openReadOnly(d, dir)
		require.NoError(t, err)
		mustHold(t, r, n)
		readers = append(readers, r)
	}
	next, stop := iter.Pull2(readers[0].Entries(t.Context(), 0, 2*n))
	defer stop()
	e, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, string(batch(0).Entries[0]), string(e))

	condensed := []int{0, 1, 3, 7, n - 1}
	grow(t, s, n, n+6)
	mustCondense(t, s, append(slices.Clone(condensed), n+1)...)
	e, err, _ = next()
	require.NoError(t, err)
	assert.Equal(t, string(batch(0).Entries[1]), string(e), "its file is open")
	for i := 2; i < 2*n; i++ {
		e, err, _ := next()
		require.NoError(t, err)
		want := batch(i / 2).Entries[i%2]
		require.True(t, bytes.Equal(e, want) || bytes.Equal(e, stubOf(want)), "entry %d is %s", i, e)
	}
	_, err, more := next()
	require.False(t, more, "%v", err)
	for _, r := range readers[:2] {
		require.NoError(t, matchesBut(r, n, condensed))
		require.NoError(t, matchesBut(r, n, condensed))
		err := r.Copy(t.Context(), "copy")
		assert.ErrorContains(t, err, "condensed since this store was opened: open it again")
		assert.ErrorContains(t, r.Check(t.Context()), "open it again")
		for name := range d.Names {
			if strings.HasPrefix(name, "copy") {
				delete(d.Names, name)
			}
		}
	}
	mustCondense(t, s, append(slices.Clone(condensed), 2, 4, n+1)...)
	for _, r := range readers {
		require.NoError(t, matchesBut(r, n, append(slices.Clone(condensed), 2, 4)))
		mustClose(t, r)
	}
}

// Other processes read the log, copy it and check it while it is condensed, on real files.
func TestReadersWhileItIsCondensed(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	s, err := open(unsynced{}, base+"/log", Options{}, small)
	require.NoError(t, err)
	defer s.Close()
	const n = 60
	grow(t, s, 0, n)
	var all sync.WaitGroup
	over := make(chan struct{})
	for i := range 2 {
		all.Go(func() {
			for look := 0; ; look++ {
				select {
				case <-over:
					return
				default:
				}
				r, err := openReadOnly(unsynced{}, base+"/log")
				if !assert.NoError(t, err) {
					return
				}
				to := fmt.Sprintf("%s/copy %d %d", base, i, look)
				for range 2 {
					for c, err := range r.Entries(t.Context(), 0, 2*n) {
						if !assert.NoError(t, err) || !assert.NotEmpty(t, c) {
							return
						}
					}
				}
				if look%3 == 0 {
					assert.NoError(t, r.Copy(t.Context(), to))
					c, err := openReadOnly(unsynced{}, to)
					if assert.NoError(t, err) {
						assert.NoError(t, c.Check(t.Context()))
						c.Close()
					}
				} else {
					assert.NoError(t, r.Check(t.Context()))
				}
				r.Close()
			}
		})
	}
	var condensed []int
	for i := range n / 2 {
		condensed = append(condensed, 2*i)
		if i%3 == 2 {
			grow(t, s, n+i-2, n+i+1) // readers see batches, and no end that is condensed
			mustCondense(t, s, condensed...)
		}
	}
	close(over)
	all.Wait()
	require.NoError(t, matchesBut(s, n+n/2, condensed))
}

// What was erased before is left out, what is erased after is erased in the new file, and what is
// erased meanwhile is in no file either.
func TestEraseAndCondense(t *testing.T) {
	t.Parallel()
	const n = 12
	secrets := []int{0, 1, 2, 4, 5, 8, n - 1}
	d := withSecrets(t, n, secrets...)
	tap := &disktest.Tap{Disk: d}
	s := mustOpen(t, tap)
	mustErase(t, s, 0)
	mustErase(t, s, n-1)
	var erasing sync.WaitGroup
	meanwhile := sync.OnceFunc(func() {
		erasing.Go(func() { assert.NoError(t, s.EraseBlob(t.Context(), crypto.Sum(secret(1)))) })
	})
	tap.Hook = func(o *disktest.Op) error {
		if o.Is("write", logKind+newKind) && bytes.Contains(o.Data, []byte("secret 1")) {
			meanwhile()
		}
		return o.Do()
	}
	condensed := []int{0, 1, 6, 11}
	require.NoError(t, s.condense(condensed, crypto.Sum(secret(5)), crypto.Sum(secret(8))))
	erasing.Wait()
	for _, i := range secrets {
		if i == 2 || i == 4 {
			mustErase(t, s, i)
		}
		mustLack(t, s, i)
	}
	require.Equal(t, "", traces(d), "there is something in")
	require.NoError(t, matchesBut(s, n, condensed))
	left := filesOf(d)
	mustClose(t, s)
	for _, f := range []files{left, left.bare(), filesOf(d)} {
		s := mustOpen(t, f.disk())
		require.NoError(t, matchesBut(s, n, condensed))
		for _, i := range secrets {
			mustLack(t, s, i)
			b := proofgraph.Batch{At: 2 * n, Blobs: [][]byte{secret(i)}}
			require.NoError(t, s.Append(t.Context(), b))
			got, err := s.Blob(t.Context(), crypto.Sum(secret(i)))
			require.True(t, err == nil && bytes.Equal(got, secret(i)), "appended again: %d bytes, %v", len(got), err)
		}
		mustClose(t, s)
	}
}

// What is erased after a Condense that failed, on a disk that failed from any change on until that
// returned, is erased for good: neither the file that was left nor the old one comes back.
func TestEraseAfterCondenseFailed(t *testing.T) {
	t.Parallel()
	const n = 12
	secrets := []int{0, 1, 5, n - 1}
	failed, dead := 0, 0
	for at := 1; ; at++ {
		d := withSecrets(t, n, secrets...)
		tap := &disktest.Tap{Disk: d}
		s := mustOpen(t, tap)
		changes := 0
		tap.Hook = func(o *disktest.Op) error {
			if o.Changes {
				if changes++; changes >= at {
					return errors.New("the disk failed")
				}
			}
			return o.Do()
		}
		err := s.condense([]int{0, 1, 2, 5, 6})
		tap.Hook = nil
		if changes < at {
			break
		}
		if err != nil { // or an index is missing
			failed++
		}
		if s.dead != nil {
			dead++
			continue
		}
		for _, i := range secrets {
			mustErase(t, s, i)
		}
		left := d.Cut(disktest.LeavesNone, rand.New(rand.NewPCG(1, 2)))
		require.Equal(t, "", traces(left), "the disk failed from change %d on, and there is something in", at)
		s = mustOpen(t, left)
		for _, i := range secrets {
			mustLack(t, s, i)
		}
		mustCondense(t, s, 0, 1, 2, 5, 6)
		require.NoError(t, matchesBut(s, n, []int{0, 1, 2, 5, 6}))
		mustClose(t, s)
	}
	assert.True(t, failed >= 20 && dead < failed/2, "%d failed, %d dead", failed, dead)
}

// A blob that an Append names while its segment is written stays there, whether it was passed over
// already or not, and what does not go otherwise goes later.
func TestAppendedWhileItIsCondensed(t *testing.T) {
	t.Parallel()
	const n = 8
	for _, when := range []string{"create", "write", "sync"} {
		for nth := range 3 {
			d := disktest.NewRAM()
			tap := &disktest.Tap{Disk: d}
			s := mustOpen(t, tap)
			grow(t, s, 0, n)
			at, seen := uint64(2*n), 0
			var named []int
			tap.Hook = func(o *disktest.Op) error {
				if o.Is(when, logKind+newKind) && bytes.Contains([]byte(o.Path), []byte("00000001")) {
					if seen++; seen > nth && len(named) < 2 {
						i := len(named)
						named = append(named, i)
						b := proofgraph.Batch{At: at, Entries: []contracts.Entry{[]byte("meanwhile")}, Blobs: batch(i).Blobs}
						at++
						require.NoError(t, s.Append(t.Context(), b))
					}
				}
				return o.Do()
			}
			condensed := []int{0, 1, 2}
			mustCondense(t, s, condensed...)
			tap.Hook = nil
			if len(named) == 0 {
				mustClose(t, s)
				continue // it is not done so often
			}
			for range 3 {
				for _, i := range condensed {
					b, err := s.Blob(t.Context(), crypto.Sum(batch(i).Blobs[0]))
					if slices.Contains(named, i) {
						require.NoError(t, err, "blob of batch %d, at the %s %d", i, when, nth)
						require.Equal(t, batch(i).Blobs[0], b)
					} else {
						require.ErrorIs(t, err, proofgraph.ErrNoBlob)
					}
				}
				require.NoError(t, s.Check(t.Context()))
				mustClose(t, s)
				d = filesOf(d).bare().disk()
				s = mustOpen(t, d)
			}
			mustCondense(t, s, condensed...) // nothing names them meanwhile
			for _, i := range condensed {
				_, err := s.Blob(t.Context(), crypto.Sum(batch(i).Blobs[0]))
				require.ErrorIs(t, err, proofgraph.ErrNoBlob)
			}
			mustClose(t, s)
		}
	}
}

// After a crash at any change of the disk no blob is left that is to be forgotten and of which no
// entry tells any more: none came in a batch of which an entry is a stub, once there is a stub that
// this Condense has put. Here the blob of a later batch stays at first, while that batch goes, as
// if an older entry named it; and then the older entry goes.
func TestCrashLeavesNoBlobBehind(t *testing.T) {
	t.Parallel()
	const n = 12
	early, late := []int{7, 8}, []int{0, 1, 5, 9}
	build := func(r *disktest.RAM) (*Store, *disktest.Tap) {
		tap := &disktest.Tap{Disk: r}
		s := mustOpen(t, tap)
		grow(t, s, 0, n)
		stubs, _ := what(early)
		require.NoError(t, s.Condense(t.Context(), stubs, func(func(contracts.Digest) bool) {}))
		return s, tap
	}
	var goes []contracts.Digest
	for _, i := range early {
		goes = append(goes, crypto.Sum(batch(i).Blobs[0]))
	}
	cuts, begun, done := 0, 0, 0
	for after := 1; ; after++ {
		r := disktest.NewRAM()
		s, tap := build(r)
		from := tap.Changes
		off := false
		tap.Hook = func(o *disktest.Op) error {
			if off {
				return disktest.ErrPower
			}
			err := o.Do()
			off = o.Changes && o.N == from+after
			return err
		}
		err := s.condense(late, goes...)
		if !off {
			require.NoError(t, err)
			tap.Hook = nil
			mustClose(t, s)
			break
		}
		for _, how := range disktest.Survivals {
			cuts++
			left := mustOpen(t, r.Cut(how, rand.New(rand.NewPCG(1, uint64(after)))))
			stub := map[int]bool{}
			i, stubs := 0, 0
			for e, err := range left.Entries(t.Context(), 0, 2*n) {
				require.NoError(t, err)
				if contracts.IsStub(e) {
					stub[i/2] = true
				}
				i++
			}
			for _, i := range late {
				if stub[i] {
					stubs++
				}
			}
			if stubs > 0 {
				begun++
				for _, i := range slices.Concat(early, late) {
					_, err := left.Blob(t.Context(), crypto.Sum(batch(i).Blobs[0]))
					if stub[i] {
						require.ErrorIs(t, err, proofgraph.ErrNoBlob, "change %d, which left %s: blob of batch %d", after, how, i)
					}
				}
			}
			if stubs == len(late) {
				done++
			}
			require.NoError(t, left.condense(late, goes...))
			require.NoError(t, matchesBut(left, n, slices.Concat(early, late)))
			mustClose(t, left)
		}
		s.Close()
	}
	assert.True(t, cuts > 100 && begun > done && done > 0, "%d cuts, %d with stubs, %d with all", cuts, begun, done)
}

// Close ends a Condense, and waits for it: nothing is written afterwards. Another process may have
// the log open then.
func TestCloseEndsCondense(t *testing.T) {
	t.Parallel()
	const n = 10
	for nth := range 12 {
		d := disktest.NewRAM()
		tap := &disktest.Tap{Disk: d}
		s := mustOpen(t, tap)
		grow(t, s, 0, n)
		var closing sync.WaitGroup
		seen := 0
		tap.Hook = func(o *disktest.Op) error {
			if o.Changes {
				if seen++; seen == nth+1 {
					returned := make(chan struct{})
					closing.Go(func() {
						assert.NoError(t, s.Close())
						close(returned)
					})
					select {
					case <-returned:
						t.Error("Close returned while a file was written")
					case <-time.After(5 * time.Millisecond): // enough, if it did not wait
					}
				}
			}
			return o.Do()
		}
		condensed := []int{0, 1, 2, 5, 6}
		err := s.condense(condensed)
		closing.Wait()
		if err != nil {
			require.ErrorIs(t, err, errClosed)
		}
		require.ErrorIs(t, s.condense(condensed), errClosed)
		for name := range d.Names {
			assert.False(t, strings.HasSuffix(name, newKind), "%s is left", name)
		}
		tap.Hook = nil
		s = mustOpen(t, d)
		mustCondense(t, s, condensed...)
		require.NoError(t, matchesBut(s, n, condensed))
		mustClose(t, s)
	}
}

// Open writes nothing to a condensed segment, though it is the last one with frames: it was whole
// before it had its name.
func TestOpenLeavesWhatIsCondensed(t *testing.T) {
	t.Parallel()
	const n = 5
	condensed := []int{0, 1, 3, 4}
	good := condensedLog(t, n, condensed...)
	names := good.segments()
	name := names[len(names)-2]
	require.NotZero(t, headerOf(t, good, name).times)
	tap := &disktest.Tap{Disk: good.bare().disk()}
	tap.Hook = func(o *disktest.Op) error {
		if o.Is("write", name) {
			t.Errorf("%d bytes are written to %s, at %d", len(o.Data), name, o.At)
		}
		return o.Do()
	}
	s := mustOpen(t, tap)
	require.NoError(t, matchesBut(s, n, condensed))
	grow(t, s, n, n+3)
	mustClose(t, s)
}

// A file that was read from while its segment was condensed is closed then: an open file keeps the
// disk of what went.
func TestOldFilesAreClosed(t *testing.T) {
	t.Parallel()
	const n = 8
	tap := &disktest.Tap{Disk: disktest.NewRAM()}
	s := mustOpen(t, tap)
	grow(t, s, 0, n)
	mustHold(t, s, n) // its files are idle
	require.NotEmpty(t, s.idle)
	tap.Hook = func(o *disktest.Op) error {
		if o.Is("read", "00000001"+logKind) {
			tap.Hook = nil
			mustCondense(t, s, 1, 2)
		}
		return o.Do()
	}
	b, err := s.Blob(t.Context(), crypto.Sum(batch(0).Blobs[0]))
	require.NoError(t, err)
	require.Equal(t, batch(0).Blobs[0], b)
	for _, w := range s.idle {
		assert.Same(t, s.segments[w.segment.number-1], w.segment)
	}
	require.NoError(t, matchesBut(s, n, []int{1, 2}))
}

// A store that was opened to be read, or is dead, condenses nothing.
func TestCondenseWritesNothing(t *testing.T) {
	t.Parallel()
	f := logOf(t, 6)
	d := f.disk()
	r, err := openReadOnly(d, dir)
	require.NoError(t, err)
	require.ErrorIs(t, r.condense([]int{0}), errReadOnly)
	mustHold(t, r, 6)
	mustClose(t, r)
	s := mustOpen(t, d)
	s.dead = errors.New("it is dead")
	require.ErrorIs(t, s.condense([]int{0}), s.dead)
	require.True(t, maps.EqualFunc(filesOf(d), f, bytes.Equal))
}

// The file of a segment is condensed only if it is the one that the store knows.
func TestCondenseOfAReplacedFile(t *testing.T) {
	t.Parallel()
	d := disktest.NewRAM()
	tap := &disktest.Tap{Disk: d}
	s := mustOpen(t, tap)
	grow(t, s, 0, 8)
	name := dir + "/00000001.log"
	tap.Hook = func(o *disktest.Op) error {
		if o.Is("sync", logKind+newKind) {
			d.Names[name] = &disktest.Inode{Data: []byte("of somebody else")}
		}
		return o.Do()
	}
	require.ErrorContains(t, s.condense([]int{0}), "the file was removed, moved or replaced while the log was open")
	assert.Equal(t, "of somebody else", string(d.Names[name].Data))
}
