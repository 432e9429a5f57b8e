package program

import (
	"net/netip"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
)

// state of a slot. The zero slot is not resolved.
type state uint8

const (
	unresolved state = iota
	missing          // not there, or null
	malformed        // cannot be read in this way; what says why
	present
)

// A slot is a subject resolved: at most once a decision, or once an element.
type slot struct {
	state state
	kind  crypto.Kind
	query bool         // of a URL
	extra bool         // of a URL: it has a fragment
	value crypto.Value // AsElement, AsMembers
	text  []byte       // canonical text, content, location, host or address
	more  []byte       // domain
	num   float64
	ip    netip.Addr
	at    value.Moment
	what  string // of malformed
}

// values are the subjects of one call, resolved as they are asked for.
type values struct {
	call
	slots   []slot  // one for each subject of the tool
	touched []int32 // slots that are not zero
	items   []slot  // one for each inner subject
	buf     []byte  // text that had to be made
	itemBuf []byte  // the same, of the present element
}

// A call is what subjects are looked up in.
type call struct {
	args    crypto.Value
	caller  contracts.Caller
	element crypto.Value
	found   crypto.Value // of a fact that is being resolved
	tool    []Subject    // the subjects of the tool
	inner   []Subject    // those of the quantifier that is evaluated
}

// empty empties a buffer, and drops one that a rare call made large.
func empty(b *[]byte) {
	const kept = 64 << 10
	*b = (*b)[:0]
	if cap(*b) > kept {
		*b = nil
	}
}

// Speak replaces the caller that predicates look at.
func (v *values) Speak(caller contracts.Caller) {
	v.caller = caller
	for _, i := range v.touched {
		if from := v.tool[i].From; from == FromID || from == FromTenant {
			v.slots[i] = slot{}
		}
	}
}

// enter goes on to an element of the quantifier's array.
func (v *values) enter(element crypto.Value) {
	v.element, v.itemBuf = element, v.itemBuf[:0]
	clear(v.items)
}

// at returns a slot, resolved. Slots of elements have negative numbers.
func (v *values) at(i int32) *slot {
	if i < 0 {
		x := &v.items[^i]
		if x.state == unresolved {
			v.resolve(&v.inner[^i], x)
		}
		return x
	}
	x := &v.slots[i]
	if x.state == unresolved {
		v.touched = append(v.touched, i)
		v.resolve(&v.tool[i], x)
	}
	return x
}

// PointerOf returns the JSON Pointer of a slot's subject.
func (v *values) PointerOf(i int32) string {
	if i < 0 {
		return v.inner[^i].Pointer
	}
	return v.tool[i].Pointer
}

func (v *values) resolve(from *Subject, x *slot) {
	var found crypto.Value
	switch from.From {
	case FromArgs:
		found = value.Follow(v.args, from.Path)
	case FromElement:
		found = value.Follow(v.element, from.Path)
	case FromFact:
		found = v.found
	case FromID:
		v.word(v.caller.ID, from.As, x)
		return
	case FromTenant:
		v.word(v.caller.Tenant, from.As, x)
		return
	}
	if !found.Exists() {
		x.state = missing
		return
	}
	x.kind = found.Kind()
	switch from.As {
	case AsValue:
		x.state, x.text = present, found.Raw()
	case AsWhole:
		x.state, x.value, x.text = present, found, found.Raw()
	case AsElement:
		x.value = found
		x.is(found.Kind() == crypto.Array, "not an array")
	case AsMembers:
		x.value = found
		x.is(found.Kind() >= crypto.Array, "not an array or a map")
	case AsNumber:
		x.num = found.Float()
		x.is(found.Kind() == crypto.Number, "not a number")
	default:
		x.is(found.Kind() == crypto.String, "not a string")
		if x.state == present {
			buf := &v.buf
			if from.From == FromElement {
				buf = &v.itemBuf
			}
			x.read(from.As, found.Bytes(), buf)
		}
	}
}

// word resolves a word of the caller's: canonical text or content, as a JSON string would be.
func (v *values) word(w string, as Reading, x *slot) {
	if w == "" {
		x.state = missing
		return
	}
	from := len(v.buf)
	if as == AsValue {
		v.buf = crypto.AppendString(v.buf, w)
	} else {
		v.buf = append(v.buf, w...)
	}
	x.state, x.kind, x.text = present, crypto.String, v.buf[from:len(v.buf):len(v.buf)]
}

// hasRole looks through the roles, which are few. It does not rely on their order.
func (v *values) hasRole(role string) bool {
	for _, r := range v.caller.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// read reads the content of a string. Text that has to be made is appended to buf.
func (x *slot) read(as Reading, b []byte, buf *[]byte) {
	ok := true
	switch as {
	case AsText:
		x.text = b
	case AsPath:
		x.text = b
		x.is(value.IsPath(b), value.BadPath)
	case AsURL:
		var u value.Location
		u, *buf, ok = value.ReadURL(*buf, b)
		x.text, x.query, x.extra = u.Text, u.Query, u.Fragment
		x.is(ok, value.BadURL)
	case AsHost:
		x.text, *buf, ok = value.ReadHost(*buf, b)
		x.is(ok, value.BadHost)
	case AsEmail:
		x.text, x.more, *buf, ok = value.ReadEmail(*buf, b)
		x.is(ok, value.BadEmail)
	case AsIP:
		x.ip, ok = value.ReadIP(b)
		x.is(ok, value.BadIP)
	case AsMoment:
		x.at, ok = value.ReadMoment(b)
		x.is(ok, value.BadMoment)
	default:
		x.is(false, "not readable") // unreachable: resolve reads the others
	}
}

// is makes the slot present or, if the value is not ok, malformed.
func (x *slot) is(ok bool, what string) {
	if ok {
		x.state = present
		return
	}
	x.state, x.what = malformed, what
}
