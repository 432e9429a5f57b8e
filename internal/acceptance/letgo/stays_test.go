package letgo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/proofgraph"
)

// Without a floor that says so nothing goes, nor if one of two floors does not, nor under a policy
// that came later.
func TestNothingGoesWithoutAFloorThatSaysSo(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	const silent = "helm: policy/v1\nlayer: P0\nname: silent\nversion: 1\n"
	longer := kerneltest.Edit(t, floor, "name: floor", "name: longer", "after: 24h", "after: 48h")
	lower := kerneltest.Edit(t, floor, "name: floor", "name: lower", "kept: high", "kept: medium")
	for name, c := range map[string]struct {
		documents []string
		goes      bool
	}{
		"one that says so":    {[]string{floor, bundle}, true},
		"no floor":            {[]string{bundle}, false},
		"one that is silent":  {[]string{silent, bundle}, false},
		"one of two":          {[]string{floor, silent, bundle}, false},
		"one says later":      {[]string{floor, longer, bundle}, false},
		"both, of low risk":   {[]string{floor, lower, bundle}, true},
		"an overlay as well":  {[]string{floor, bundle, "helm: policy/v1\nlayer: P2\nname: task\n"}, true},
		"but not of write":    {[]string{lower, kerneltest.Edit(t, bundle, "notes: {effect: read", "notes: {effect: write")}, false},
		"nor of a risky tool": {[]string{floor, kerneltest.Edit(t, bundle, "notes: {effect: read", "notes: {effect: read, risk: high")}, false},
	} {
		w := old(t, 600, func(o *helm.Options) { o.Policy = kerneltest.Compile(t, c.documents...) })
		w.kernel.Swap(context.Background(), kerneltest.Compile(t, floor, bundle)) // changes nothing of what was
		condensed := w.condense()
		assert.Equal(t, c.goes, condensed.Members == 1200, "%s: %d", name, condensed.Members)
		assert.Equal(t, c.goes, len(condensed.Entries) == 1, name)
		assert.NotZero(t, condensed.Checkpoint.Size, name)
		assert.Equal(t, condensed.Members, w.drop().Entries, name)
		assert.Len(t, gone(t, w.store), int(condensed.Members), name)
	}
}

// Nothing goes before its time, by the clock or by what the caller says.
func TestNothingGoesBeforeItsTime(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	w.fill("chat", 600)
	w.close("chat")
	at := time.UnixMilli(w.now.Load())
	ctx := context.Background()
	for _, c := range []struct {
		passed time.Duration
		before time.Time
		goes   bool
	}{
		{24*time.Hour - time.Millisecond, time.Time{}, false},
		{24 * time.Hour, at, false},
		{24 * time.Hour, at.Add(24*time.Hour - time.Millisecond), false},
		{24 * time.Hour, time.Unix(-1, 0), false},
		{12 * time.Hour, at.Add(1000 * time.Hour), false}, // later than now is now
		{24 * time.Hour, at.Add(24 * time.Hour), true},
	} {
		w.now.Store(at.Add(c.passed).UnixMilli())
		got, err := w.kernel.Condense(ctx, c.before)
		require.NoError(t, err)
		assert.Equal(t, c.goes, got.Members == 1200, "after %v, before %v", c.passed, c.before)
		assert.Equal(t, c.goes, w.drop().Entries == 1200)
	}
	r := w.verify()
	require.Len(t, r.Condensed, 1)
	assert.EqualValues(t, 1200, r.Condensed[0].Stubs)
}

// A clock that ran ahead and came back writes nothing that is dated before the entries that go.
func TestClockRunsBack(t *testing.T) {
	t.Parallel()
	w := old(t, 600)
	broken := errors.New("no clock")
	jump := false
	now := w.options.Now
	w.options.Now = func() time.Time {
		if jump {
			panic(broken)
		}
		return now()
	}
	require.NoError(t, w.kernel.Close())
	w.open()
	jump = true
	_, err := w.kernel.Condense(context.Background(), time.Time{})
	require.Error(t, err)
	jump = false
	w.later(-2 * time.Hour)
	assert.Zero(t, w.condense().Members)
	w.later(2 * time.Hour)
	assert.EqualValues(t, 1200, w.condense().Members)
}

