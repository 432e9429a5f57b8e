package past

import (
	"errors"
	"slices"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/source"
)

// Facts are those of an EXECUTED receipt. The zero Facts are those of a receipt that has none.
type Facts struct {
	Digest   *contracts.Digest // of the facts document
	Document []byte            // nil: not at hand, and read when it is needed; must not be modified
}

const (
	// maxHeld is about how many bytes of documents a session holds that could be read back, so that
	// a question about a late receipt reads nothing.
	maxHeld = 64 << 10

	// heldSize is about what holding a document takes apart from its bytes.
	heldSize = 128

	messageSize  = 48  // a message, apart from its text
	documentSize = 36  // a document that is not held
	viewSize     = 512 // a view, apart from its facts

	// maxViews is how many declarations of a tool's facts a session indexes them by at a time. The
	// calls of a session have more than one only if a Swap is between them.
	maxViews = 4
)

var (
	errNotSource = errors.New("guardian: session: the policy does not declare it as a source")
	errOther     = errors.New("guardian: session: not the bytes that the log names")
	errNoText    = errors.New("guardian: session: not the text of a message")
	errNoReceipt = errors.New("guardian: session: no such receipt")
)

// sources are what a session knows of its sources, but for the documents of each tool.
type sources struct {
	state    contracts.Digest // of messages
	messages []message
	added    int // messages that are in words
	words    source.Words
	held     []heldDocument // in log order
	size     int            // of held
	stored   uint64         // receipts up to that index
}

// A message is one of the user's.
type message struct {
	digest contracts.Digest
	text   string // "": not at hand, or among the words already
}

// A heldDocument is one that can be read without a store.
type heldDocument struct {
	digest  contracts.Digest
	receipt uint64
	bytes   []byte
}

// documents are the facts documents of one tool.
type documents struct {
	state contracts.Digest
	all   []document // in log order
	views []*view    // the one that was asked last first
}

type document struct {
	run    int32
	digest contracts.Digest
}

// A view is what the first documents of a tool are by one declaration.
type view struct {
	declared *Declaration
	added    int // documents that are in facts
	facts    *source.Facts
}

func (s *Session) said() *sources {
	if s.sources == nil {
		s.sources = new(sources)
	}
	return s.sources
}

// follow returns the digest that folds one more.
func follow(state, next contracts.Digest) contracts.Digest {
	var b [2 * len(state)]byte
	copy(b[:], state[:])
	copy(b[len(state):], next[:])
	return crypto.Sum(b[:])
}

// Message folds a message of the user. words are the text with that digest. If they are "",
// [Session.Source] reads them when it needs them.
func (s *Session) Message(text contracts.Digest, words string) {
	x := s.said()
	x.state = follow(x.state, text)
	if !contracts.IsMessage(words) {
		words = ""
	}
	x.messages = append(x.messages, message{text, words})
	if words != "" && x.added == len(x.messages)-1 {
		x.add([]byte(words))
	}
}

// add adds the next message to the words.
func (x *sources) add(text []byte) {
	x.words.Add(text)
	x.messages[x.added].text = ""
	x.added++
}

// Said returns the length of the messages so far. It is the whole allowance if one of them was over
// it. It calls read for the blobs of messages that the session does not know.
func (s *Session) Said(read func(contracts.Digest) ([]byte, error)) (int, error) {
	x := s.sources
	if x == nil {
		return 0, nil
	}
	if err := x.read(read); err != nil {
		return 0, err
	}
	if x.words.Full() {
		return contracts.MaxMessage, nil
	}
	return x.words.Bytes(), nil
}

// read adds the messages that are not among the words, as long as more can be a source.
func (x *sources) read(read func(contracts.Digest) ([]byte, error)) error {
	for x.added < len(x.messages) && !x.words.Full() {
		m := &x.messages[x.added]
		text := []byte(m.text)
		if m.text == "" {
			var err error
			text, err = blob(m.digest, read)
			if err != nil {
				return err
			}
			if !contracts.IsMessage(string(text)) {
				return errNoText
			}
		}
		x.add(text)
	}
	return nil
}

// blob reads the blob with that digest.
func blob(digest contracts.Digest, read func(contracts.Digest) ([]byte, error)) ([]byte, error) {
	b, err := read(digest)
	if err == nil && crypto.Sum(b) != digest {
		err = errOther
	}
	return b, err
}

// hold notes the facts of the latest run.
func (s *Session) hold(h *history, facts Facts) {
	if facts.Digest == nil {
		return
	}
	if h.documents == nil {
		h.documents = new(documents)
	}
	d, at := h.documents, int32(len(h.runs)-1)
	d.state = follow(d.state, *facts.Digest)
	d.all = append(d.all, document{at, *facts.Digest})
	if facts.Document == nil {
		return
	}
	x := s.said()
	x.held = append(x.held, heldDocument{*facts.Digest, h.runs[at].receipt, facts.Document})
	x.size += len(facts.Document) + heldSize
	x.drop()
	d.follow(facts.Document)
}

// drop drops documents that can be read back, the first ones first.
func (x *sources) drop() {
	n := 0
	for n < len(x.held) && x.size > maxHeld && x.held[n].receipt <= x.stored {
		x.size -= len(x.held[n].bytes) + heldSize
		n++
	}
	x.held = slices.Delete(x.held, 0, n)
}

