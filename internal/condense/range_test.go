package condense_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/condense"
)

// A plain log is calls of one tool in main, each ended at once, and a last message.
func plain(t testing.TB, calls int) (*journal, span) {
	j := newJournal(t, 1)
	j.sessions = nil // no random parents, and times that ascend
	p := &contracts.PolicyRecord{Engine: contracts.Engine{Rules: 2, Threat: 1}}
	for _, text := range []string{dayOld, bundle} {
		d := crypto.Sum([]byte(text[3:]))
		j.documents[d] = []byte(text[3:])
		p.Documents = append(p.Documents, contracts.PolicyDocument{Digest: d, Layer: text[:2], Name: "a", Version: 1})
	}
	p.Policy = p.Hash()
	j.policies = []policy{{p, uint64(len(j.lines))}}
	j.append("", &contracts.Statement{Policy: p})
	from := uint64(len(j.lines))
	for range calls {
		j.call("read", "", contracts.ReasonAllow)
	}
	j.append(main, &contracts.Statement{Message: &contracts.Message{}})
	n := uint64(len(j.lines))
	return j, span{from, n, n, j.clock + day}
}

// call adds a call that nothing but its tool, its key and its ending keeps.
func (j *journal) call(tool, key string, ending contracts.ReasonCode) {
	d := &contracts.DecisionRecord{Condition: 8, Reason: contracts.ReasonAllow, Rule: "P1:b:r", EffectType: contracts.Read,
		Risk: contracts.Low, Tool: tool, Idempotency: key, PolicyHash: j.policies[0].Policy,
		Verdict: contracts.Allow}
	x := &contracts.Receipt{Outcome: contracts.Failed, Reason: ending, DecisionHash: j.append(main, &contracts.Statement{Decision: d}),
		EffectType: contracts.Read, Tool: tool, Verdict: contracts.Verdict(ending != contracts.ReasonToolPanic)}
	if ending == contracts.ReasonAllow {
		x.Outcome, x.OutputForm, x.OutputHash = contracts.Executed, "jcs", new(contracts.Digest)
	}
	effect := x.Effect()
	x.EffectHash = effect.Hash()
	j.append(main, &contracts.Statement{Receipt: x})
}

// stub returns the stub of an entry that names another one.
func (j *journal) stub(index, names uint64) contracts.Entry {
	var r contracts.Reader
	sealed, err := r.Open(j.lines[index])
	require.NoError(j.t, err)
	st, err := sealed.Statement()
	require.NoError(j.t, err)
	return contracts.NewStub(st, j.lines[index].Hash(), names).Append(nil)
}

// A set of one range, told by hand: bounds of the rules at which the random logs seldom are.
func TestRangeBounds(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 3)
	a := s.from // the calls are at a, a+1; a+2, a+3; a+4, a+5; then the message
	for name, test := range map[string]struct {
		span
		want []uint64
	}{
		"all":                            {s, []uint64{a, a + 1, a + 2, a + 3, a + 4, a + 5}},
		"without the message":            {span{a, s.to - 1, s.size, s.until}, []uint64{a, a + 1, a + 2, a + 3}},
		"the message is below from":      {span{0, a + 6, s.size, s.until}, []uint64{a, a + 1, a + 2, a + 3}},
		"half of a call above":           {span{a, a + 3, s.size, s.until}, []uint64{a, a + 1}},
		"half of a call below":           {span{a + 1, s.to, s.size, s.until}, []uint64{a + 2, a + 3, a + 4, a + 5}},
		"nothing is old":                 {span{a, s.to, s.size, 0}, nil},
		"one is old, to the millisecond": {span{a, s.to, s.size, j.times[a] + day}, []uint64{a, a + 1}},
		"none is, by one":                {span{a, s.to, s.size, j.times[a] + day - 1}, nil},
	} {
		got := j.set(test.span, j.lines)
		assert.Equal(t, test.want, slices.Collect(got.Members()), name)
		assert.Equal(t, uint64(len(test.want)), got.Dropped, name)
		if test.want == nil {
			assert.Equal(t, crypto.Sum(nil), got.Stubs, "the root over nothing")
		}
	}
}

// TestRangeLatest: what is dated back is as young as what was before it, below the range too.
func TestRangeLatest(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 2)
	l := j.log(s.from)
	for _, test := range []struct{ latest, until contracts.Time }{
		{0, j.clock + day}, {l.Latest, j.clock + day}, {j.clock + 9*day, j.clock + 10*day},
		{j.clock + 9*day, j.clock + 10*day - 1}, {1 << 47, 253402300799999},
	} {
		l.Latest = test.latest
		r := condense.NewRange(s.from, s.to, s.size, test.until, l)
		for _, line := range j.lines[s.from:] {
			require.NoError(t, r.Add(line))
		}
		want := uint64(4)
		if test.latest+day > test.until {
			want = 0
		}
		assert.Equal(t, want, r.Set().Dropped, "%v", test)
	}
}

