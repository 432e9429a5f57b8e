package evidence

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/trust/registry"
)

// A known is what a fuzz target knows to be signed: packs, and the trust states of their logs.
type known struct {
	packs  [][]byte
	trust  []*registry.State
	origin string
}

// accepted holds a verification to the one property that matters: under a trust root
// nothing passes that was not signed under it.
func (k known) accepted(t *testing.T, pack []byte) {
	t.Helper()
	for _, state := range k.trust {
		r, err := verifyBytes(t, pack, Options{Trust: state, Origin: k.origin})
		assert.True(t, (err == nil) == (r.Level > Invalid) && (err == nil) == (r.Fault == nil), "%s, %v", r.Level, err)
		assert.False(t, err == nil && !slices.ContainsFunc(k.packs, func(b []byte) bool { return bytes.Equal(b, pack) }),
			"%s: a pack that was not signed", r.Level)
	}
	r, err := verifyBytes(t, pack, Options{})
	assert.False(t, err == nil && (r.Level < Intact || r.Success(Intact)), "without a trust root: %+v", r)
}

// fuzzPacks are of logs whose origin depends on what is in them. Go keeps the inputs of earlier
// runs: those of an earlier version of these logs are signed by the same keys, and valid if the
// origin is the same.
func fuzzPacks(f *testing.F) known {
	packed := func(origin string) known {
		k := known{origin: origin}
		for _, m := range forge.LogsOf(f, origin) {
			k.packs, k.trust = append(k.packs, m.Pack(Write)), append(k.trust, m.Trust)
		}
		return k
	}
	first := packed(forge.Origin)
	k := packed(forge.Origin + "/" + crypto.Sum(slices.Concat(first.packs...)).String())
	for i, b := range k.packs {
		_, err := verifyBytes(f, b, Options{Trust: k.trust[i], Origin: k.origin})
		require.NoError(f, err)
	}
	return k
}

// FuzzVerify takes whole packs. They take long to shrink: run it with -fuzzminimizetime=1x.
func FuzzVerify(f *testing.F) {
	good := fuzzPacks(f)
	for _, b := range good.packs {
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, pack []byte) { good.accepted(t, pack) })
}

