package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/helmkernel/helm/faces/internal/rawjson"
)

// A call is one that an answer proposes, whole.
type call struct {
	id     string
	fixed  bool   // no other id can stand for it
	legacy bool   // a function_call of chat, which has no id
	kind   string // the type of its item, of responses
	tool   string
	server string // of an mcp_approval_request: the label under which the request named it
	args   []byte // as the model wrote them
}

// A ruling is what the kernel says of a call. Only an allowed one is shown, with the arguments that
// were judged. Of a denied one the refusal is told.
type ruling struct {
	allowed bool
	id      string // the call's own, or another if that could not stand
	args    []byte // canonical
	refusal string
	member  []byte // what the answer says of it, in the member helm
}

// A judge says whether a call may be released. A released call has a durable permission.
type judge func(ctx context.Context, c call) ruling

// A watch hears what an answer says besides calls. Each of its functions may be nil.
type watch struct {
	began func(id string)                  // the id under which the provider keeps the answer
	ran   func(tool string, raw []byte)    // a part of what the provider ran, in the order of the answer
	alone func(id string)                  // a reasoning item whose calls were all denied
	done  func(request string, raw []byte) // what the provider ran with the app's consent
	said  func(id, text string)            // a message of HELM's own
}

// say tells the quoted id and the text of a message of HELM's own.
func (w *watch) say(id []byte, text string) {
	if w.said != nil {
		w.said(strings.Trim(string(id), `"`), text)
	}
}

func (w *watch) begin(id string) {
	if w.began != nil && id != "" {
		w.began(id)
	}
}

func (w *watch) run(tool string, raw []byte) {
	if w.ran != nil {
		w.ran(tool, raw)
	}
}

// thought has items of a response in turn, and finds the reasoning that led to denied calls alone:
// the API refuses a reasoning item that nothing follows.
type thought struct {
	id             string
	denied, others bool
}

// next takes the type and the id of an item. The empty type is the end.
func (t *thought) next(w *watch, kind, id string, denied bool) {
	if kind == "reasoning" || kind == "" {
		if t.id != "" && t.denied && !t.others && w.alone != nil {
			w.alone(t.id)
		}
		*t = thought{id: id}
		return
	}
	t.denied = t.denied || denied
	t.others = t.others || !denied
}

// Errors of answers.
var (
	errCall     = errors.New("a call in an answer that is not whole, or there in two ways")
	errOrder    = errors.New("an answer that goes on after its end, or ends before it")
	errHosted   = errors.New("an answer with something that the provider ran and was not permitted")
	errUpstream = errors.New("the provider ended the answer with an error")
)

// maxCalls is how many calls an answer may have.
const maxCalls = 128

// isID reports whether a call's id can be passed on as it is.
func isID(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_.:-", r))
	}) < 0
}

// newID returns an id for a call whose own cannot stand.
func newID() string { return "call_" + strings.ToLower(rand.Text()) }

// quote returns a string as JSON, in which no markup begins.
func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`) // a string has a form
	}
	return b
}

// integer returns the value of a number without sign, fraction or exponent.
func integer(v rawjson.Value) (n int, ok bool) {
	b := v.Raw()
	if v.Kind() != rawjson.Number || len(b) > 9 {
		return 0, false
	}
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int(d-'0')
	}
	return n, true
}

// helmMember returns the member helm of an answer.
func helmMember(session string, rulings []ruling) []byte {
	var b []byte
	b = append(b, `"helm":{"session":`...)
	b = append(append(b, quote(session)...), `,"calls":[`...)
	for i, r := range rulings {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, r.member...)
	}
	return append(b, "]}"...)
}
