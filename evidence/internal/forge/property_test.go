package forge

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// A property is tried on many falsified packs, none of which may pass.
type property struct {
	*testing.T
	o     evidence.Options
	pack  []byte
	tried int
}

// newProperty is that of some rows of the catalogue.
func newProperty(t *testing.T, rows ...string) *property {
	t.Helper()
	for _, id := range rows {
		ranRow(t, id)
	}
	m := SmallLog(t, 0)
	p := &property{T: t, o: evidence.Options{Trust: m.Trust, Origin: Origin}, pack: m.Pack(evidence.Write)}
	r, err := verifyBytes(t, p.pack, p.o)
	require.True(t, err == nil && r.Success(0) && len(p.pack) <= 18<<10, "the pack of %d bytes: %+v, %v", len(p.pack),
		r, err)
	return p
}

// each calls try for every n below end, or for a sample.
func (p *property) each(end, sample int, try func(i int) []byte) {
	p.Helper()
	step := 1
	if !*Full {
		step = max(1, end*Sample(3)/sample) | 1
	}
	for i := 0; i < end; i += step {
		if b := try(i); b != nil && !bytes.Equal(b, p.pack) {
			p.refuse(i, b)
		}
	}
}

func (p *property) refuse(i int, pack []byte) {
	p.Helper()
	p.tried++
	r, err := verifyBytes(p, pack, p.o)
	require.True(p, err != nil && r.Level == evidence.Invalid, "case %d: %s", i, r.Level)
}

func (p *property) atLeast(n int) {
	p.Helper()
	assert.GreaterOrEqual(p, p.tried, n/Sample(3), "cases were tried")
	p.Logf("%d cases", p.tried)
}

func TestFlippedBits(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := newProperty(t, "X01")
	p.each(8*len(p.pack), 2000, func(i int) []byte {
		b := bytes.Clone(p.pack)
		b[i/8] ^= 1 << (i % 8)
		return b
	})
	p.atLeast(1900)
}

// TestFlippedStubs flips bits of stubs alone, in a pack whose manifest a kernel key has signed
// again over what is there.
func TestFlippedStubs(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	w := newCondensed(t)
	m := w.apart(t)
	whole := Untar(t, w.pack)[EntriesAt].Body
	refused, tried := map[error]int{}, 0
	step := 29 * Sample(3)
	for _, name := range condensedSet {
		stub := m.The(name).stub
		at := bytes.Index(whole, stub)
		require.Positive(t, at)
		for bit := 0; bit < 8*len(stub); bit += step {
			changed := bytes.Clone(whole)
			changed[at+bit/8] ^= 1 << (bit % 8)
			if changed[at+bit/8] == '\n' {
				continue
			}
			forged := w.apart(t)
			lines(func(*Model, [][]byte) [][]byte { return slices.Collect(bytes.Lines(changed)) })(forged)
			r, err := verifyBytes(t, forged.Build(), w.o)
			require.Error(t, err, "bit %d of the stub of %s", bit, name)
			tried++
			refused[r.Fault.Check]++
		}
	}
	t.Logf("%d cases: %v", tried, refused)
	assert.True(t, tried >= 500/Sample(3) && refused[errGap] > 0 && refused[errManifest]+refused[errSignature] == 0,
		"%v", refused)
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	p := newProperty(t, "X02")
	p.each(len(p.pack), 2000, func(i int) []byte { return p.pack[:i] })
	p.atLeast(1800)
}

func TestDeletedBytes(t *testing.T) {
	t.Parallel()
	p := newProperty(t, "X03")
	p.each(len(p.pack), 1000, func(i int) []byte { return slices.Delete(bytes.Clone(p.pack), i, i+1) })
	p.atLeast(900)
}

func TestInsertedBytes(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := newProperty(t, "X04")
	for _, c := range []byte{0, ' ', '\n', 0xff} {
		p.each(len(p.pack)+1, 500, func(i int) []byte { return slices.Insert(bytes.Clone(p.pack), i, c) })
		p.refuse(-1, append(bytes.Clone(p.pack), c))
	}
	p.atLeast(1800)
}

func TestSwappedBlocks(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := newProperty(t, "X05", "X06")
	n := len(p.pack) / TarBlock
	at := func(b []byte, i int) []byte { return b[i*TarBlock : (i+1)*TarBlock] }
	p.each(n*n, 500, func(k int) []byte {
		i, j := k/n, k%n
		b := bytes.Clone(p.pack)
		copy(at(b, i), at(p.pack, j))
		copy(at(b, j), at(p.pack, i))
		return b
	})
	for i := range n {
		b := bytes.Clone(p.pack)
		p.refuse(i, slices.Insert(b, i*TarBlock, at(p.pack, i)...))
		b = bytes.Clone(p.pack)
		clear(at(b, i))
		if !bytes.Equal(b, p.pack) {
			p.refuse(i, b)
		}
	}
	p.atLeast(400)
}