// TestRangeMainClosed: of main, closed, the last call below the range's end may go, with its key.
func TestRangeMainClosed(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 2)
	j.call("read", "k", contracts.ReasonAllow)
	s.to, s.until = uint64(len(j.lines)), j.clock+day
	j.close(j.chains[main])
	for size, want := range map[uint64]uint64{s.to: 4, s.to + 1: 6} {
		s.size = size
		assert.Equal(t, want, j.set(s, j.lines).Dropped, "size %d", size)
	}
}

// TestRangeTwice: of two receipts of one call, which no log has, the first counts.
func TestRangeTwice(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 2)
	set := j.set(s, j.lines)
	require.EqualValues(t, 4, set.Dropped)
	stub := j.stub(s.from+1, s.from)
	for _, again := range []contracts.Entry{j.lines[s.from+1], stub} {
		lines := slices.Insert(slices.Clone(j.lines), int(s.from)+2, again)
		got := j.set(span{s.from, s.to + 1, s.size + 1, s.until}, lines)
		assert.Equal(t, []uint64{s.from, s.from + 1, s.from + 3, s.from + 4}, slices.Collect(got.Members()))
	}
}

// TestRangeFailed: of the runs that failed those may go that failed by the tool's own word.
func TestRangeFailed(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 0)
	j.call("read", "", contracts.ReasonToolError)
	j.call("read", "", contracts.ReasonToolPanic)
	j.call("wipe", "", contracts.ReasonToolError)
	j.append(main, &contracts.Statement{Message: &contracts.Message{}})
	s.to = uint64(len(j.lines))
	s.size, s.until = s.to, j.clock+day
	got := slices.Collect(j.set(s, j.lines).Members())
	assert.Equal(t, []uint64{s.from + 1, s.from + 2}, got, "the call of TOOL_ERROR alone")
}

// TestRangeErrors: a range of which one line cannot be read, or whose terms cannot, has no set.
func TestRangeErrors(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 2)
	lost := errors.New("lost")
	for name, test := range map[string]struct {
		change func(l *condense.Log, lines []contracts.Entry)
		want   string
	}{
		"no entry":      {func(_ *condense.Log, lines []contracts.Entry) { lines[2] = []byte("{}") }, "entry 5: contracts: ENVELOPE"},
		"no JSON":       {func(_ *condense.Log, lines []contracts.Entry) { lines[2] = nil }, "entry 5: contracts: ENCODING"},
		"no stub":       {func(_ *condense.Log, lines []contracts.Entry) { lines[2] = []byte(`{"stub":{}}`) }, "entry 5: contracts: RECORD"},
		"not canonical": {func(_ *condense.Log, lines []contracts.Entry) { lines[0] = append(slices.Clone(lines[0]), ' ') }, "entry 3: "},
		"no policy": {func(l *condense.Log, _ []contracts.Entry) {
			l.Policy = func(contracts.Digest) (uint64, bool) { return 0, false }
		}, "entry 3: no policy entry has its policyHash"},
		"no terms": {func(l *condense.Log, _ []contracts.Entry) {
			l.Terms = func(uint64) (*condense.Terms, error) { return nil, lost }
		}, "entry 3: lost"},
	} {
		l, lines := j.log(s.from), slices.Clone(j.lines[s.from:])
		test.change(&l, lines)
		r := condense.NewRange(s.from, s.to, s.size, s.until, l)
		var err error
		for _, line := range lines {
			if err = r.Add(line); err != nil {
				break
			}
		}
		assert.ErrorContains(t, err, test.want, name)
		assert.Equal(t, name == "no terms", errors.Is(err, lost), name)
		assert.Nil(t, r.Set(), name)
		assert.Error(t, r.Add(j.lines[0]), "%s: and it goes on", name)
		assert.Nil(t, r.Set(), name)
	}

	l := j.log(s.from)
	l.Terms = func(uint64) (*condense.Terms, error) { return nil, nil }
	r := condense.NewRange(s.from, s.to, s.size, s.until, l)
	for _, line := range j.lines[s.from:] {
		require.NoError(t, r.Add(line))
	}
	assert.Zero(t, r.Set().Dropped, "terms of nil let nothing go")
	assert.ErrorContains(t, r.Add(j.lines[0]), "after the last")
	assert.NotNil(t, r.Set(), "that line was none of the range's")
}

// TestRangeSetAgain: the set is the same, asked for again.
func TestRangeSetAgain(t *testing.T) {
	t.Parallel()
	j, s := plain(t, 3)
	r := condense.NewRange(s.from, s.to-1, s.size, s.until, j.log(s.from))
	for _, line := range j.lines[s.from : s.to-1] {
		require.NoError(t, r.Add(line))
	}
	set := r.Set()
	require.EqualValues(t, 4, set.Dropped, "without the last of main")
	assert.Same(t, set, r.Set())
}
