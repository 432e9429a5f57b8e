package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/crash"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disk"
	"github.com/helmkernel/helm/proofgraph/filestore/internal/disktest"
)

// secret returns a blob that must be found nowhere. It has several sectors, with zeros or without.
func secret(n int) []byte {
	return bytes.Join([][]byte{fmt.Appendf(nil, "secret %d head", n), []byte("secret middle"), []byte("secret tail")},
		bytes.Repeat([]byte{byte(n % 4)}, 1100))
}

const trace = "secret"

// withSecrets makes a log of n batches, some of which have a secret in addition to their own blob,
// twice.
func withSecrets(t testing.TB, n int, those ...int) *disktest.RAM {
	t.Helper()
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	for i := range n {
		b := batch(i)
		for _, x := range those {
			if x == i {
				b.Blobs = append(b.Blobs, secret(i), secret(i))
			}
		}
		require.NoError(t, s.Append(t.Context(), b))
	}
	mustClose(t, s)
	return d
}

// traces returns the name of a file that contains a part of a secret, as programs see it or on
// stable storage, or "".
func traces(r *disktest.RAM) string {
	for name, i := range r.Names {
		if bytes.Contains(i.Data, []byte(trace)) || bytes.Contains(i.Disk, []byte(trace)) {
			return name
		}
	}
	return ""
}

func mustErase(t testing.TB, s *Store, n int) {
	t.Helper()
	require.NoError(t, s.EraseBlob(t.Context(), crypto.Sum(secret(n))))
	mustLack(t, s, n)
}

func mustLack(t testing.TB, s *Store, n int) {
	t.Helper()
	b, err := s.Blob(t.Context(), crypto.Sum(secret(n)))
	require.True(t, errors.Is(err, proofgraph.ErrNoBlob) && b == nil, "secret %d: %d bytes, %v", n, len(b), err)
}

// After an erasure no file contains any of the blob, in full segments and in the last one, in its
// last frame too, and everything else is as it was.
func TestErasedFromEveryFile(t *testing.T) {
	t.Parallel()
	const n = 12
	secrets := []int{0, 1, 4, 8, n - 1}
	d := withSecrets(t, n, secrets...)
	require.True(t, len(filesOf(d).segments()) >= 4 && traces(d) != "", "not the log that this test was made for")
	s := mustOpen(t, d)
	for _, i := range secrets {
		mustErase(t, s, i)
		mustErase(t, s, i)
		mustHold(t, s, n)
		r, err := openReadOnly(d, dir)
		require.NoError(t, err)
		mustHold(t, r, n)
		mustLack(t, r, i)
	}
	require.Equal(t, "", traces(d), "there is something in")
	mustClose(t, s)
	if got, want := len(filesOf(d)), 2*len(filesOf(d).segments())+1; got != want { // end, hashes, one index less
		t.Errorf("%d files, want %d: a segment has no index", got, want)
	}
	for _, f := range []files{filesOf(d), filesOf(d).bare()} {
		d := f.disk()
		s := mustOpen(t, d)
		mustHold(t, s, n)
		for _, i := range secrets {
			mustLack(t, s, i)
			require.NoError(t, s.Append(t.Context(), proofgraph.Batch{At: 2 * n, Blobs: [][]byte{secret(i)}}))
			b, err := s.Blob(t.Context(), crypto.Sum(secret(i)))
			require.True(t, err == nil && bytes.Equal(b, secret(i)), "appended again: %d bytes, %v", len(b), err)
		}
		mustClose(t, s)
		s = mustOpen(t, d)
		mustHold(t, s, n)
		for _, i := range secrets {
			b, err := s.Blob(t.Context(), crypto.Sum(secret(i)))
			require.True(t, err == nil && bytes.Equal(b, secret(i)), "appended again, opened again: %d bytes, %v",
				len(b), err)
			mustErase(t, s, i)
		}
		require.Equal(t, "", traces(d), "there is something in")
		mustClose(t, s)
	}
}

