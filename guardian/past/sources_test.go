package past

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

var errErased = errors.New("erased")

// heard is a session with a store of what was said in it.
type heard struct {
	t testing.TB
	*Session
	blobs map[contracts.Digest][]byte
	read  []string // what was read from the store
	size  int      // receipts so far
}

func newHeard(t testing.TB) *heard {
	return &heard{t: t, Session: new(Session), blobs: map[contracts.Digest][]byte{}}
}

func (h *heard) blob(d contracts.Digest) ([]byte, error) {
	b, ok := h.blobs[d]
	if !ok {
		return nil, errErased
	}
	h.read = append(h.read, string(b))
	return b, nil
}

// message folds a message, and has the store keep it. If it is not given, only its digest is known.
func (h *heard) message(text string, given bool) contracts.Digest {
	d := crypto.Sum([]byte(text))
	h.blobs[d] = []byte(text)
	if given {
		h.Message(d, text)
	} else {
		h.Message(d, "")
	}
	return d
}

// executed folds a receipt with a facts document.
func (h *heard) executed(tool, document string, given bool) contracts.PriorReceipt {
	h.size++
	r := runAt(tool, h.size)
	facts := Facts{}
	if document != "" {
		b := valueOf(h.t, document).Append(nil)
		d := crypto.Sum(b)
		h.blobs[d] = b
		facts.Digest = &d
		if given {
			facts.Document = b
		}
	}
	h.Execute(r, crypto.Value{}, facts)
	return contracts.PriorReceipt{Entry: &r.Entry, Time: r.Time, Tool: tool}
}

// ask returns what a source supplied.
func (h *heard) ask(q Source) Supply {
	h.t.Helper()
	s, err := h.Source(q, h.blob)
	require.NoError(h.t, err)
	return s
}

func (h *heard) has(q Source, value string) bool {
	h.t.Helper()
	s := h.ask(q)
	return s.Has(valueOf(h.t, value))
}

// fold is the digest of sources as the rules have it.
func fold(said ...contracts.Digest) contracts.Digest {
	var state contracts.Digest
	for _, d := range said {
		state = crypto.Sum(append(slices.Clone(state[:]), d[:]...))
	}
	return state
}

var (
	user     = Source{}
	declared = NewDeclaration([]Fact{{Key: "/*/to", Vouches: true}, {Key: "/*/note", Text: true},
		{Key: "/subject", Text: true, Vouches: true}})
	payee      = Source{Tool: "list", Fact: "/*/to", Declared: declared}
	theSubject = Source{Tool: "list", Fact: "/subject", Declared: declared}
)

// The user's words are known as they come, each by itself, and folded with all that are no source.
func TestSessionMessages(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	s := h.ask(user)
	assert.True(t, s == Supply{} && !h.has(user, `"alice"`), "nobody said anything: %+v", s)
	a := h.message("pay ali", true)
	b := h.message("ce@x.io, now", true)
	s = h.ask(user)
	assert.True(t, s.Count == 2 && s.State == fold(a, b) && s.Bytes == 19 && !s.Full, "%+v", s)
	assert.True(t, h.has(user, `"ce@x.io"`) && !h.has(user, `"alice@x.io"`), "a value over two messages")
	clear(h.blobs)
	assert.True(t, h.has(user, `"ce@x.io"`), "what is known is not asked of the store")
	assert.Empty(t, h.read)
	n, err := h.Said(h.blob)
	assert.True(t, err == nil && n == 19, "%d said, %v", n, err)
	assert.False(t, newHeard(t).has(user, `"ce@x.io"`), "in another session")
}

