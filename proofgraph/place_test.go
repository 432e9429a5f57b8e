package proofgraph

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

func TestEntriesFollowOneAnother(t *testing.T) {
	t.Parallel()
	w := opened(t)
	a0 := w.say("a")
	b0 := w.say("b", a0.Hash())
	w.say("b")
	a1 := w.say("a", b0.Hash(), a0.Hash(), b0.Hash()) // its own prev, and one twice
	w.say("c", b0.Hash(), a1.Hash())
	list := w.reread()
	type place struct {
		session      string
		seq, lamport uint64
		parents      []string
	}
	both := []string{b0.Hash().String(), a1.Hash().String()}
	slices.Sort(both)
	want := []place{{"", 0, 0, nil}, {"a", 0, 1, nil}, {"b", 0, 2, []string{a0.Hash().String()}}, {"b", 1, 3, nil},
		{"a", 1, 3, []string{b0.Hash().String()}}, {"c", 0, 4, both}}
	require.Equal(t, len(want), len(list), "%d entries", len(list))
	for i, f := range list {
		p := f.Predicate
		assert.True(t, p.Session == want[i].session && p.Seq == want[i].seq && p.Lamport == want[i].lamport &&
			slices.Equal(p.Parents, want[i].parents), "entry %d is %+v, want %+v", i, p, want[i])
		at, ok := w.log.Lookup(f.hash)
		assert.True(t, ok && at == uint64(i), "Lookup of entry %d: %d %v", i, at, ok)
	}
	_, ok := w.log.Lookup(crypto.Sum(nil))
	assert.False(t, ok, "Lookup found what is not there")
}

func TestHeaderIsFinalBeforeTheEntryIsSigned(t *testing.T) {
	t.Parallel()
	w := opened(t)
	first := w.say("a")
	parents := []contracts.Digest{w.log.genesis, first.Hash()}
	s := w.place(w.log.Chain("b"), parents...)
	before := Place{s}.Header()
	parents[0], parents[1] = contracts.Digest{}, contracts.Digest{} // the caller's slice is the caller's
	before.Parents[0] = contracts.Digest{}                          // and so is what Header gave
	st := message()
	st.Header.Session = "forged"
	require.NoError(t, sign(s, st))
	require.NoError(t, s.Wait())
	h := Place{s}.Header()
	assert.True(t, h.Session == "b" && h.Seq == 0 && h.Lamport == 2 && h.Prev == w.log.genesis &&
		slices.Equal(h.Parents, []contracts.Digest{first.Hash()}), "header %+v", h)
	got := w.reread()[s.Index()].Predicate
	assert.True(t, got.Session == "b" && slices.Equal(got.Parents, []string{first.Hash().String()}), "signed %+v", got)
}

func TestChainsKnowWhereTheyStand(t *testing.T) {
	t.Parallel()
	w := opened(t)
	c := w.log.Chain("a")
	assert.True(t, c == w.log.Chain("a") && c != w.log.Chain("b"), "not one chain for each name")
	assert.True(t, c.Session() == "a" && c.Next() == 0 && c.Time() == 0 && c.Last() == w.log.genesis && !c.Closed(),
		"a new chain: %+v", c)
	s := w.place(c)
	assert.Equal(t, uint64(0), c.Next(), "a chain goes on before its entry is signed")
	w.sign(s)
	assert.True(t, c.Next() == 1 && c.Time() == 1000 && c.Last() == s.Hash() && !c.Closed(), "after an entry: %+v", c)
}