func TestSwappedLines(t *testing.T) {
	t.Parallel()
	p := newProperty(t, "X07")
	n := len(TakeApart(t, p.pack).Nodes)
	for i := range n {
		for j := range i {
			m := TakeApart(t, p.pack)
			l := slices.Collect(bytes.Lines(entriesOf(m)))
			l[i], l[j] = l[j], l[i]
			ms := Untar(t, p.pack)
			ms[EntriesAt].Body = bytes.Join(l, nil)
			p.refuse(i*n+j, TarOf(ms))
		}
	}
	p.atLeast(15)
}

// TestRemovedEntries takes each entry out, with all else listed and signed again, but not what
// depends on it.
func TestRemovedEntries(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	made := SmallLog(t, 0)
	p := newProperty(t, "X08")
	size := len(TakeApart(t, p.pack).Nodes)
	last := made.Checkpoint()
	heads := 0
	for i := range size {
		m := TakeApart(t, p.pack)
		n := m.Nodes[i]
		head := n.Kind() != "policy" && !slices.ContainsFunc(m.Nodes,
			func(x *Node) bool { return x.prev == n || slices.Contains(x.parents, n) || i == 0 && x != n })
		for _, x := range m.Nodes {
			x.frozen = true
		}
		m.Nodes = slices.Delete(m.Nodes, i, i+1)
		for name := range m.Blobs {
			if strings.Contains(string(canonical(n.st)), name) && !bytes.Contains(entriesText(m), []byte(name)) {
				delete(m.Blobs, name)
			}
		}
		o := p.o
		o.Last = last
		r, err := verifyBytes(t, m.Build(), o)
		p.tried++
		switch {
		case !head:
			assert.Error(t, err, "entry %d, which others depend on: %s", i, r.Level)
		case i == size-1:
			heads++
			assert.True(t, err == nil && r.History == evidence.Stale && !r.Success(evidence.Intact),
				"the last entry: %s, %s, %v", r.Level, r.History, err)
		default:
			heads++
			kept := TakeApart(t, p.pack)
			root := rootOf(kept, size-1)
			o.Last = LastOf(kept, size-1, root, Origin)
			r, err = verifyBytes(t, m.Build(), o)
			assert.True(t, err == nil && r.History == evidence.Diverged && !r.Success(evidence.Intact),
				"entry %d, a head: %s, %s, %v", i, r.Level, r.History, err)
		}
	}
	assert.True(t, heads >= 2, "%d heads", heads)
	p.atLeast(6)
}

// entriesText is all statements.
func entriesText(m *Model) (b []byte) {
	for _, n := range m.Nodes {
		b = append(b, canonical(n.st)...)
	}
	return b
}

// TestFields deletes each required field of each kind of entry, of the manifest and of inputs, and
// adds an unknown one to each object, with everything else made right.
func TestFields(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	ranRow(t, "X10")
	w := newTampered(t)
	optional := map[string]bool{"idempotency": true, "id": true, "roles": true, "tenant": true, "sandbox": true,
		"argsForm": true}
	tried := map[error]int{}
	step, at := Sample(4), 0
	refuse := func(what string, m *Model, checks ...error) {
		t.Helper()
		if at++; at%step != 0 {
			return
		}
		r, err := verifyBytes(t, m.Build(), w.o)
		e, _ := err.(*evidence.Error)
		if e == nil || r.Level != evidence.Invalid || !slices.Contains(checks, e.Check) {
			t.Errorf("%s: %s, %v", what, r.Level, err)
			return
		}
		tried[e.Check]++
	}
	for _, name := range []string{"g", "p", "a1", "a2", "d1", "f2", "w2", "r", "x", "y2", "ka", "t2", "z1", "un",
		"ro"} {
		st := TakeApart(t, w.pack).The(name).st
		for _, c := range spoiled(t, st, optional) {
			m := TakeApart(t, w.pack)
			m.The(name).Payload = func([]byte) []byte { return canonical(c.object) }
			refuse(name+" "+c.what, m, errRecord, errEnvelope, errKey)
		}
	}
	env := parseObject(t, TakeApart(t, w.pack).The("a2").Line)
	for _, c := range spoiled(t, env, nil) {
		m := TakeApart(t, w.pack)
		m.The("a2").sealed = func([]byte) []byte { return canonical(c.object) }
		refuse("envelope "+c.what, m, errEnvelope)
	}
	manifest := parseObject(t, Untar(t, w.pack)[0].Body)
	for _, c := range spoiled(t, parseObject(t, base64Of(t, manifest["payload"])), nil) {
		m := TakeApart(t, w.pack)
		m.envelope = func([]byte) []byte { return m.seal(canonical(c.object), m.by, nil) }
		refuse("manifest "+c.what, m, errManifest)
	}
	m := TakeApart(t, w.pack)
	in := parseObject(t, m.Blobs[m.The("y1").D()["inputsHash"].(string)])
	for _, c := range spoiled(t, in, map[string]bool{"args": true, "id": true, "roles": true, "sandbox": true,
		"/data": true, "/tmp/in": true, "/tmp/out": true}) {
		if strings.HasPrefix(c.what, "/args/") {
			continue // any argument may be there
		}
		m := TakeApart(t, w.pack)
		m.inputs(m.The("y1"), func(in Object) {
			clear(in)
			for k, v := range c.object {
				in[k] = v
			}
		})
		refuse("inputs "+c.what, m, errBlob)
	}
	for check, least := range map[error]int{errRecord: 150, errEnvelope: 50, errKey: 5,
		errManifest: 30, errBlob: 14} {
		assert.GreaterOrEqual(t, tried[check], least/step, "of %v were tried", check)
	}
	t.Logf("by check: %v", tried)
}