// The message that is over the allowance, and every later one, is no source. All are counted.
func TestSessionMessagesFull(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{true, false} {
		h := newHeard(t)
		said := []contracts.Digest{h.message("alice, and "+strings.Repeat("x", contracts.MaxMessage-16), given)}
		said = append(said, h.message("5 may", given))
		n, err := h.Said(h.blob)
		s := h.ask(user)
		assert.True(t, err == nil && n == contracts.MaxMessage && !s.Full && s.Bytes == n, "262,144 bytes: %d, %+v", n, s.Full)
		said = append(said, h.message("y", given), h.message("bobby", given))
		s = h.ask(user)
		assert.True(t, s.Full && s.Count == 4 && s.State == fold(said...) && s.Bytes == n, "262,145 bytes: %+v", s)
		assert.True(t, h.has(user, `"alice"`) && h.has(user, `"5 may"`) && !h.has(user, `"bobby"`))
		n, err = h.Said(h.blob)
		assert.True(t, err == nil && n == contracts.MaxMessage, "nothing more may be said: %d, %v", n, err)

		h = newHeard(t)
		h.message("alice", given)
		h.message(strings.Repeat("x", contracts.MaxMessage), given)
		h.message("bobby", given)
		n, _ = h.Said(h.blob)
		assert.True(t, h.ask(user).Full && n == contracts.MaxMessage && h.has(user, `"alice"`) && !h.has(user, `"bobby"`),
			"later ones would fit: %d", n)
	}
}

// After a restart the texts are read at the first question. One that cannot be read makes the
// source an error as long as that lasts, and what was read before need not be read again.
func TestSessionMessagesRead(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	a := h.message("pay alice", false)
	b := h.message("and bobby", false)
	c := h.message("or carol", true) // after the restart
	assert.Empty(t, h.read, "read though nobody asked")
	text := h.blobs[b]
	for name, bad := range map[string][]byte{"erased": nil, "other bytes": []byte("and b0bby"), "empty": {}} {
		delete(h.blobs, b)
		if bad != nil {
			h.blobs[b] = bad
		}
		s, err := h.Source(user, h.blob)
		require.Error(t, err, name)
		assert.True(t, s.Count == 3 && s.State == fold(a, b, c) && s.Values == nil && !s.Has(valueOf(t, `"alice"`)),
			"%s: %+v", name, s)
		_, err = h.Said(h.blob)
		require.Error(t, err, name)
	}
	_, err := h.Source(user, func(contracts.Digest) ([]byte, error) { return nil, errErased })
	require.ErrorIs(t, err, errErased)
	h.blobs[b], h.read = text, nil
	assert.True(t, h.has(user, `"alice"`) && h.has(user, `"bobby"`) && h.has(user, `"carol"`))
	assert.Equal(t, []string{"and bobby"}, h.read, "the first was read before, and the third was given")
	clear(h.blobs)
	assert.True(t, h.has(user, `"alice"`) && h.has(user, `"bobby"`), "what was read is known")

	for _, bad := range []string{"", "\xff\xfe", strings.Repeat("x", contracts.MaxMessage+1)} {
		h = newHeard(t)
		h.message(bad, true)
		_, err := h.Source(user, h.blob)
		assert.Error(t, err, "a text of %d bytes that is none", len(bad))
	}
	h = newHeard(t)
	h.message(strings.Repeat("x", contracts.MaxMessage), false)
	h.message("y", false)
	h.message("erased", false)
	delete(h.blobs, crypto.Sum([]byte("erased")))
	assert.True(t, h.ask(user).Full, "what is after the allowance is no source, and need not be there")
}