func TestPlaceRefuses(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	many := make([]contracts.Digest, 0, contracts.MaxParents+1)
	for range contracts.MaxParents + 1 {
		many = append(many, w.say("many").Hash())
	}
	late := w.log.Chain("late")
	s := w.place(late)
	open := w.log.Chain("open")
	defer w.sign(w.place(open))
	w.sign(s)
	other := opened(t).log.Chain("a")
	for _, c := range []struct {
		name    string
		chain   *Chain
		at      contracts.Time
		parents []contracts.Digest
		is      error
		says    string
	}{
		{"no chain", nil, 1000, nil, nil, "not a chain"},
		{"another log's chain", other, 1000, nil, nil, "not a chain"},
		{"a clock that runs back", w.log.Chain("a"), 999, nil, nil, "runs back"},
		{"before 1970", w.log.Chain("n"), -1, nil, nil, "runs back"},
		{"after 9999", w.log.Chain("n"), contracts.TimeOf(time.Unix(1<<40, 0)) + 1, nil, nil, "years"},
		{"a parent nobody has", w.log.Chain("n"), 1000, []contracts.Digest{w.log.genesis, {1}}, ErrUnknownParent, ""},
		{"a parent that is not durable", w.log.Chain("n"), 1000, []contracts.Digest{s.Hash()}, ErrUnknownParent, ""},
		{"33 parents", w.log.Chain("n"), 1000, many, nil, "33 parents"},
		{"an entry before this one is not signed", open, 1000, nil, nil, "not signed yet"},
		{"an illegal name", w.log.Chain("a b"), 1000, nil, nil, "session name"},
		{"a name of the kernel's", w.log.Chain("@x"), 1000, nil, nil, "session name"},
	} {
		before := w.log.next()
		got, err := w.log.Place(Draft{Chain: c.chain, Time: c.at, Parents: c.parents, Take: func(Place) error {
			t.Errorf("%s: Take was called", c.name)
			return nil
		}, Write: says(message())})
		assert.True(t, got == nil && err != nil && (c.is == nil ||
			errors.Is(err, c.is)) && strings.Contains(err.Error(), c.says), "%s: %v", c.name, err)
		assert.Equal(t, before, w.log.next(), "%s: a place was taken", c.name)
	}
	assert.NoError(t, w.log.Err(), "a refusal sealed the log")
	assert.NotNil(t, w.place(w.log.Chain("n"), many[:contracts.MaxParents]...), "32 parents refused")
	w.place(w.log.Chain(contracts.SessionRefused))
}

func TestAClosedSessionTakesNothing(t *testing.T) {
	t.Parallel()
	w := opened(t)
	w.say("a")
	c := w.log.Chain("a")
	s := w.place(c)
	h := Place{s}.Header()
	require.NoError(t, sign(s, &contracts.Statement{Close: &contracts.Close{Count: h.Seq, Last: h.Prev}}))
	if err := s.Wait(); err != nil || !c.Closed() {
		t.Fatal(err, c.Closed())
	}
	_, err := w.log.take(&Draft{Chain: c, Time: 1000})
	assert.ErrorIs(t, err, ErrClosed)
	w.say("b")
	w.open()
	c = w.log.Chain("a")
	_, err = w.log.take(&Draft{Chain: c, Time: 1000})
	assert.True(t, errors.Is(err, ErrClosed) && c.Closed(), "opened again: %v", err)
}

// A function that runs under the log's lock sees the places in order, and may refuse one: then it
// is not taken.
func TestTake(t *testing.T) {
	t.Parallel()
	w := opened(t)
	lost := errors.New("lost the reservation")
	c := w.log.Chain("a")
	for _, refuse := range []bool{false, true, false} {
		want, err := w.log.Next()
		require.NoError(t, err)
		s, err := w.log.Place(Draft{Chain: c, Time: 1000, Write: says(message()), Take: func(p Place) error {
			assert.Equal(t, want, p.Index(), "index")
			if refuse {
				return lost
			}
			return nil
		}})
		if refuse {
			assert.True(t, s == nil && err == lost, "%v %v", s, err)
			continue
		}
		require.True(t, err == nil && s.Index() == want, "%v", err)
	}
	func() {
		defer func() {
			assert.True(t, recover() != nil, "a panic of the caller was swallowed")
		}()
		w.log.Place(Draft{Chain: c, Time: 1000, Take: func(Place) error { panic("under") }, Write: says(message())})
	}()
	w.say("a")
	if n := len(w.reread()); n != 4 {
		t.Errorf("%d entries", n)
	}
}

