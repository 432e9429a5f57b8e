package evidence

import (
	"bytes"
	"flag"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/trust/registry"
)

var full = flag.Bool("full", false, "try every case of the properties, not a sample")

// smallLog is one of six entries in two sessions, whose pack is small enough to try everything on it.
func smallLog(t testing.TB, nonce byte) *maker {
	m := newMakerOf(t, stateOf(t, 0, seedK1, seedL, registry.Key{Name: "kernel 2", Public: testPublic(t, seedK2), Role: registry.Kernel}), nonce)
	m.use(`{"bundle":{"name":"b","version":1},"helm":"policy/v1","layer":"P1","rules":[{"allow":"t","id":"a"}],"tools":{"t":{"effect":"read","input":{"type":"object"}}}}`)
	a := m.allowed(ask{session: "a", tool: "t", args: `{}`})
	a.end(receipts.Result{Reason: contracts.ReasonAllow, Output: []byte("null"), Form: "jcs"}, false)
	m.allowed(ask{session: "b", tool: "t", args: `{}`, drop: true, parents: []contracts.Digest{a.entry}})
	m.denied(contracts.ReasonToolNotFound, ask{session: "a", tool: "x", args: `{}`, drop: true})
	m.checkpoint()
	return m
}

// A property is tried on many falsified packs, none of which may pass.
type property struct {
	*testing.T
	o     Options
	pack  []byte
	tried int
}

// newProperty is that of some rows of the catalogue.
func newProperty(t *testing.T, rows ...string) *property {
	t.Helper()
	for _, id := range rows {
		ranRow(t, id)
	}
	m := smallLog(t, 0)
	p := &property{T: t, o: Options{Trust: m.trust, Origin: testOrigin}, pack: m.pack()}
	if r, err := verifyBytes(t, p.pack, p.o); err != nil || !r.Success(0) || len(p.pack) > 18<<10 {
		t.Fatalf("the pack of %d bytes: %+v, %v", len(p.pack), r, err)
	}
	return p
}