// Facts are of one tool, by their pointers. Documents are folded with those that say nothing.
func TestSessionFacts(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{true, false} {
		h := newHeard(t)
		assert.Equal(t, Supply{}, h.ask(payee), "no tool ran")
		h.executed("list", "", given) // before it declared facts
		assert.Equal(t, Supply{}, h.ask(payee), "nothing is declared")
		docs := []string{`{"/*/note":["pay eve@x.io"],"/*/to":["GB29",7],"/subject":["of bob@x.io"],"count:":[2]}`, `{}`,
			`{"/*/to":null,"/subject":null}`}
		var said []contracts.Digest
		for _, d := range docs {
			h.executed("list", d, given)
			said = append(said, crypto.Sum([]byte(d)))
		}
		h.executed("other", `{"/*/to":["SE35"]}`, given)
		h.message("DE12", given)
		s := h.ask(payee)
		assert.True(t, s.Count == 3 && s.State == fold(said...) && s.Bytes == 0 && !s.Full, "%+v", s)
		s = h.ask(theSubject)
		assert.True(t, s.Count == 3 && s.State == fold(said...) && s.Bytes == len("of bob@x.io"), "%+v", s)
		for _, c := range []struct {
			q     Source
			value string
			want  bool
		}{
			{payee, `"GB29"`, true}, {payee, `"gb29"`, false}, {payee, `7`, true}, {payee, `"7"`, false}, {payee, `2`, false},
			{payee, `"SE35"`, false}, {payee, `"DE12"`, false}, {payee, `"bob@x.io"`, false}, {theSubject, `"bob@x.io"`, true},
			{theSubject, `"eve@x.io"`, false}, {theSubject, `"of bob@x.io"`, true}, {theSubject, `"ob@x.io"`, false},
			{Source{Tool: "other", Fact: "/*/to", Declared: declared}, `"SE35"`, true},
			{Source{Tool: "other", Fact: "/*/to", Declared: declared}, `"GB29"`, false},
			{Source{Tool: "third", Fact: "/*/to", Declared: declared}, `"GB29"`, false},
			{user, `"GB29"`, false}, {user, `"DE12"`, true},
		} {
			assert.Equal(t, c.want, h.has(c.q, c.value), "%s of %q in %s", c.q.Fact, c.q.Tool, c.value)
		}
		for _, q := range []Source{{Tool: "list", Fact: "/*/note", Declared: declared}, {Tool: "list", Fact: "/*/to"},
			{Tool: "list", Fact: "/other", Declared: declared}, {Tool: "list", Fact: "count:", Declared: declared},
			{Tool: "third", Fact: "/*/note", Declared: declared}} {
			_, err := h.Source(q, h.blob)
			assert.Error(t, err, "%+v is no source", q)
		}
	}
}

// many is a document of so many values.
func many(n int, form string) string {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf(form, i))
	}
	return `{"/*/to":[` + strings.Join(values, ",") + `]}`
}

// A tool that floods ends itself as a source, and nothing else: the user's words and the facts of
// other tools stand. What it says from then on is counted, and neither held nor read.
func TestSessionFlood(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{true, false} {
		h := newHeard(t)
		h.message("pay alice", given)
		h.executed("bank", `{"/*/to":["GB29"]}`, given)
		h.executed("list", `{"/*/to":["SE35"]}`, given)
		for i := range 9 {
			h.executed("list", many(1000, fmt.Sprintf("%d%%04d", i+1)), given)
		}
		h.executed("list", many(999, `"last %d"`), given)
		assert.True(t, !h.ask(payee).Full && h.has(payee, `"last 998"`), "10,000 values")
		h.executed("list", `{"/*/to":["over"]}`, given)
		h.executed("list", `{"/subject":["later@x.io"]}`, given)
		s := h.ask(payee)
		assert.True(t, s.Full && s.Count == 13 && !h.has(payee, `"over"`) && !h.has(theSubject, `"later@x.io"`), "%+v", s)
		assert.True(t, h.has(payee, `"SE35"`) && h.has(payee, `"last 0"`), "what it said before stands")
		h.read = nil
		for i := range 100 {
			h.executed("list", many(1000, fmt.Sprintf("%d%%04d", i+1)), false)
			h.ask(payee)
		}
		assert.Empty(t, h.read, "read though it is no source")
		bank := Source{Tool: "bank", Fact: "/*/to", Declared: declared}
		assert.True(t, h.has(bank, `"GB29"`) && h.has(user, `"alice"`), "others stand")
		assert.True(t, !h.ask(bank).Full && !h.ask(user).Full, "others are full")
	}
}