// The power goes after each change to the disk that an erasure makes, or during a write, and what
// was not synced survives in every way. The blob is whole or gone, and gone with every trace once
// the erasure was acknowledged. There is never damage.
func TestCrashPowerWhileErasing(t *testing.T) {
	t.Parallel()
	const n = 9
	random := rand.New(rand.NewPCG(*crash.Seed, 3))
	whole, gone, acknowledged := 0, 0, 0
	for _, which := range []int{1, n - 1} { // in a full segment, and in the last frame of the log
		good := filesOf(withSecrets(t, n, 1, n-1))
		for after := 1; ; after++ {
			for _, how := range disktest.Survivals {
				for _, partly := range []bool{false, true} {
					d := good.disk()
					changes, err := erasedUntil(t, d, which, after, partly, random)
					if err == nil {
						acknowledged++
					}
					left := d.Cut(how, random)
					what := fmt.Sprintf("secret %d, power lost after change %d of an erasure (amid it: %v), which "+
						"left %s; it said %v", which, after, partly, how, err)
					require.True(t, err != nil || !bytes.Contains(bytesOf(left), secret(which)[:40]),
						"%s: there is something left", what)
					for _, seen := range []*disktest.RAM{left.Clone(), left} {
						if seen != left {
							r, err := openReadOnly(seen, dir)
							require.NoError(t, err, "%s", what)
							mustHold(t, r, n)
							continue
						}
						s := mustOpen(t, seen)
						mustHold(t, s, n)
						b, berr := s.Blob(t.Context(), crypto.Sum(secret(which)))
						switch {
						case berr == nil && bytes.Equal(b, secret(which)) && err != nil:
							whole++
						case errors.Is(berr, proofgraph.ErrNoBlob):
							if gone++; bytes.Contains(bytesOf(seen), fmt.Appendf(nil, "secret %d", which)) {
								t.Fatalf("%s: it is not there, and there is something left", what)
							}
						default:
							t.Fatalf("%s: %d bytes, %v", what, len(b), berr)
						}
						mustErase(t, s, which)
						mustErase(t, s, n-which)
						mustClose(t, s)
						require.Equal(t, "", traces(seen), "%s: erased again, and there is something in", what)
					}
					if after > changes {
						break
					}
				}
			}
			if after > 12 {
				break
			}
		}
	}
	t.Logf("%d whole, %d gone, %d acknowledged", whole, gone, acknowledged)
	assert.True(t, whole >= 20 && gone >= 20 && acknowledged >= 10, "too few cases")
}

// bytesOf returns every byte of the files.
func bytesOf(r *disktest.RAM) []byte {
	var all []byte
	for _, i := range r.Names {
		all = append(append(all, i.Data...), i.Disk...)
	}
	return all
}

// erasedUntil erases a secret on a disk whose power goes after so many changes, or during that one.
func erasedUntil(t *testing.T, d disk.Disk, which, after int, amid bool, random *rand.Rand) (changes int, err error) {
	off, counting := false, false
	tapped := &disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
		switch {
		case off:
			return disktest.ErrPower
		case !counting || !o.Changes:
			return o.Do()
		}
		if changes++; changes < after {
			return o.Do()
		}
		off = true
		if amid && o.Kind == "write" {
			return errors.Join(disktest.ErrPower, o.Part(random.IntN(len(o.Data)+1)))
		}
		return o.Do()
	}}
	s, oerr := open(tapped, dir, Options{}, small)
	require.NoError(t, oerr)
	counting = true
	err = s.EraseBlob(t.Context(), crypto.Sum(secret(which)))
	return changes, err
}

// After an error of the disk the store is dead. When it is opened again, by a system that shows
// bytes it has not kept, the blob is whole, or gone for good.
func TestEraseOnASickDisk(t *testing.T) {
	t.Parallel()
	const n = 9
	failures, gone := 0, 0
	for _, which := range []int{1, n - 1} {
		good := filesOf(withSecrets(t, n, which))
		for after := 1; after < 14; after++ {
			for _, showing := range []bool{false, true} {
				d, sick, ops := good.disk(), false, 0
				s, err := open(&disktest.Tap{Disk: d, Hook: func(o *disktest.Op) error {
					if !sick {
						return o.Do()
					}
					if ops++; ops != after {
						return o.Do()
					}
					if f, ok := o.File.(*disktest.RAMFile); ok && o.Kind == "sync" {
						f.Forget(showing)
					}
					return errors.New("the disk failed")
				}}, dir, Options{}, small)
				require.NoError(t, err)
				sick = true
				err = s.EraseBlob(t.Context(), crypto.Sum(secret(which)))
				if err == nil {
					mustClose(t, s)
					continue
				}
				failures++
				assert.True(t, strings.HasPrefix(err.Error(), "filestore: erase: ") && !strings.Contains(err.Error(),
					trace), "%v", err)
				if dead := s.Append(t.Context(), batch(n)); dead != nil && dead.Error() != err.Error() ||
					dead == nil && s.dead != nil {
					t.Errorf("after %v: %v", err, dead)
				} else if dead != nil {
					again := s.EraseBlob(t.Context(), contracts.Digest{})
					assert.True(t, again != nil && again.Error() == err.Error(), "the dead erase: %v", again)
					s.Close()
				} else {
					continue // it had not begun
				}
				s = mustOpen(t, d)
				mustHold(t, s, n)
				if _, err := s.Blob(t.Context(), crypto.Sum(secret(which))); errors.Is(err, proofgraph.ErrNoBlob) {
					if gone++; traces(d) != "" {
						t.Fatalf("operation %d failed: gone, and there is something left", after)
					}
				} else if err != nil {
					t.Fatalf("operation %d failed: %v", after, err)
				}
				mustErase(t, s, which)
				require.Equal(t, "", traces(d), "operation %d failed: erased again, and there is something in", after)
				s = mustOpen(t, d.Cut(disktest.LeavesNone, nil))
				mustHold(t, s, n)
				mustLack(t, s, which)
			}
		}
	}
	assert.True(t, failures >= 20 && gone >= 2, "%d failures, %d gone", failures, gone)
}

