package contracts

import (
	"strconv"
	"unicode/utf8"

	"github.com/helmkernel/helm/crypto"
)

// The kinds of fields that records have. Each method writes the field, or reads it and refuses a
// value that is not of its form.

func (f *form) text(name string, p presence, s *string, w word) {
	if !f.reading {
		if p == required || *s != "" {
			f.name(name)
			f.written(name, *s)
		}
		return
	}
	if f.scan != nil {
		if f.scanned(name, p) {
			if *s = f.scan.names.of(f.scan.text()); !w.ok(*s) {
				f.scan.failed = true
			}
		}
		return
	}
	if v, ok := f.take(name, p); ok {
		f.textOf(name, v, s, w)
	}
}

func (f *form) written(name, s string) {
	if f.exact && !utf8.ValidString(s) {
		f.fail(name, "not UTF-8")
	}
	f.b = crypto.AppendString(f.b, s)
}

func (f *form) textOf(name string, v crypto.Value, s *string, w word) {
	*s = v.Text()
	if v.Kind() != crypto.String || !w.ok(*s) {
		f.fail(name, "not "+w.what)
	}
}

func (f *form) uint(name string, p presence, n *uint64, low, high uint64) {
	if !f.reading {
		if p == required || *n != 0 {
			f.name(name)
			f.b = strconv.AppendUint(f.b, *n, 10)
		}
		return
	}
	if f.scan != nil {
		if f.scanned(name, p) {
			if *n = f.scan.uint(); *n < low || *n > high {
				f.scan.failed = true
			}
		}
		return
	}
	if v, ok := f.take(name, p); ok {
		*n, ok = v.Uint()
		if !ok || *n < low || *n > high {
			f.fail(name, "not an integer from "+strconv.FormatUint(low, 10)+" to "+strconv.FormatUint(high, 10))
		}
	}
}

func (f *form) count(name string, n *uint64) { f.uint(name, required, n, 0, crypto.MaxInt) }

func (f *form) flag(name string, on *bool) {
	if !f.reading {
		f.name(name)
		f.b = strconv.AppendBool(f.b, *on)
		return
	}
	if v, ok := f.take(name, required); ok {
		*on = v.Bool()
		if v.Kind() != crypto.Bool {
			f.fail(name, "not a boolean")
		}
	}
}

func (f *form) digest(name string, d *Digest) {
	if !f.reading {
		f.name(name)
		f.digestValue(*d)
		return
	}
	if f.scan != nil {
		if f.scanned(name, required) {
			*d = f.scan.digest()
		}
		return
	}
	if v, ok := f.take(name, required); ok {
		f.digestOf(name, v, d)
	}
}

// signer visits the signer's key in a presented statement. The digest in the subject does not cover
// it.
func (f *form) signer(id *Digest) {
	if !f.bare {
		f.digest("key", id)
	}
}

func (f *form) digestValue(d Digest) {
	f.b = append(f.b, '"')
	f.b, _ = d.AppendText(f.b)
	f.b = append(f.b, '"')
}

func (f *form) digestOf(name string, v crypto.Value, d *Digest) {
	read, err := crypto.ParseDigest(v.Bytes())
	if v.Kind() != crypto.String || err != nil {
		f.fail(name, "not 64 lower-case hex digits")
	}
	*d = read
}

// maybe visits a digest that may be absent.
func (f *form) maybe(name string, d **Digest) {
	if !f.reading {
		if *d != nil {
			f.digest(name, *d)
		}
		return
	}
	if f.scan != nil {
		if f.scanned(name, optional) {
			*d = new(Digest)
			**d = f.scan.digest()
		}
		return
	}
	if v, ok := f.take(name, optional); ok {
		*d = new(Digest)
		f.digestOf(name, v, *d)
	}
}

func (f *form) time(name string, p presence, t *Time) {
	if !f.reading {
		if p == required || *t != 0 {
			f.name(name)
			if f.exact && (*t < 0 || *t > maxTime) {
				f.fail(name, "not in the years 1970 to 9999")
			}
			f.b = append(f.b, '"')
			f.b = append(t.append(f.b), '"')
		}
		return
	}
	if f.scan != nil {
		if f.scanned(name, p) {
			read, err := ParseTime(string(f.scan.text()))
			if *t = read; err != nil || p == optional && read == 0 {
				f.scan.failed = true
			}
		}
		return
	}
	if v, ok := f.take(name, p); ok {
		read, err := ParseTime(v.Text())
		switch {
		case v.Kind() != crypto.String || err != nil:
			f.fail(name, "not a time")
		case p == optional && read == 0:
			f.fail(name, "the first moment of 1970, which stands for none")
		}
		*t = read
	}
}

func (f *form) verdict(v *Verdict) {
	if !f.reading {
		f.name("verdict")
		f.b = crypto.AppendString(f.b, v.String())
		return
	}
	if x, ok := f.take("verdict", required); ok {
		if v.UnmarshalText(x.Bytes()) != nil {
			f.fail("verdict", "neither ALLOW nor DENY")
		}
	}
}

// value visits a member of any content. A Value that was read is valid as long as its tree.
func (f *form) value(name string, p presence, v *crypto.Value, kind crypto.Kind) {
	if !f.reading {
		if v.Kind() != crypto.Missing {
			f.name(name)
			f.b = v.Append(f.b)
		}
		return
	}
	x, ok := f.take(name, p)
	if ok && kind != crypto.Missing && x.Kind() != kind {
		f.fail(name, "not of type "+kind.String())
	}
	*v = x
}

// base64 visits n bytes, or any number if n is 0. It reads into the memory of *b, if there is any.
func (f *form) base64(name string, b *[]byte, n int) {
	if !f.reading {
		f.name(name)
		f.b = append(f.b, '"')
		f.b = append(crypto.AppendBase64(f.b, *b), '"')
		return
	}
	if v, ok := f.take(name, required); ok {
		read, err := crypto.DecodeBase64((*b)[:0], v.Bytes())
		if v.Kind() != crypto.String || err != nil || n > 0 && len(read) != n {
			f.fail(name, "not base64 of the right length")
		}
		*b = read
	}
}