// After a restart facts are read at the first question: each once, and in order. One that cannot be
// read makes the source an error as long as that lasts.
func TestSessionFactsRead(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	var docs []string
	for i := range 5 {
		docs = append(docs, fmt.Sprintf(`{"/*/to":["payee %d"]}`, i))
		h.executed("list", docs[i], i == 4)
	}
	assert.Empty(t, h.read)
	lost := crypto.Sum([]byte(docs[2]))
	for _, bad := range [][]byte{nil, []byte(docs[1]), []byte(`{}`)} {
		delete(h.blobs, lost)
		if bad != nil {
			h.blobs[lost] = bad
		}
		s, err := h.Source(payee, h.blob)
		require.Error(t, err)
		assert.True(t, s.Count == 5 && s.Values == nil && s.State != contracts.Digest{}, "%+v", s)
	}
	h.blobs[lost] = []byte(docs[2])
	h.read = nil
	for i := range 5 {
		assert.True(t, h.has(payee, fmt.Sprintf(`"payee %d"`, i)), "%d", i)
	}
	assert.Equal(t, docs[2:4], h.read, "the first were read before, and the last was given")
	clear(h.blobs)
	assert.True(t, h.has(payee, `"payee 0"`), "what was read is known")
	h.executed("list", `{"/*/to":["payee 5"]}`, false)
	clear(h.blobs)
	_, err := h.Source(payee, h.blob)
	require.ErrorIs(t, err, errErased, "one more that cannot be read")

	bad := []byte(`{"/*/to":["x"],"no pointer":[]}`)
	d := crypto.Sum(bad)
	for _, facts := range []Facts{{Digest: &d}, {Digest: &d, Document: bad}} {
		h = newHeard(t)
		h.WatchFacts("list", declared)
		h.blobs[d] = bad
		h.Execute(runAt("list", 1), crypto.Value{}, facts)
		_, err = h.Source(payee, h.blob)
		assert.Error(t, err, "a document that is none")
	}
}

// What is watched is indexed as it comes, and stands when the store has lost it.
func TestSessionWatchFacts(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	h.WatchFacts("list", nil)
	assert.Nil(t, h.tools, "nothing is watched")
	h.WatchFacts("list", declared)
	s := h.ask(payee)
	assert.True(t, s.Count == 0 && s.State == contracts.Digest{} && !s.Full && !s.Has(valueOf(t, `"payee 0"`)), "%+v", s)
	for i := range 2000 {
		h.executed("list", fmt.Sprintf(`{"/*/to":["payee %d"]}`, i), true)
	}
	h.Stored(1 << 40)
	clear(h.blobs)
	for _, i := range []int{0, 1000, 1999} {
		assert.True(t, h.has(payee, fmt.Sprintf(`"payee %d"`, i)), "%d", i)
	}
	assert.Equal(t, uint64(2000), h.ask(payee).Count)
	other := NewDeclaration([]Fact{{Key: "/*/to", Text: true, Vouches: true}})
	_, err := h.Source(Source{Tool: "list", Fact: "/*/to", Declared: other}, h.blob)
	assert.ErrorIs(t, err, errErased, "by another declaration it has to be read")
}

// A declaration that changes its mind has every document judged by what it says now. One with the
// same content is the same.
func TestSessionRedeclared(t *testing.T) {
	t.Parallel()
	declare := func(facts ...Fact) Source {
		return Source{Tool: "list", Fact: facts[0].Key, Declared: NewDeclaration(facts)}
	}
	to := Fact{Key: "/*/to", Vouches: true}
	h := newHeard(t)
	h.executed("list", `{"/*/to":["to GB29","x"],"/id":["SE35"]}`, false)
	plain, again := declare(to), declare(to)
	assert.True(t, h.has(plain, `"to GB29"`) && !h.has(plain, `"GB29"`), "plain")
	h.read = nil
	assert.True(t, h.has(again, `"to GB29"`) && h.has(plain, `"x"`) && len(h.read) == 0, "a new version of the bundle")
	text := declare(Fact{Key: "/*/to", Text: true, Vouches: true})
	assert.True(t, h.has(text, `"to GB29"`) && h.has(text, `"GB29"`) && h.ask(text).Bytes == 8, "texts")
	moved := declare(Fact{Key: "/id", Vouches: true})
	assert.True(t, h.has(moved, `"SE35"`) && !h.has(moved, `"to GB29"`), "another pointer finds no old value")
	h.executed("list", many(1000, `"%d"`), true)
	for i := range 9 {
		h.executed("list", many(1000, fmt.Sprintf(`"%d of %%d"`, i)), true)
	}
	assert.True(t, h.ask(plain).Full && h.ask(plain).Count == 11, "full by one")
	assert.True(t, !h.ask(moved).Full && !h.ask(text).Full, "and not by the others")
	h.executed("list", `{"/id":["late"]}`, true)
	assert.True(t, h.has(moved, `"late"`) && !h.has(plain, `"late"`), "what is declared alone uses it up")
	for i := range 2 * maxViews {
		q := declare(Fact{Key: "/id", Vouches: true}, Fact{Key: fmt.Sprint("/", i), Vouches: true})
		assert.True(t, h.has(q, `"late"`) && h.ask(q).Count == 12, "%d more declarations", i)
	}
	assert.True(t, h.has(plain, `"x"`) && h.ask(plain).Full && h.has(moved, `"late"`), "those of before, once more")
	assert.Len(t, h.tools["list"].documents.views, maxViews)
}

