package helmtest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
)

// A draw chooses: by bytes that the fuzzing engine changes, and by numbers that follow from all of
// them when these have come to their end.
type draw struct {
	choices []byte
	rest    *rand.Rand
}

func newDraw(choices []byte) *draw {
	sum := crypto.Sum(choices)
	return &draw{choices, rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])))}
}

// n returns a number below n.
func (d *draw) n(n int) int {
	if len(d.choices) == 0 || n > 256 {
		return d.rest.IntN(n)
	}
	c := d.choices[0]
	d.choices = d.choices[1:]
	return int(c) % n
}

// one reports whether one of n comes.
func (d *draw) one(n int) bool { return d.n(n) == 0 }

func pick[T any](d *draw, list ...T) T { return list[d.n(len(list))] }

// constants notes the texts and numbers in a value. Changed calls have some of them.
func (z *fuzzer) constants(v crypto.Value) {
	switch v.Kind() {
	case crypto.Object:
		for it := v.Iter(); it.Next(); {
			z.constants(it.Value())
		}
	case crypto.Array:
		for x := range v.Elements() {
			z.constants(x)
		}
	case crypto.String:
		if s := v.Text(); len(s) <= 256 {
			z.texts = append(z.texts, s)
		}
	case crypto.Number:
		z.numbers = append(z.numbers, string(v.Append(nil)))
	}
}

// intent is a call like a seed.
func (z *fuzzer) intent(d *draw) helm.Intent {
	in := z.seeds[d.n(len(z.seeds))]
	root := valueOf(parsed(in.Args))
	for range pick(d, 0, 1, 1, 1, 2, 3) {
		root = z.change(d, root, z.inputs[in.Tool])
	}
	in.Args = encode(nil, root)
	if d.one(64) {
		text := string(in.Args)
		in.Args = []byte(pick(d, text+"{}", text[:len(text)/2], "\ufeff"+text))
	}
	if d.one(6) {
		in.Session = pick(d, "", "helmtest", "helmtest/2", in.Session+"x", "helmtest\n")
	}
	if d.one(6) {
		in.Caller = z.caller(d, in.Caller)
	}
	if d.one(12) {
		in.Tool = pick(d, pick(d, z.tools...), strings.ToUpper(in.Tool), in.Tool+".x", "", in.Tool+" ")
	}
	return in
}

func (z *fuzzer) caller(d *draw, c helm.Caller) helm.Caller {
	switch d.n(6) {
	case 0:
		c = helm.Caller{}
	case 1:
		c.ID = pick(d, "", "helmtest", c.ID+"x", strings.ToUpper(c.ID), z.text(d))
	case 2:
		c.Tenant = pick(d, "", "helmtest", c.Tenant+"x", z.text(d))
	case 3:
		c.Roles = nil
	case 4:
		c.Roles = []string{z.text(d)}
	case 5:
		if len(c.Roles) > 0 {
			c.Roles = append(slices.Clone(c.Roles[:len(c.Roles)-1]), strings.ToUpper(c.Roles[len(c.Roles)-1]))
		}
	}
	return c
}

func (z *fuzzer) text(d *draw) string {
	if len(z.texts) == 0 {
		return "helmtest"
	}
	return z.texts[d.n(len(z.texts))]
}

// change changes a value, or one below it.
func (z *fuzzer) change(d *draw, v any, schema crypto.Value) any {
	switch x := v.(type) {
	case *object:
		if len(x.members) > 0 && !d.one(3) {
			m := &x.members[d.n(len(x.members))]
			m.value = z.change(d, m.value, schema.Get("properties").Get(m.key))
			return x
		}
		return z.changeObject(d, x, schema)
	case []any:
		if len(x) > 0 && !d.one(3) {
			i := d.n(len(x))
			x[i] = z.change(d, x[i], schema.Get("items"))
			return x
		}
		return z.changeList(d, x, schema)
	}
	if d.one(16) { // another type
		return pick[any](d, nil, true, "", "1", number("0"), []any{v}, new(object))
	}
	if list := schema.Get("enum"); list.Len() > 0 && d.one(2) {
		return valueOf(list.At(d.n(list.Len())))
	}
	switch x := v.(type) {
	case string:
		return z.changeText(d, x)
	case number:
		return z.changeNumber(d, x)
	case bool:
		return !x
	}
	return sample(schema, 0)
}

