package guardian

import (
	"net/netip"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/value"
	"github.com/helmkernel/helm/guardian/past"
)

// A source says where a subject is looked up.
type source uint8

const (
	fromArgs    source = iota // below the arguments
	fromElement               // below the element that a quantifier has come to
	fromID                    // the caller's id
	fromTenant                // the caller's tenant
)

// A reading is what an operator needs to know of a value.
type reading uint8

const (
	asValue   reading = iota // its type and canonical text
	asNumber                 // a double
	asText                   // the content of a string
	asPath                   // an absolute path
	asURL                    // a location
	asHost                   // a host
	asEmail                  // an address and its domain
	asIP                     // an IP address
	asMoment                 // a time
	asElement                // an array, to walk through
)

// A subject is one value read in one way. All predicates of a tool that look at the same subject share a slot.
type subject struct {
	from    source
	as      reading
	path    []string // decoded segments
	pointer string   // for Why
}

// A subjectKey tells subjects apart.
type subjectKey struct {
	from    source
	as      reading
	pointer string
}

func (s *subject) key() subjectKey { return subjectKey{s.from, s.as, s.pointer} }

// state of a slot. The zero slot is not resolved.
type state uint8

const (
	unresolved state = iota
	missing          // not there, or null
	malformed        // cannot be read in this way; what says how
	present
)

// A slot is a subject resolved: at most once a decision, or once an element.
type slot struct {
	state state
	kind  crypto.Kind
	query bool         // of a URL
	extra bool         // of a URL: it has a fragment
	value crypto.Value // asElement
	text  []byte       // canonical text, content, location, host or address
	more  []byte       // domain
	num   float64
	ip    netip.Addr
	at    value.Moment
	what  string // of malformed
}

// A scratch is the memory of one judgement. It is used again, so [scratch.forget] must leave nothing behind; after a panic it is dropped.
type scratch struct {
	matter
	slots   []slot  // one for each subject of the tool
	touched []int32 // slots that are not zero
	items   []slot  // one for each inner subject
	buf     []byte  // text that had to be made
	itemBuf []byte  // the same, of the present element
	applied []applied
	rooms
}

// What is looked at in one judgement, and what it came to.
type matter struct {
	args     crypto.Value
	caller   contracts.Caller
	past     past.Past // that is asked; nil: what there is of it is in the inputs
	time     contracts.Time
	subjects []subject // of the tool
	element  crypto.Value
	inner    []subject // of the quantifier being judged
	visits   int
	asked    int    // bytes that were asked for of receipts
	pointer  string // where the first error arose
	what     string
	behind   []contracts.Delegation // grants that the call is made under, if they open
	session  string
	calls    []contracts.CallCount    // of the past, that the inputs have or were read
	receipts []contracts.PriorReceipt // likewise
	words    []word                   // attestations that were presented, and open; nil: not looked at
	consumed []contracts.Digest       // approvals that were presented, and are used
}

// What records and inputs to come are cut from: an allocation for several costs less than one each. What is cut is whoever's it was given to.
type rooms struct {
	charges  []contracts.Charge
	balances []contracts.Balance
}

const keptBuffer = 64 << 10

func (s *scratch) begin(t *tool, in *contracts.Inputs, state *contracts.SessionState) {
	s.args, s.caller, s.time, s.subjects = in.Args, in.Caller, in.Time, t.subjects
	s.session, s.calls, s.receipts = in.Session, state.Calls, state.Receipts
	if n := len(t.subjects); len(s.slots) < n {
		s.slots = make([]slot, n)
	}
}

func (s *scratch) forget() {
	for _, i := range s.touched {
		s.slots[i] = slot{}
	}
	clear(s.items)
	s.matter, s.touched, s.items, s.applied, s.buf, s.itemBuf = matter{}, s.touched[:0], s.items[:0], s.applied[:0], small(s.buf), small(s.itemBuf)
}

// small empties a buffer, and drops one that a rare call made large.
func small(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// enter makes ready for the element of a quantifier.
func (s *scratch) enter(element crypto.Value) {
	s.element, s.itemBuf = element, s.itemBuf[:0]
	clear(s.items)
}

// at gives a slot, resolved. Slots of elements have negative numbers.
func (s *scratch) at(i int32) *slot {
	if i < 0 {
		x := &s.items[^i]
		if x.state == unresolved {
			s.resolve(&s.inner[^i], x)
		}
		return x
	}
	x := &s.slots[i]
	if x.state == unresolved {
		s.touched = append(s.touched, i)
		s.resolve(&s.subjects[i], x)
	}
	return x
}

func (s *scratch) pointerOf(i int32) string {
	if i < 0 {
		return s.inner[^i].pointer
	}
	return s.subjects[i].pointer
}

func (s *scratch) resolve(from *subject, x *slot) {
	var v crypto.Value
	switch from.from {
	case fromArgs:
		v = value.Follow(s.args, from.path)
	case fromElement:
		v = value.Follow(s.element, from.path)
	case fromID:
		s.word(s.caller.ID, from.as, x)
		return
	case fromTenant:
		s.word(s.caller.Tenant, from.as, x)
		return
	}
	if !v.Exists() {
		x.state = missing
		return
	}
	x.kind = v.Kind()
	switch from.as {
	case asValue:
		x.state, x.text = present, v.Raw()
	case asElement:
		x.value = v
		x.is(v.Kind() == crypto.Array, "not an array")
	case asNumber:
		x.num = v.Float()
		x.is(v.Kind() == crypto.Number, "not a number")
	default:
		if x.is(v.Kind() == crypto.String, "not a string"); x.state == present {
			buf := &s.buf
			if from.from == fromElement {
				buf = &s.itemBuf
			}
			x.read(from.as, v.Bytes(), buf)
		}
	}
}

// word is a word of the caller's: canonical text or content, as a string of JSON would be.
func (s *scratch) word(w string, as reading, x *slot) {
	if w == "" {
		x.state = missing
		return
	}
	from := len(s.buf)
	if as == asValue {
		s.buf = crypto.AppendString(s.buf, w)
	} else {
		s.buf = append(s.buf, w...)
	}
	x.state, x.kind, x.text = present, crypto.String, s.buf[from:len(s.buf):len(s.buf)]
}

// read reads the content of a string. Text that has to be made is appended to buf.
func (x *slot) read(as reading, b []byte, buf *[]byte) {
	ok := true
	switch as {
	case asText:
		x.text = b
	case asPath:
		x.text = b
		x.is(value.IsPath(b), value.BadPath)
	case asURL:
		var u value.Location
		u, *buf, ok = value.ReadURL(*buf, b)
		x.text, x.query, x.extra = u.Text, u.Query, u.Fragment
		x.is(ok, value.BadURL)
	case asHost:
		x.text, *buf, ok = value.ReadHost(*buf, b)
		x.is(ok, value.BadHost)
	case asEmail:
		x.text, x.more, *buf, ok = value.ReadEmail(*buf, b)
		x.is(ok, value.BadEmail)
	case asIP:
		x.ip, ok = value.ReadIP(b)
		x.is(ok, value.BadIP)
	case asMoment:
		x.at, ok = value.ReadMoment(b)
		x.is(ok, value.BadMoment)
	default:
		x.is(false, "not readable") // cannot be: resolve reads the others
	}
}

func (x *slot) is(ok bool, what string) {
	if x.state = present; !ok {
		x.state, x.what = malformed, what
	}
}

// hasRole looks through the roles, of which there are few: that they are sorted is not relied on.
func (s *scratch) hasRole(role []byte) bool {
	for _, r := range s.caller.Roles {
		if r == string(role) {
			return true
		}
	}
	return false
}