// Of a receipt the document is read, of that very receipt. One that has none has none, and one that
// cannot be read is an error.
func TestSessionFactsOf(t *testing.T) {
	t.Parallel()
	for _, given := range []bool{true, false} {
		h := newHeard(t)
		none := h.executed("list", "", given)
		first := h.executed("list", `{"/status":["open"]}`, given)
		null := h.executed("list", `{"/status":null}`, given)
		other := h.executed("pay", `{"/status":["paid"]}`, given)
		last := h.executed("list", `{"/status":["shut"]}`, given)
		for _, c := range []struct {
			r    contracts.PriorReceipt
			want string
		}{{none, ""}, {first, `{"/status":["open"]}`}, {null, `{"/status":null}`}, {other, `{"/status":["paid"]}`},
			{last, `{"/status":["shut"]}`}} {
			v, err := h.Facts(&c.r, h.blob)
			require.NoError(t, err)
			assert.Equal(t, c.want, string(v.Append(nil)))
		}
		assert.Equal(t, given, len(h.read) == 0)
		for _, c := range []func(*contracts.PriorReceipt){
			func(r *contracts.PriorReceipt) { r.Tool = "pay" },
			func(r *contracts.PriorReceipt) { r.Tool = "never" },
			func(r *contracts.PriorReceipt) { r.Entry = nil },
			func(r *contracts.PriorReceipt) { r.Entry = other.Entry },
			func(r *contracts.PriorReceipt) { r.Time++ },
			func(r *contracts.PriorReceipt) { r.Time = 1 << 50 },
		} {
			r := first
			c(&r)
			_, err := h.Facts(&r, h.blob)
			assert.ErrorIs(t, err, errNoReceipt, "%+v", r)
		}
		clear(h.blobs)
		v, err := h.Facts(&first, h.blob)
		assert.True(t, given == (err == nil) && given == v.Exists(), "after erasure: %v", err)
		h.blobs[crypto.Sum([]byte(`{"/status":["open"]}`))] = []byte(`{"/status":["shut"]}`)
		v, err = h.Facts(&first, h.blob)
		assert.True(t, given == (err == nil) && given == v.Exists(), "other bytes: %v", err)
	}
}

// Receipts of one millisecond are told apart.
func TestSessionFactsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	var all []Run
	for i := range 9 {
		r := runAt("list", i)
		r.Time = contracts.Time(i / 3)
		all = append(all, r)
		b := fmt.Appendf(nil, `{"/n":[%d]}`, i)
		d := crypto.Sum(b)
		h.Execute(r, crypto.Value{}, Facts{&d, b})
	}
	for i, r := range all {
		v, err := h.Facts(&contracts.PriorReceipt{Tool: "list", Entry: &r.Entry, Time: r.Time}, h.blob)
		require.NoError(t, err)
		n, _ := v.Get("/n").At(0).Uint()
		assert.Equal(t, uint64(i), n)
	}
}