func TestOnlyADurableAllowIsDurable(t *testing.T) {
	t.Parallel()
	w := opened(t)
	c := w.log.Chain("a")
	durable := func(s *Slot) bool {
		e, d, err := s.Durable()
		require.True(t, (err == nil) == (e != nil) && (err == nil) == (d != nil), "half a result %v", err)
		return err == nil
	}
	assert.False(t, durable(nil), "no slot")
	s := w.place(c)
	assert.False(t, durable(s), "not signed")
	d := allow(Place{s}.Header())
	require.NoError(t, sign(s, &contracts.Statement{Decision: d}))
	assert.False(t, durable(s), "not durable")
	require.NoError(t, s.Wait())
	e, got, err := s.Durable()
	assert.True(t, err == nil && got == d && string(e) == string(s.Entry()) && e.Hash() == s.Hash(),
		"an ALLOW that is durable: %v", err)
	assert.False(t, durable(w.say("a")), "a message")
	s = w.place(c)
	d = allow(Place{s}.Header())
	d.Verdict = contracts.Deny
	require.NoError(t, sign(s, &contracts.Statement{Decision: d}))
	require.NoError(t, s.Wait())
	assert.False(t, durable(s), "a denial")
	w = opened(t)
	w.watch().before = func(int, Batch) error { return errors.New("disk full") }
	w.open()
	s = w.place(w.log.Chain("a"))
	require.NoError(t, sign(s, &contracts.Statement{Decision: allow(Place{s}.Header())}))
	err = s.Wait()
	assert.True(t, err != nil && !durable(s), "an ALLOW that could not be stored: %v", err)
}

func TestMisuseIsAnError(t *testing.T) {
	t.Parallel()
	w := opened(t)
	assert.Error(t, (*Slot)(nil).Wait(), "waited for no slot")
	c := w.log.Chain("a")
	_, err := w.log.Place(Draft{Chain: c, Time: 1000})
	assert.ErrorContains(t, err, "nothing writes the entry")
	s, err := w.log.Place(Draft{Chain: c, Time: 1000, Write: func(Place) (*contracts.Statement, error) {
		_, err := w.log.Place(Draft{Chain: c, Time: 1000, Write: says(message())})
		assert.ErrorContains(t, err, "not signed yet", "two places of one chain")
		return message(), nil
	}})
	require.NoError(t, err)
	assert.NoError(t, s.Wait())
	w.say("a")
	assert.Len(t, w.reread(), 3)
}

// A Write that does not return a record leaves a hole, whatever it does: the log is sealed, and the
// entry is not written.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		write func(Place) (*contracts.Statement, error)
		is    error
		says  string
	}{
		"an error":      {func(Place) (*contracts.Statement, error) { return message(), errDisk }, errDisk, ""},
		"nothing":       {func(Place) (*contracts.Statement, error) { return nil, nil }, nil, "no record"},
		"a panic":       {func(Place) (*contracts.Statement, error) { panic("secret") }, nil, "panicked with a string"},
		"ends its host": {func(Place) (*contracts.Statement, error) { runtime.Goexit(); return message(), nil }, errGone, ""},
	} {
		w := opened(t)
		before := w.place(w.log.Chain("b"))
		c, done := w.log.Chain("a"), make(chan struct{})
		go func() {
			defer close(done)
			s, err := w.log.Place(Draft{Chain: c, Time: 1000, Write: x.write})
			if assert.NoError(t, err, name) {
				assert.ErrorIs(t, s.Wait(), ErrSealed, name)
				assert.Nil(t, s.Entry(), name)
			}
		}()
		<-done
		err := w.log.Err()
		require.ErrorIs(t, err, ErrSealed, name)
		assert.True(t, x.is == nil || errors.Is(err, x.is), "%s: %v", name, err)
		assert.ErrorContains(t, err, x.says, name)
		assert.Zero(t, c.Next(), name)
		assert.ErrorIs(t, sign(before, message()), ErrSealed, name)
		mustBeSealed(t, w, c)
		assert.Len(t, w.reread(), 1, name)
	}
}

func TestAnEntryHasNoSpareMemory(t *testing.T) {
	t.Parallel()
	w := opened(t)
	s := w.say("a")
	if got := len(s.entry) + 1; got > 1+envelopeSize+(len(message().Append(nil))+500)/3*4 ||
		cap(s.entry) != len(s.entry) {
		t.Errorf("len %d cap %d", got, cap(s.entry))
	}
	key := contracts.Digest{}
	n := len(crypto.AppendEnvelope(nil, contracts.PayloadType, nil, key, make([]byte, 64)))
	assert.True(t, n <= envelopeSize && n >= envelopeSize-16, "an empty envelope has %d bytes, envelopeSize is %d", n,
		envelopeSize)
}