// FuzzMembers takes the contents of members of a valid pack; the archive is right. As above,
// -fuzzminimizetime=1x.
func FuzzMembers(f *testing.F) {
	race.Alone(f)
	good := fuzzPacks(f)
	for of, b := range good.packs {
		ms := forge.Untar(f, b)
		for i := 3; i < min(len(ms), 9); i++ {
			f.Add(uint8(of), ms[0].Body, ms[1].Body, ms[2].Body, ms[i].Body, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, of uint8, manifest, checkpoint, entries, blob []byte, which uint8) {
		ms := forge.Untar(t, good.packs[int(of)%len(good.packs)])
		ms[0].Body, ms[1].Body, ms[2].Body = manifest, checkpoint, entries
		ms[3+int(which)%(len(ms)-3)].Body = blob
		good.accepted(t, forge.TarOf(ms))
	})
}

// A cutter changes members of packs as the bytes that it is given say. When these come to an end
// they are zeros.
type cutter struct{ script []byte }

// next is a number below n, which is more than 0.
func (c *cutter) next(n int) int {
	var b [2]byte
	k := copy(b[:], c.script)
	c.script = c.script[k:]
	return int(binary.LittleEndian.Uint16(b[:])) % n
}

// cut makes one change: of the members, of one's header, of its bytes, or of the lines in it. Those
// of another pack may come in.
func (c *cutter) cut(ms, others []forge.Member) []forge.Member {
	i, j := c.next(len(ms)), c.next(len(ms))
	x := &ms[i]
	switch c.next(16) {
	case 0:
		ms[i], ms[j] = ms[j], ms[i]
	case 1:
		return slices.Insert(ms, j, *x)
	case 2:
		return slices.Delete(ms, i, i+1)
	case 3:
		x.Name = ms[j].Name
	case 4:
		x.Body = ms[j].Body
	case 5:
		*x = others[c.next(len(others))]
	case 6:
		return slices.Insert(ms, i, others[c.next(len(others))])
	case 7:
		at, to := c.next(forge.TarBlock), byte(c.next(256))
		x.Head = func(h []byte) { h[at] = to }
	case 8:
		at, to := c.next(forge.TarBlock), byte(c.next(256))
		x.Late = func(h []byte) { h[at] = to }
	case 9:
		x.Pad = byte(c.next(256))
	case 10:
		if len(x.Body) > 0 {
			x.Body[c.next(len(x.Body))] ^= 1 << c.next(8)
		}
	case 11:
		x.Body = slices.Insert(x.Body, c.next(len(x.Body)+1), byte(c.next(256)))
	case 12:
		from := c.next(len(x.Body) + 1)
		x.Body = slices.Delete(x.Body, from, min(len(x.Body), from+c.next(600)))
	case 13:
		from, at := c.next(len(x.Body)+1), c.next(len(x.Body)+1)
		x.Body = slices.Insert(x.Body, at, bytes.Clone(x.Body[from:min(len(x.Body), from+c.next(600))])...)
	default:
		x.Body = c.lines(x.Body, others)
	}
	return ms
}

// lines changes lines of entries.jsonl, or of what else has some.
func (c *cutter) lines(body []byte, others []forge.Member) []byte {
	l, o := slices.Collect(bytes.Lines(body)), slices.Collect(bytes.Lines(others[forge.EntriesAt].Body))
	if len(l) == 0 {
		return body
	}
	i, j := c.next(len(l)), c.next(len(l))
	switch c.next(5) {
	case 0:
		l[i], l[j] = l[j], l[i]
	case 1:
		l = slices.Insert(l, j, l[i])
	case 2:
		l = slices.Delete(l, min(i, j), max(i, j))
	case 3:
		l[i] = o[c.next(len(o))]
	case 4:
		from := c.next(len(o))
		l = slices.Concat(l[:i], o[from:min(len(o), from+1+c.next(8))], l[j:])
	}
	return bytes.Join(l, nil)
}

// scripted is what a script makes of a pack.
func scripted(t testing.TB, packs [][]byte, which uint8, script []byte) []byte {
	n := len(packs)
	ms, others := forge.Untar(t, packs[int(which)%n]), forge.Untar(t, packs[int(which)/n%n])
	c := &cutter{script[:min(len(script), 64)]}
	for once := true; len(ms) > 0 && (once || len(c.script) > 0); once = false {
		ms = c.cut(ms, others)
	}
	return forge.TarOf(ms)
}

// FuzzCut takes what to change of the members of valid packs, in an archive that is right but
// for that, without any key: whatever the result is, nothing unsigned is accepted.
func FuzzCut(f *testing.F) {
	m := forge.SmallLog(f, 0)
	// small ones, so that many are tried
	good := known{[][]byte{m.Pack(Write), forge.SmallLog(f, 1).Pack(Write)}, []*registry.State{m.Trust}, forge.Origin}
	for which := range uint8(4) {
		for op := range byte(16) {
			f.Add(which, []byte{2, 0, 1, 0, op, 0, 3, 0, 1, 0, 2})
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, script []byte) {
		good.accepted(t, scripted(t, good.packs, which, script))
	})
}

// TestCut: scripts make very many different packs, and one of those that the fuzz target begins
// with makes the pack that was there.
func TestCut(t *testing.T) {
	t.Parallel()
	m, base := forge.SmallLog(t, 0), forge.BaseLog(t)
	base.Checkpoint()
	packs := [][]byte{m.Pack(Write), base.Pack(Write)}
	got := scripted(t, packs, 0, []byte{1, 0, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0})
	assert.True(t, bytes.Equal(got, packs[0]), "two members that change places twice are not where they were")
	made := map[string]bool{}
	script := noise(64 * 300)
	for i := range 300 {
		made[string(scripted(t, packs, uint8(i), script[64*i:][:1+i%40]))] = true
	}
	assert.True(t, len(made) >= 250, "%d packs of 300 scripts", len(made))
}