// Damage to the last frame stays damage if a blob of it was erased: the frame was acknowledged, and
// is not dropped.
func TestDamageBesideAnErasedBlob(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	for _, n := range []int{5, 6} { // with zeros in it, and without
		damageBesideAnErasedBlob(t, n)
	}
}

func damageBesideAnErasedBlob(t *testing.T, n int) {
	d := withSecrets(t, n, n-1)
	s := mustOpen(t, d)
	mustErase(t, s, n-1)
	mustClose(t, s)
	good := filesOf(d)
	names := good.segments()
	name := names[len(names)-1]
	mustAnswer := func(b []byte) error { return good.but(name, b).answer(t, n) }
	require.NoError(t, mustAnswer(good[name]))
	g, err := newSegment("", bytes.Clone(good[name]))
	if err == nil {
		err = g.classifyTail(bytes.Clone(good[name]))
	}
	require.True(t, err == nil && len(g.erased) == 2, "%d marked, %v", len(g.erased), err)
	bits := 0
	from := int(g.erased[0].at)
	for at := from; at < int(g.end); at += stride() {
		faded := false
		for _, x := range g.erased {
			start := int(x.at) + recordHead + len(contracts.Digest{})
			faded = faded || at >= start && at < start+int(x.size)
		}
		if !faded {
			bits++
			mustBeIn(t, mustAnswer(flipped(good[name], at, at%8)), name)
		} else if at%7 == 0 {
			require.NoError(t, mustAnswer(flipped(good[name], at, at%8)))
		}
	}
	assert.True(t, bits >= 500/stride(), "%d bits", bits)
}

// A lost sector of the last frame is damage if a mark shows that the frame was acknowledged.
// Without a mark the frame would be torn.
func TestLostSectorBesideAnErasedBlob(t *testing.T) {
	t.Parallel()
	dense := func(c byte) []byte { return bytes.Repeat([]byte{c}, 2000) }
	d := disktest.NewRAM()
	s := mustOpen(t, d)
	grow(t, s, 0, 1)
	b := batch(1)
	b.Blobs, b.Entries[1] = [][]byte{dense('a'), secret(1), dense('b')}, dense('e')
	require.NoError(t, s.Append(t.Context(), b))
	mustErase(t, s, 1)
	mustClose(t, s)
	good := filesOf(d)
	name := good.segments()[1] // all of it is this frame
	file, tried := good[name], map[byte]int{}
	for at := 0; at+sector < trimmed(file); at += sector {
		what := file[at]
		if bytes.Count(file[at:at+sector], []byte{what}) != sector { // more than one record's
			continue
		}
		b := bytes.Clone(file)
		clear(b[at : at+sector])
		d := good.but(name, b).disk()
		s, err := open(d, dir, Options{}, small)
		if tried[what]++; what == kindErased {
			require.True(t, err == nil && s.entries == 4, "%v", err)
			continue
		}
		mustBeIn(t, err, name)
	}
	assert.True(t, tried['a'] != 0 && tried['b'] != 0 && tried['e'] != 0 && tried[kindErased] != 0, "%v", tried)
}

// Other bytes in place of a blob's, without a mark, are damage, even if they are those that an
// erasure would have left.
func TestDamageIsNotErased(t *testing.T) {
	t.Parallel()
	good := filesOf(withSecrets(t, 9, 1, 8))
	tried, erased := 0, 0
	for _, name := range good.segments() {
		for _, which := range []int{1, 8} {
			for _, spoilt := range [][]byte{flipped(secret(which), 5, 0), overwritten[:len(secret(which))]} {
				b := bytes.ReplaceAll(good[name], secret(which), spoilt)
				if bytes.Equal(b, good[name]) {
					continue
				}
				s, err := open(good.but(name, b).disk(), dir, Options{}, small)
				if err == nil {
					_, err = s.Blob(t.Context(), crypto.Sum(secret(which)))
					mustErase(t, s, which) // that is the way to go on
					erased++
				}
				mustBeIn(t, err, name)
				tried++
			}
		}
	}
	if tried != 4 || erased != 2 { // Open reads the last frame
		t.Error(tried, erased)
	}
}