// A document that is not in the store yet is held, however many come. Those that are there go when
// they are too many.
func TestSessionHeld(t *testing.T) {
	t.Parallel()
	h := newHeard(t)
	var all []contracts.PriorReceipt
	for i := range 2000 {
		all = append(all, h.executed("list", fmt.Sprintf(`{"/n":["%d %s"]}`, i, strings.Repeat("x", 100)), true))
	}
	readable := func(ask int) bool {
		_, err := h.Facts(&all[ask], func(contracts.Digest) ([]byte, error) { return nil, errErased })
		return err == nil
	}
	assert.True(t, readable(0) && readable(999) && readable(1999), "nothing is stored")
	h.Stored(runAt("list", 1000).Receipt)
	assert.True(t, !readable(0) && !readable(999) && readable(1000) && readable(1999), "the first thousand are")
	h.Stored(1)
	assert.True(t, readable(1000), "they are still")
	h.Stored(1 << 40)
	assert.True(t, !readable(1600) && readable(1999) && h.sources.size <= maxHeld, "%d bytes held", h.sources.size)
	v, err := h.Facts(&all[0], h.blob)
	assert.True(t, err == nil && v.Exists(), "it can be read back: %v", err)
	size := 0
	for _, x := range h.sources.held {
		size += len(x.bytes) + heldSize
	}
	assert.Equal(t, h.sources.size, size)
	new(Session).Stored(7)
}

// What comes with its text, what is read back, and any mixture of both have the same answers, as a
// list of what was said has them.
func TestSessionSourcesModel(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	r := rand.New(rand.NewPCG(12, 6))
	found, full := 0, 0
	for range 150 {
		whole, late := newHeard(t), newHeard(t)
		if r.IntN(2) == 0 {
			whole.WatchFacts("list", declared)
		}
		var values, said []string // of the tool and of the user, as far as they are sources
		plain, texts, over := 0, 0, false
		for n := range 14 {
			if r.IntN(3) == 0 {
				text := fmt.Sprintf("pay <payee%d>", r.IntN(20))
				said = append(said, text)
				whole.message(text, true)
				late.message(text, r.IntN(2) == 0)
			}
			name := fmt.Sprintf("payee%d", r.IntN(20))
			doc, uses := fmt.Sprintf(`{"/*/to":["%s"]}`, name), 1
			if r.IntN(3) == 0 {
				doc, uses = many(990, `"%d"`), 990
			}
			subject := 0
			if r.IntN(2) == 0 {
				subject = 8000 * (1 + r.IntN(8))
				doc = doc[:len(doc)-1] + `,"/subject":["` + strings.Repeat("x", subject) + `"]}`
			}
			whole.executed("list", doc, true)
			late.executed("list", doc, r.IntN(2) == 0)
			if r.IntN(4) == 0 {
				late.Stored(uint64(r.IntN(2*n + 1)))
			}
			plain, texts = plain+uses, texts+subject
			over = over || plain > 10_000 || texts > 262_144
			if !over && uses == 1 {
				values = append(values, name)
			}
			if r.IntN(2) == 0 {
				continue
			}
			asked := fmt.Sprintf("payee%d", r.IntN(20))
			want := slices.Contains(values, asked)
			require.Equal(t, want, whole.has(payee, `"`+asked+`"`), "%s", asked)
			require.Equal(t, want, late.has(payee, `"`+asked+`"`), "%s, late", asked)
			words := slices.Contains(said, "pay <"+asked+">")
			require.Equal(t, words, whole.has(user, `"`+asked+`"`), "%s", asked)
			require.Equal(t, words, late.has(user, `"`+asked+`"`), "%s, late", asked)
			a, b := whole.ask(payee), late.ask(payee)
			require.True(t, a.Full == over && b.Full == over && a.Count == uint64(n+1) && a.Count == b.Count &&
				a.State == b.State && whole.ask(theSubject).Bytes == late.ask(theSubject).Bytes, "%+v, %+v", a, b)
			if want {
				found++
			}
			if over {
				full++
			}
		}
		assert.Empty(t, whole.read, "given, and read all the same")
	}
	assert.True(t, found > 50 && full > 50, "%d found, %d full", found, full)
}