// A spoil is an object with one thing wrong.
type spoil struct {
	what   string
	object Object
}

// spoiled returns o with each field deleted, but for optional ones, and with an unknown one in each
// object.
func spoiled(t testing.TB, o Object, optional map[string]bool) (out []spoil) {
	var walk func(path string, x any)
	change := func(path string, f func(o Object)) Object {
		c := parseObject(t, canonical(o))
		var at any = c
		for _, k := range strings.Split(path, "/")[1:] {
			if list, ok := at.([]any); ok {
				at = list[int(k[0]-'0')]
			} else {
				at = at.(Object)[k]
			}
		}
		f(at.(Object))
		return c
	}
	walk = func(path string, x any) {
		switch x := x.(type) {
		case Object:
			out = append(out, spoil{path + "/zz", change(path, func(o Object) { o["zz"] = 1 })})
			for _, k := range slices.Sorted(maps.Keys(x)) { // in order, so that a sample is always the same
				v := x[k]
				if !optional[k] || k == "id" && x["inputsHash"] != nil {
					out = append(out, spoil{path + "/" + k, change(path, func(o Object) { delete(o, k) })})
				}
				walk(path+"/"+k, v)
			}
		case []any:
			for i, v := range x {
				walk(path+"/"+string(rune('0'+i)), v)
			}
		}
	}
	walk("", o)
	return out
}

// A splice is a stretch [from, to) of another log in the place of the stretch at..end of this one,
// which may be empty.
type splice struct{ at, end, from, to int }

// splices are all that there are between two logs of that size.
func splices(size int) (list []splice) {
	for at := range size + 1 {
		for end := at; end <= size; end++ {
			for from := range size {
				for to := from + 1; to <= size; to++ {
					list = append(list, splice{at, end, from, to})
				}
			}
		}
	}
	return list
}

// TestForeignEntries puts entries of another log of the same origin and kernel key, whose genesis
// has another nonce, in the place of each stretch and between any two: one entry (X09) or more,
// those of the same places and others. First nothing else is changed, then what manifest and
// checkpoint say of the entries is made right and signed again.
func TestForeignEntries(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	p := newProperty(t, "X09")
	whole := SmallLog(t, 1).Pack(evidence.Write)
	size := len(TakeApart(t, whole).Nodes)
	all := splices(size)
	if len(all) != 588 { // 28 stretches, empty ones too, by 21 that are not empty
		t.Fatalf("%d splices of %d entries", len(all), size)
	}
	signed := 0
	p.each(len(all), 200, func(i int) []byte {
		x := all[i]
		m, other := TakeApart(t, p.pack), TakeApart(t, whole)
		require.False(t, bytes.Equal(m.Nodes[i%size].Line, other.Nodes[i%size].Line), "the logs are one")
		m.Nodes = slices.Concat(m.Nodes[:x.at], other.Nodes[x.from:x.to], m.Nodes[x.end:])
		for _, n := range m.Nodes {
			n.frozen = true
		}
		ms := Untar(t, p.pack)
		ms[EntriesAt].Body = entriesOf(m)
		p.refuse(i, TarOf(ms))
		if x.from == 0 && len(m.Nodes) == x.to {
			// the beginning of the other log, and nothing of this one: with a manifest of its own
			// it is a valid pack
			return nil
		}
		signed++
		maps.Copy(m.Blobs, other.Blobs)
		maps.DeleteFunc(m.Blobs,
			func(name string, _ []byte) bool { return !bytes.Contains(entriesText(m), []byte(name)) })
		return m.Build()
	})
	p.atLeast(380)
	assert.True(t, signed >= 190/Sample(3) && (!*Full || signed == 582), "%d were signed", signed)
}