// Of sessions that are open nothing goes; of main all but its last call; and what may not go of
// closed ones stays.
func TestWhatStays(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := newWorld(t, proofgraph.NewMemory())
	ctx := context.Background()
	call := func(session, tool, args string, key string) {
		w.kernel.Guard(ctx, helm.Intent{Tool: tool, Args: json.RawMessage(args), Session: session, Idempotency: key,
			Caller: kim})
	}
	for i := range 400 {
		for _, session := range []string{"closed", "open", "main"} {
			call(session, "notes", fmt.Sprintf(`{"q":%d}`, i), map[bool]string{true: fmt.Sprint("key", i)}[session != "main"])
			if i%4 == 0 {
				call(session, "wipe", `{}`, "")  // of high risk
				call(session, "never", `{}`, "") // denied
				call(session, "pay", `{"to":"ACC-0"}`, "")
			}
		}
		if i%50 == 0 {
			require.NoError(t, w.kernel.UserMessage(ctx, "closed", "pay ACC-0"))
		}
	}
	w.close("closed")
	w.later(25 * time.Hour)
	before := lines(t, w.store)
	c := w.condense()
	w.drop()
	last := map[string]uint64{}
	for i, e := range before {
		last[statement(t, e).Session] = uint64(i)
	}
	stubs := map[uint64]bool{}
	for _, i := range gone(t, w.store) {
		stubs[i] = true
	}
	require.Len(t, stubs, int(c.Members))
	var decision *contracts.Statement
	want := 0
	for i, e := range before {
		st := statement(t, e)
		may := false
		switch {
		case st.Decision != nil:
			decision = st // the calls follow one another
			may = st.Decision.Risk != contracts.High
		case st.Receipt != nil && st.Receipt.Decision == nil:
			may = decision.Decision.Risk != contracts.High
		}
		index := uint64(i)
		if st.Decision != nil {
			index++ // of its receipt
		}
		may = may && (st.Session == "closed" || st.Session == "main" && index < last["main"])
		if may {
			want++
		}
		assert.Equal(t, may, stubs[uint64(i)], "entry %d: %s in %q", i, st.Kind(), st.Session)
	}
	assert.Greater(t, want, 1500)
	w.verify()
}

// A call that an approval let run stays, whatever its policy says.
func TestApprovedCallsStay(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	var store proofgraph.Store
	b := kerneltest.NewBank(t, func(o *helm.Options) {
		o.Policy = kerneltest.Compile(t, floor, kerneltest.BankPolicy)
		f := kerneltest.Faulty(o.Store)
		store = f.Store
		o.Store = condensing{f, store.(proofgraph.Condenser)}
	})
	approval := b.ApprovedRent(kerneltest.Ann)
	_, paid := b.MustPay(approval)
	for i := range 600 {
		b.MustDo("look", fmt.Sprintf(`{"account":"%d"}`, i))
	}
	require.NoError(t, b.Kernel.CloseSession(context.Background(), "chat"))
	b.Pass(25 * time.Hour)
	c, err := b.Kernel.Condense(context.Background(), time.Time{})
	require.NoError(t, err)
	assert.EqualValues(t, 1200, c.Members)
	_, err = b.Kernel.Drop(context.Background())
	require.NoError(t, err)
	all := lines(t, store)
	assert.Equal(t, string(paid.Entry), string(all[paid.Index]))
	assert.NotNil(t, statement(t, all[paid.Index-1]).Decision)
}

// Nothing goes that too few entries would cover, and sets that are small now go with others later.
func TestSmallSetsWait(t *testing.T) {
	race.Alone(t)
	t.Parallel()
	w := old(t, 511)
	c := w.condense()
	assert.True(t, len(c.Entries) == 0 && c.Members == 0 && c.Checkpoint.Note != nil)
	assert.Equal(t, helm.Dropped{}, w.drop())
	w.fill("more", 1)
	w.close("more")
	w.later(25 * time.Hour)
	assert.EqualValues(t, 1024, w.condense().Members)
	assert.Zero(t, w.condense().Members, "again")
	assert.EqualValues(t, 1024, w.drop().Entries)
	assert.Equal(t, helm.Dropped{}, w.drop())
	w.verify()
}

// A kernel that judges nothing any more, or is none, lets nothing go.
func TestCondenseRefuses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	w := old(t, 600)
	_, err := w.kernel.Condense(ended, time.Time{})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = w.kernel.Drop(ended)
	assert.ErrorIs(t, err, context.Canceled)
	_, err = w.kernel.Condense(hostile{ctx}, time.Time{})
	assert.Error(t, err)
	require.NoError(t, w.kernel.Err())
	narrow, err := w.kernel.Narrow(kerneltest.Document(t, "helm: policy/v1\nlayer: P2\nname: task\n"))
	require.NoError(t, err)
	c, err := narrow.Condense(ctx, time.Time{})
	assert.True(t, err == nil && c.Members == 1200, "a narrowed kernel: %v", err)
	require.NoError(t, w.kernel.Close())
	for _, k := range []*helm.Kernel{w.kernel, narrow, nil, {}} {
		_, err := k.Condense(ctx, time.Time{})
		assert.Error(t, err)
		_, err = k.Drop(ctx)
		assert.Error(t, err)
	}
	assert.Empty(t, gone(t, w.store))
}

// condensing is a faulty store that lets go.
type condensing struct {
	*kerneltest.FaultyStore
	proofgraph.Condenser
}

// hostile is a context that panics.
type hostile struct{ context.Context }

func (hostile) Done() <-chan struct{} { panic("done") }
func (hostile) Err() error            { panic("err") }