func (z *fuzzer) changeObject(d *draw, o *object, schema crypto.Value) any {
	properties := schema.Get("properties")
	var missing []string
	for it := properties.Iter(); it.Next(); {
		if !slices.ContainsFunc(o.members, func(m member) bool { return m.key == string(it.Key()) }) {
			missing = append(missing, string(it.Key()))
		}
	}
	if len(missing) > 0 && d.one(3) { // what the seed leaves out
		key := missing[d.n(len(missing))]
		value := sample(properties.Get(key), 0)
		o.members = append(o.members, member{key, z.change(d, value, properties.Get(key))})
		return o
	}
	if len(o.members) == 0 {
		o.members = append(o.members, member{"helmtest", pick[any](d, true, "a", number("1"))})
		return o
	}
	i := d.n(len(o.members))
	m := o.members[i]
	switch d.n(6) {
	case 0, 1:
		o.members = slices.Delete(slices.Clone(o.members), i, i+1)
	case 2: // the same key twice
		o.members = append(o.members, member{m.key, z.change(d, m.value, properties.Get(m.key))})
	case 3: // in another case
		key := pick(d, strings.ToUpper(m.key), titled(m.key), strings.ToLower(m.key), m.key+" ", m.key+"\u200b")
		o.members = append(o.members, member{key, z.change(d, m.value, properties.Get(m.key))})
	case 4:
		o.members = append(o.members, member{pick(d, "helmtest", "__proto__", "$ref", ""), m.value})
	case 5:
		deep := m.value
		for range pick(d, 1, 8, 70) {
			deep = &object{[]member{{m.key, deep}}}
		}
		o.members[i].value = deep
	}
	return o
}

func (z *fuzzer) changeList(d *draw, list []any, schema crypto.Value) any {
	switch d.n(4) {
	case 0:
		return []any{}
	case 1:
		if len(list) > 0 {
			return append(slices.Clone(list), list[d.n(len(list))])
		}
	case 2:
		return append(slices.Clone(list), z.change(d, sample(schema.Get("items"), 0), schema.Get("items")))
	case 3:
		if len(list) > 0 {
			long := slices.Clone(list)
			for range pick(d, 10, 100, 1000) {
				long = append(long, list[0])
			}
			return long
		}
	}
	return append(slices.Clone(list), z.text(d))
}

func titled(s string) string {
	for i, r := range s {
		if i == 0 {
			return string(unicode.ToUpper(r)) + s[len(string(r)):]
		}
	}
	return s
}

func (z *fuzzer) changeNumber(d *draw, x number) any {
	if len(z.numbers) > 0 && d.one(3) {
		x = number(z.numbers[d.n(len(z.numbers))])
	}
	f, err := strconv.ParseFloat(string(x), 64)
	if err != nil {
		return x
	}
	to := func(f float64) number { return number(strconv.FormatFloat(f, 'f', -1, 64)) }
	switch d.n(14) {
	case 0:
		return x
	case 1:
		return to(f + 1)
	case 2:
		return to(f - 1)
	case 3:
		return to(-f)
	case 4:
		return to(f * 10)
	case 5:
		return to(f + 0.01)
	case 6:
		return to(f - 0.01)
	case 7:
		return to(f - 0.001)
	case 8:
		return to(f / 3)
	case 9:
		return number(string(x) + "e1")
	case 10:
		return pick(d, number("0"), "-0", "1e-9", "5e-324")
	case 11:
		return pick(d, number("9007199254740991"), "9007199254740992", "9007199254740993", "-9007199254740993")
	case 12:
		return pick(d, number("1e308"), "1e309", "-1e308", "18446744073709551616")
	}
	return string(x)
}

// alike are letters that look like others.
var alike = strings.NewReplacer(
	"a", "\u0430", "e", "\u0435", "o", "\u043e", "p", "\u0440", "c", "\u0441", "i", "\u0456",
)

