package evidence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/internal/race"
)

// turns has some sessions, of as many calls each, which take turns and ask how many calls there
// were.
func turns(t testing.TB, sessions, calls int) *forge.Fixture {
	d := forge.NewFixture(t)
	for range calls {
		for i := range sessions {
			d.Session = fmt.Sprint("s", i)
			d.Look("/a")
		}
	}
	return d
}

// TestNotAgainAndAgain: if sessions need more memory than the cache has, it grows up to its limit,
// so that none is folded again at each question.
func TestNotAgainAndAgain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	d := turns(t, 8, 40)
	for i := range 3 {
		d.Close(fmt.Sprint("s", i))
	}
	d.Checkpoint()
	pack := d.Pack(Write)
	for _, limit := range []int{8_000, 1 << 20} {
		v := newVerifier(t.Context(), Options{Trust: d.Trust})
		v.replay.sessions.most, v.replay.sessions.limit = 8_000, limit
		require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
		t.Logf("limit %d: %d entries read again, of %d; room %d", limit, v.replay.sessions.reread, v.fold.size(),
			v.replay.sessions.most)
		assert.Equal(t, (limit == 8_000), v.replay.sessions.reread > 10*v.fold.size(),
			"limit %d: %d entries were read again, of %d", limit, v.replay.sessions.reread, v.fold.size())
		assert.True(t, v.replay.sessions.most <= limit, "limit %d: room for %d", limit, v.replay.sessions.most)
		held := 0
		for i := range 8 {
			if s := v.fold.chain(fmt.Sprint("s", i)).held; s != nil && i < 3 {
				t.Errorf("s%d is closed and held", i)
			} else if s != nil {
				held += s.weight
			}
		}
		assert.Equal(t, held, v.replay.sessions.weight, "limit %d: %d bytes are held, and %d counted", limit, held,
			v.replay.sessions.weight)
	}
}

// A canceling reader ends the context at the nth read.
type canceling struct {
	io.ReaderAt
	n      int
	cancel func()
}

func (c *canceling) ReadAt(b []byte, at int64) (int, error) {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return c.ReaderAt.ReadAt(b, at)
}

// TestEndsWhileToldAgain: Verify ends with its context, wherever it is, and that is no fault of the
// pack.
func TestEndsWhileToldAgain(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	d := forge.NewFixture(t)
	for range 30 {
		d.Allowed(d.Ask("open", `{}`)).Ran(`1`)
	}
	d.Allowed(d.Ask("act", `{"path":"/a"}`)) // which is the first to ask
	d.Checkpoint()
	pack := d.Pack(Write)
	ended := 0
	for n := 1; ; n++ {
		ctx, cancel := context.WithCancel(t.Context())
		r := &canceling{bytes.NewReader(pack), n, cancel}
		report, err := Verify(ctx, r, int64(len(pack)), Options{Trust: d.Trust})
		cancel()
		if r.n > 0 {
			break
		}
		if ended++; !errors.Is(err, context.Canceled) || report.Fault != nil || report.Level != Invalid {
			t.Fatalf("at read %d: %+v, %v", n, report, err)
		}
	}
	assert.True(t, ended >= 20, "it ended %d times", ended)

	v := newVerifier(t.Context(), Options{Trust: d.Trust})
	require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v.reread.ctx, v.fold.chain("s1").held = ctx, nil
	p := &logPast{r: &v.replay, chain: v.fold.chain("s1"), kept: &new(contracts.Inputs).State}
	if p.Calls(""); p.trouble == nil || !errors.Is(p.trouble, context.Canceled) {
		t.Errorf("a session was told after the end: %v", p.trouble)
	}
}

// TestAskedWhatCannotBeRead: another entry in the place of one that was verified is a fault.
// Questions that follow one which failed are answered, and their answers are of no use.
func TestAskedWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	d := turns(t, 1, 3)
	d.Checkpoint()
	pack := d.Pack(Write)
	v := newVerifier(t.Context(), Options{Trust: d.Trust})
	require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
	v.reread.marks[0] = v.reread.marks[1]
	_, f := v.reread.statement(0)
	require.True(t, f != nil && errors.Is(f, errChanged), "%v", f)
	_, f = v.reread.said(crypto.Sum([]byte("there at first, and now not")), false)
	require.True(t, f != nil && errors.Is(f, errLetGo), "%v", f)
	v.pack.r, v.reread.second, v.fold.chain("s0").held = gone{}, nil, nil
	p := &logPast{r: &v.replay, chain: v.fold.chain("s0"), kept: &new(contracts.Inputs).State}
	_, err := p.Receipt("look", forge.ValuesOf(t, `{"/path":"/a"}`))
	assert.Error(t, err, "an answer of nothing")
	assert.True(t, p.trouble != nil && errors.Is(p.trouble, errDisk), "no trouble: %v", p.trouble)
	v.reread.second = &rereading{} // which panics
	p.Calls("")
}