// A session that has none of this takes no more memory than one had before there was any, and a
// question whose answer is at hand allocates nothing.
func TestSessionMemory(t *testing.T) {
	assert.LessOrEqual(t, reflect.TypeFor[Session]().Size(), uintptr(40), "a kernel's session stays in its size class")
	assert.LessOrEqual(t, reflect.TypeFor[history]().Size(), uintptr(64), "as does a tool of one")
	h := newHeard(t)
	h.message("pay alice", true)
	h.executed("list", `{"/*/to":["GB29"],"/subject":["bob@x.io"]}`, true)
	alice, gb := valueOf(t, `"alice"`), valueOf(t, `"GB29"`)
	read := h.blob
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		for _, q := range []Source{user, payee, theSubject} {
			s, err := h.Source(q, read)
			if err != nil || s.Has(alice) && s.Has(gb) {
				t.Error("no answer")
			}
		}
	}))
}

// heap returns how much more is held after f.
func heap(f func() any) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(x)
	return after.HeapAlloc - before.HeapAlloc
}

// What is said to be held is about what is: of plain values, of texts, and of messages.
func TestSessionHeldSize(t *testing.T) {
	for _, c := range []struct {
		name string
		q    Source
		said func(h *heard, i int)
	}{
		{"values", payee, func(h *heard, i int) { h.executed("list", many(100, fmt.Sprintf(`"%d %%d"`, i)), false) }},
		{"texts", theSubject, func(h *heard, i int) {
			h.executed("list", fmt.Sprintf(`{"/subject":["%d%s"]}`, i, strings.Repeat("x", 2500)), false)
		}},
		{"messages", user, func(h *heard, i int) { h.message(fmt.Sprintf("%d%s", i, strings.Repeat("x", 2500)), false) }},
	} {
		h := newHeard(t)
		assert.Zero(t, h.Held(c.q.Tool), "%s: of nothing", c.name)
		before := heap(func() any {
			for i := range 99 {
				c.said(h, i)
			}
			return h
		})
		at, more := h.Held(c.q.Tool), heap(func() any {
			h.ask(c.q)
			h.read = nil
			return h
		})
		h.Held("never")
		got := h.Held(c.q.Tool) - at
		assert.True(t, before > 0 && got > int(more)/2 && got < int(more)*2, "%s: %d more are held, and %d said", c.name,
			more, got)
	}
}

// BenchmarkSessionMemory prints what a session of 10,000 facts of 35 bytes takes: in documents of
// 1,000, and in one each, with the receipts.
func BenchmarkSessionMemory(b *testing.B) {
	for _, each := range []int{1000, 1} {
		b.Run(fmt.Sprint(each), func(b *testing.B) {
			held := uint64(0)
			for b.Loop() {
				held = heap(func() any {
					h := newHeard(b)
					h.WatchFacts("list", declared)
					for i := 0; i < 10_000; i += each {
						h.executed("list", many(each, fmt.Sprintf(`"payee-%05d-%%05d-of-the-books"`, i)), true)
						clear(h.blobs)
						h.Stored(1 << 40)
					}
					if h.ask(payee).Full {
						b.Fatal("full")
					}
					return h.Session
				})
			}
			b.ReportMetric(float64(held), "held-B")
		})
	}
}

// BenchmarkSessionFirst is the first question after a restart of a session of 1,000 receipts.
func BenchmarkSessionFirst(b *testing.B) {
	h := newHeard(b)
	for i := range 1000 {
		h.executed("list", fmt.Sprintf(`{"/*/to":["payee %d"],"/subject":["to payee %d"],"count:":[3]}`, i, i), false)
	}
	runs := h.tools["list"]
	last := valueOf(b, `"payee 999"`)
	for b.Loop() {
		runs.documents.views = nil
		s, err := h.Source(payee, func(d contracts.Digest) ([]byte, error) { return h.blobs[d], nil })
		if err != nil || !s.Has(last) {
			b.Fatal("not found")
		}
	}
}