func (z *fuzzer) changeText(d *draw, s string) any {
	if d.one(4) {
		s = z.text(d)
	}
	if strings.Contains(s, "://") && !d.one(4) {
		return changeURL(d, s)
	}
	if strings.ContainsRune(s, '/') && !d.one(4) {
		return changePath(d, s)
	}
	if strings.ContainsRune(s, '.') && d.one(2) {
		return changeHost(d, s)
	}
	switch d.n(14) {
	case 0:
		return s
	case 1:
		return pick(d, "", " ", "\x00", "null", "*", "%")
	case 2:
		return pick(d, " "+s, s+" ", s+"\n", "\t"+s)
	case 3:
		return pick(d, strings.ToUpper(s), strings.ToLower(s), titled(s))
	case 4:
		return s + "\u200b"
	case 5:
		if r := []rune(s); len(r) > 1 {
			return string(r[:1]) + pick(d, "\u200b", "\u00ad", "\u202e") + string(r[1:])
		}
		return "\u200b" + s
	case 6:
		return alike.Replace(s)
	case 7:
		return pick(d, "x"+s, s+"x", "x"+s+"x")
	case 8:
		return pick(d, s+"; x", s+"\nx", "x\n"+s, "$("+s+")", s+"' or '1'='1")
	case 9:
		return pick(d, s+"\x00", s+"\x00.txt")
	case 10:
		if s != "" {
			return s[:len(s)-1]
		}
		return s
	case 11:
		if d.one(8) {
			return strings.Repeat("a", 1<<20)
		}
		return strings.Repeat(s+"a", 50)
	case 12:
		return s + z.text(d)
	}
	return pick(d, s+","+s, s+" "+s, "0"+s, "-"+s)
}

// changePath changes the form of a path, or its end.
func changePath(d *draw, s string) string {
	at := strings.LastIndexByte(s, '/')
	if d.one(2) {
		at = strings.IndexByte(s, '/')
	}
	before, after := s[:at], s[at+1:]
	switch d.n(16) {
	case 0:
		return before + "//" + after
	case 1:
		return before + "/./" + after
	case 2:
		return before + "/x/../" + after
	case 3:
		return s + "/../x"
	case 4:
		return s + "/../../../../etc/passwd"
	case 5:
		return before + "/%2e%2e/" + after
	case 6:
		return s + "/%2e%2e%2fx"
	case 7:
		return s + "\x00"
	case 8:
		return s + pick(d, "x", "-x", ".bak", "~")
	case 9:
		return s + "/x"
	case 10:
		return before + "\\" + after
	case 11:
		return strings.TrimPrefix(s, "/")
	case 12:
		return pick(d, "/", "", ".", "..", "/.", "/..")
	case 13:
		return strings.ToUpper(s)
	case 14:
		return before + "\u2215" + after
	}
	return "/" + s
}

// changeURL changes a part of a URL.
func changeURL(d *draw, s string) string {
	scheme, rest, _ := strings.Cut(s, "://")
	host, path, _ := strings.Cut(rest, "/")
	path = strings.TrimSuffix(path, "?")
	switch d.n(14) {
	case 0:
		return scheme + "://" + host + "@evil.example/" + path
	case 1:
		return scheme + "://user:pass@" + host + "/" + path
	case 2:
		return scheme + "://" + host + pick(d, ":8443", ":0", ":443", ":80") + "/" + path
	case 3:
		return scheme + "://" + host + "/" + path + pick(d, "/../x", "/..", "/./x", "/%2e%2e/x")
	case 4:
		return scheme + "://" + host + "/" + path + "?x=https://evil.example"
	case 5:
		return scheme + "://" + host + "/" + path + "#x"
	case 6:
		return pick(d, "http", "ftp", "file", "javascript", strings.ToUpper(scheme)) + "://" + rest
	case 7:
		return scheme + "://" + host + "/" + path + pick(d, "x", "/x", "x/")
	case 8:
		return scheme + "://" + strings.ToUpper(host) + "/" + path
	case 9:
		return scheme + ":\\\\" + rest
	case 10:
		return scheme + "://" + pick(d, "127.0.0.1", "0x7f.1", "[::1]", "2130706433", "169.254.169.254") + "/" + path
	case 11:
		return scheme + ":" + rest
	case 12:
		return " " + s
	}
	return scheme + "://" + changeHost(d, host) + "/" + path
}

// changeHost changes the name of a host, or of another thing with dots.
func changeHost(d *draw, s string) string {
	switch d.n(9) {
	case 0:
		return "evil" + s
	case 1:
		return "evil-" + s
	case 2:
		return s + ".evil.example"
	case 3:
		return "a." + s
	case 4:
		return s + "."
	case 5:
		return strings.ToUpper(s)
	case 6:
		return alike.Replace(s)
	case 7:
		return strings.Replace(s, ".", "x", 1)
	}
	return strings.Replace(s, ".", "..", 1)
}