// each calls try for every n below end, or for a sample.
func (p *property) each(end, sample int, try func(i int) []byte) {
	p.Helper()
	step := 1
	if !*full {
		step = max(1, end/sample) | 1
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
	if r, err := verifyBytes(p, pack, p.o); err == nil || r.Level != Invalid {
		p.Fatalf("case %d: %s", i, r.Level)
	}
}

func (p *property) atLeast(n int) {
	p.Helper()
	if p.tried < n {
		p.Errorf("only %d cases were tried", p.tried)
	}
	p.Logf("%d cases", p.tried)
}

func TestFlippedBits(t *testing.T) {
	race.Alone(t)
	p := newProperty(t, "X01")
	p.each(8*len(p.pack), 2000, func(i int) []byte {
		b := bytes.Clone(p.pack)
		b[i/8] ^= 1 << (i % 8)
		return b
	})
	p.atLeast(1900)
}

func TestTruncated(t *testing.T) {
	p := newProperty(t, "X02")
	p.each(len(p.pack), 2000, func(i int) []byte { return p.pack[:i] })
	p.atLeast(1800)
}

func TestDeletedBytes(t *testing.T) {
	p := newProperty(t, "X03")
	p.each(len(p.pack), 1000, func(i int) []byte { return slices.Delete(bytes.Clone(p.pack), i, i+1) })
	p.atLeast(900)
}

func TestInsertedBytes(t *testing.T) {
	p := newProperty(t, "X04")
	for _, c := range []byte{0, ' ', '\n', 0xff} {
		p.each(len(p.pack)+1, 500, func(i int) []byte { return slices.Insert(bytes.Clone(p.pack), i, c) })
		p.refuse(-1, append(bytes.Clone(p.pack), c))
	}
	p.atLeast(1800)
}

func TestSwappedBlocks(t *testing.T) {
	race.Alone(t)
	p := newProperty(t, "X05", "X06")
	n := len(p.pack) / block
	at := func(b []byte, i int) []byte { return b[i*block : (i+1)*block] }
	p.each(n*n, 500, func(k int) []byte {
		i, j := k/n, k%n
		b := bytes.Clone(p.pack)
		copy(at(b, i), at(p.pack, j))
		copy(at(b, j), at(p.pack, i))
		return b
	})
	for i := range n {
		b := bytes.Clone(p.pack)
		p.refuse(i, slices.Insert(b, i*block, at(p.pack, i)...))
		b = bytes.Clone(p.pack)
		clear(at(b, i))
		if !bytes.Equal(b, p.pack) {
			p.refuse(i, b)
		}
	}
	p.atLeast(400)
}

func TestSwappedLines(t *testing.T) {
	p := newProperty(t, "X07")
	n := len(takeApart(t, p.pack).nodes)
	for i := range n {
		for j := range i {
			m := takeApart(t, p.pack)
			l := slices.Collect(bytes.Lines(entriesOf(m)))
			l[i], l[j] = l[j], l[i]
			ms := untar(t, p.pack)
			ms[entriesMember].body = bytes.Join(l, nil)
			p.refuse(i*n+j, tarOf(ms))
		}
	}
	p.atLeast(15)
}

// TestRemovedEntries takes each entry out, with all else listed and signed anew, but not what depends on it.
func TestRemovedEntries(t *testing.T) {
	race.Alone(t)
	made := smallLog(t, 0)
	p := newProperty(t, "X08")
	size := len(takeApart(t, p.pack).nodes)
	last := made.checkpoint()
	heads := 0
	for i := range size {
		m := takeApart(t, p.pack)
		n := m.nodes[i]
		head := n.kind() != "policy" && !slices.ContainsFunc(m.nodes, func(x *node) bool { return x.prev == n || slices.Contains(x.parents, n) || i == 0 && x != n })
		for _, x := range m.nodes {
			x.frozen = true
		}
		m.nodes = slices.Delete(m.nodes, i, i+1)
		for name := range m.blobs {
			if strings.Contains(string(canonical(n.st)), name) && !bytes.Contains(entriesText(m), []byte(name)) {
				delete(m.blobs, name)
			}
		}
		o := p.o
		o.Last = last
		r, err := verifyBytes(t, m.build(), o)
		p.tried++
		switch {
		case !head:
			if err == nil {
				t.Errorf("entry %d, which others depend on: %s", i, r.Level)
			}
		case i == size-1:
			heads++
			if err != nil || r.History != Stale || r.Success(Intact) {
				t.Errorf("the last entry: %s, %s, %v", r.Level, r.History, err)
			}
		default:
			heads++
			kept := takeApart(t, p.pack)
			root := merkle(leavesOf(kept, size-1))
			o.Last = lastOf(kept, size-1, root, testOrigin)
			if r, err = verifyBytes(t, m.build(), o); err != nil || r.History != Diverged || r.Success(Intact) {
				t.Errorf("entry %d, a head: %s, %s, %v", i, r.Level, r.History, err)
			}
		}
	}
	if heads < 2 {
		t.Errorf("%d heads", heads)
	}
	p.atLeast(6)
}

// entriesText is all statements.
func entriesText(m *model) (b []byte) {
	for _, n := range m.nodes {
		b = append(b, canonical(n.st)...)
	}
	return b
}

// TestFields deletes each required field of each kind of entry, of the manifest and of inputs, and adds one that nobody knows to each object,
// with everything else made right.
func TestFields(t *testing.T) {
	race.Alone(t)
	ranRow(t, "X10")
	w := newTampered(t)
	optional := map[string]bool{"idempotency": true, "id": true, "roles": true, "tenant": true, "sandbox": true, "argsForm": true}
	tried := map[error]int{}
	refuse := func(what string, m *model, checks ...error) {
		t.Helper()
		r, err := verifyBytes(t, m.build(), w.o)
		e, _ := err.(*Error)
		if e == nil || r.Level != Invalid || !slices.Contains(checks, e.Check) {
			t.Errorf("%s: %s, %v", what, r.Level, err)
			return
		}
		tried[e.Check]++
	}
	for _, name := range []string{"g", "p", "a1", "a2", "d1", "f2", "w2", "r", "x", "y2", "ka", "t2", "z1", "un", "ro"} {
		st := takeApart(t, w.pack).the(name).st
		for _, c := range spoiled(t, st, optional) {
			m := takeApart(t, w.pack)
			m.the(name).payload = func([]byte) []byte { return canonical(c.object) }
			refuse(name+" "+c.what, m, ErrRecord, ErrEnvelope, ErrKey)
		}
	}
	env := parseObject(t, takeApart(t, w.pack).the("a2").line)
	for _, c := range spoiled(t, env, nil) {
		m := takeApart(t, w.pack)
		m.the("a2").sealed = func([]byte) []byte { return canonical(c.object) }
		refuse("envelope "+c.what, m, ErrEnvelope)
	}
	manifest := parseObject(t, untar(t, w.pack)[0].body)
	for _, c := range spoiled(t, parseObject(t, base64Of(t, manifest["payload"])), nil) {
		m := takeApart(t, w.pack)
		m.envelope = func([]byte) []byte { return m.seal(canonical(c.object), m.by, nil) }
		refuse("manifest "+c.what, m, ErrManifest)
	}
	m := takeApart(t, w.pack)
	in := parseObject(t, m.blobs[m.the("y1").d()["inputsHash"].(string)])
	for _, c := range spoiled(t, in, map[string]bool{"args": true, "id": true, "roles": true, "sandbox": true}) {
		if strings.HasPrefix(c.what, "/args/") {
			continue // any argument may be there
		}
		m := takeApart(t, w.pack)
		m.inputs(m.the("y1"), func(in object) {
			clear(in)
			for k, v := range c.object {
				in[k] = v
			}
		})
		refuse("inputs "+c.what, m, ErrBlob)
	}
	if tried[ErrRecord] < 150 || tried[ErrEnvelope] < 50 || tried[ErrKey] < 5 || tried[ErrManifest] < 30 || tried[ErrBlob] < 14 {
		t.Errorf("only %v were tried", tried)
	}
	t.Logf("by check: %v", tried)
}

// A spoil is an object with one thing wrong.
type spoil struct {
	what   string
	object object
}

// spoiled gives o with each field deleted, but for optional ones, and with an unknown one in each object.
func spoiled(t testing.TB, o object, optional map[string]bool) (out []spoil) {
	var walk func(path string, x any)
	change := func(path string, f func(o object)) object {
		c := parseObject(t, canonical(o))
		var at any = c
		for _, k := range strings.Split(path, "/")[1:] {
			if list, ok := at.([]any); ok {
				at = list[int(k[0]-'0')]
			} else {
				at = at.(object)[k]
			}
		}
		f(at.(object))
		return c
	}
	walk = func(path string, x any) {
		switch x := x.(type) {
		case object:
			out = append(out, spoil{path + "/zz", change(path, func(o object) { o["zz"] = 1 })})
			for k, v := range x {
				if !optional[k] || k == "id" && x["inputsHash"] != nil {
					out = append(out, spoil{path + "/" + k, change(path, func(o object) { delete(o, k) })})
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