// follow adds the latest document to the views that have all others.
func (d *documents) follow(b []byte) {
	var v crypto.Value
	for _, x := range d.views {
		if x.added < len(d.all)-1 || x.facts.Full() {
			continue
		}
		if v.Kind() == crypto.Missing {
			var err error
			v, err = contracts.ParseFacts(b)
			if err != nil {
				return // the question that reads it says so
			}
		}
		x.facts.Add(v)
		x.added++
	}
}

// Stored notes that the entries up to that index, with their blobs, can be read from the store. The
// session need not hold them for that any more.
func (s *Session) Stored(index uint64) {
	if s.sources != nil {
		s.sources.stored = max(s.sources.stored, index)
		s.sources.drop()
	}
}

// Held returns about how many bytes the session holds of what a tool said or, with "", of messages
// and of documents that are held for reading back.
func (s *Session) Held(tool string) int {
	if tool == "" {
		x := s.sources
		if x == nil {
			return 0
		}
		size := x.size + x.words.Size()
		for i := range x.messages {
			size += messageSize + len(x.messages[i].text)
		}
		return size
	}
	h := s.tools[tool]
	if h == nil || h.documents == nil {
		return 0
	}
	size := documentSize * cap(h.documents.all)
	for _, x := range h.documents.views {
		size += viewSize + x.facts.Size()
	}
	return size
}

// WatchFacts has the session index the tool's facts by that declaration from now on, so that
// [Session.Source] need not read those again. A nil declaration is of a tool whose facts no
// predicate asks for as sources.
func (s *Session) WatchFacts(tool string, declared *Declaration) {
	if declared == nil {
		return
	}
	h := s.of(tool)
	if h.documents == nil {
		h.documents = new(documents)
	}
	h.documents.view(declared)
}

// view returns the view by a declaration, and adds it if there is none.
func (d *documents) view(declared *Declaration) *view {
	at := slices.IndexFunc(d.views, func(x *view) bool { return x.declared == declared })
	if at < 0 {
		at = slices.IndexFunc(d.views, func(x *view) bool { return slices.Equal(x.declared.facts, declared.facts) })
	}
	if at < 0 {
		x := &view{declared: declared, facts: source.NewFacts(declared.facts)}
		d.views = slices.Insert(d.views[:min(len(d.views), maxViews-1)], 0, x)
		return x
	}
	x := d.views[at]
	x.declared = declared
	copy(d.views[1:at+1], d.views[:at])
	d.views[0] = x
	return x
}

// Source answers as [Past] says. It calls read for the blobs that the session does not know: the
// texts of messages, or the facts documents of the tool, in log order, as long as more can be a
// source. If one cannot be read the answer is an error, with Count and State. What the session once
// knew it knows as long as it is there. The values of the Supply are valid until the next entry is
// folded.
func (s *Session) Source(q Source, read func(contracts.Digest) ([]byte, error)) (Supply, error) {
	if q.Tool == "" {
		return s.user(read)
	}
	if q.Declared == nil || !slices.ContainsFunc(q.Declared.facts, func(f source.Fact) bool {
		return f.Key == q.Fact && f.Vouches
	}) {
		return Supply{}, errNotSource
	}
	h := s.tools[q.Tool]
	if h == nil || h.documents == nil {
		return Supply{}, nil
	}
	d := h.documents
	x := d.view(q.Declared)
	supply := Supply{Count: uint64(len(d.all)), State: d.state}
	for x.added < len(d.all) && !x.facts.Full() {
		v, err := s.document(d.all[x.added].digest, read)
		if err != nil {
			return supply, err
		}
		x.facts.Add(v)
		x.added++
	}
	supply.Full = x.facts.Full()
	supply.Values, supply.Bytes, _ = x.facts.Of(q.Fact)
	return supply, nil
}

// user is the source of the user's words.
func (s *Session) user(read func(contracts.Digest) ([]byte, error)) (Supply, error) {
	x := s.sources
	if x == nil {
		return Supply{}, nil
	}
	supply := Supply{Count: uint64(len(x.messages)), State: x.state}
	if err := x.read(read); err != nil {
		return supply, err
	}
	supply.Full, supply.Bytes, supply.Values = x.words.Full(), x.words.Bytes(), &x.words
	return supply, nil
}

// document returns a facts document.
func (s *Session) document(digest contracts.Digest, read func(contracts.Digest) ([]byte, error)) (crypto.Value, error) {
	var b []byte
	if s.sources != nil {
		for i := len(s.sources.held) - 1; i >= 0 && b == nil; i-- {
			if x := &s.sources.held[i]; x.digest == digest {
				b = x.bytes
			}
		}
	}
	if b == nil {
		var err error
		b, err = blob(digest, read)
		if err != nil {
			return crypto.Value{}, err
		}
	}
	return contracts.ParseFacts(b)
}

// Facts answers as [Past] says. It calls read for a document that the session does not hold.
func (s *Session) Facts(
	r *contracts.PriorReceipt, read func(contracts.Digest) ([]byte, error),
) (crypto.Value, error) {
	h := s.tools[r.Tool]
	if h == nil || r.Entry == nil {
		return crypto.Value{}, errNoReceipt
	}
	at := h.at(*r.Entry, r.Time)
	if at < 0 {
		return crypto.Value{}, errNoReceipt
	}
	if h.documents == nil {
		return crypto.Value{}, nil
	}
	all := h.documents.all
	i, ok := slices.BinarySearchFunc(all, at, func(d document, run int32) int { return int(d.run - run) })
	if !ok {
		return crypto.Value{}, nil
	}
	return s.document(all[i].digest, read)
}
