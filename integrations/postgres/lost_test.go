//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/proofgraph"
)

// An append of which the answer, or the statement, is lost with the connection is known to be
// written or not, and is there once or not at all.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	p := newProxy(t, b.server)
	s := b.open("host="+p.dir+" port=5432 user=helm dbname="+b.name+" sslmode=disable", Options{})
	w, m := b.join(s), remember()
	ctx := t.Context()
	g, c := m.batch("a", 2)
	_, err := w.Put(ctx, g, c)
	require.NoError(t, err)
	m.wrote(c)
	n := uint64(2)
	for i := range 3 {
		for _, answers := range []bool{true, false} {
			for _, turn := range []bool{false, true} {
				name := fmt.Sprintf("round %d, answers %t, turn %t", i, answers, turn)
				g, c := m.batch("a", 3)
				at, err := n, error(nil)
				if turn {
					_, err = w.Turn(ctx, proofgraph.Ask{})
					require.NoError(t, err, name)
					p.lose(answers)
					err = w.End(ctx, c)
				} else {
					p.lose(answers)
					at, err = w.Put(ctx, g, c)
				}
				if answers {
					require.NoError(t, err, name)
					assert.Equal(t, n, at, name)
					m.wrote(c)
					n += 3
				} else {
					require.ErrorIs(t, err, proofgraph.ErrMoved, name)
				}
				assert.Equal(t, n, size(t, b.store()), name)
			}
		}
		p.lose(i%2 == 0)
		state, err := w.Turn(ctx, proofgraph.Ask{})
		require.NoError(t, err)
		assert.Equal(t, n, state.Size)
		p.lose(i%2 == 1)
		require.NoError(t, w.End(ctx, proofgraph.Change{}))
		p.lose(true)
		_, err = w.Dead(ctx)
		require.NoError(t, err)
	}
	assert.Len(t, texts(t, b.store()), int(n))
	assert.Equal(t, int64(len("x")), one[int64](b, "SELECT count(*) FROM writer"))
}

// A connection that was lost may be there still at the server, with the lock. It is ended, by a
// writer without any other right.
func TestOldConnectionIsEnded(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	p := newProxy(t, b.server)
	p.keeps = true
	s := b.open("host="+p.dir+" port=5432 user="+b.login("writer")+" dbname="+b.name+" sslmode=disable", Options{})
	w, m := b.join(s), remember()
	for i := range 4 {
		g, c := m.batch("a", 1)
		pid := w.link.pid
		p.lose(i%2 == 0)
		_, err := w.Put(t.Context(), g, c)
		if i%2 == 1 {
			require.ErrorIs(t, err, proofgraph.ErrMoved)
			continue
		}
		require.NoError(t, err)
		m.wrote(c)
		assert.NotEqual(t, pid, w.link.pid)
		assert.Zero(t, one[int](b, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid))
	}
	assert.Len(t, texts(t, b.store()), 2)
}

// A writer of which the connection was lost is fenced if another one finds it dead first.
func TestFencedBeforeItConnects(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	s := b.store()
	w, other, m := b.join(s), b.join(b.store()), remember()
	g, c := m.batch("a", 2)
	c.Opened = []int{1}
	_, err := w.Put(t.Context(), g, c)
	require.NoError(t, err)
	m.wrote(c)
	before := w.incarnation

	b.terminate(w.link.pid) // and it connects again, at its next call
	_, err = w.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, before+1, w.incarnation)
	open, err := other.Dead(t.Context())
	require.NoError(t, err)
	assert.Empty(t, open)

	b.terminate(w.link.pid)
	open, err = other.Dead(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []uint64{1}, open)
	g, c = m.batch("a", 1)
	_, err = w.Put(t.Context(), g, c)
	require.ErrorIs(t, err, proofgraph.ErrFenced)
	_, err = w.Turn(t.Context(), proofgraph.Ask{})
	require.ErrorIs(t, err, proofgraph.ErrFenced)
	require.NoError(t, w.Leave(t.Context()))
	assert.EqualValues(t, 2, size(t, s))
}

// A statement of a writer that comes late, of an incarnation before this one or of a fenced writer,
// changes nothing.
func TestDeliveredLate(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, other, m := b.join(b.store()), b.join(b.store()), remember()
	late := b.conn("")
	_, err := late.Exec(t.Context(), "SET search_path = helm")
	require.NoError(t, err)
	statement := func() (at int64) {
		g, c := m.batch("a", 1)
		var cols columns
		args := append([]any{w.log, w.id, w.incarnation}, cols.guessed(g)...)
		require.NoError(t, cols.err)
		require.NoError(t, late.QueryRow(t.Context(), statements["put"], append(args, cols.changed(&c)...)...).Scan(&at))
		if at >= 0 {
			m.wrote(c)
		}
		return at
	}
	assert.EqualValues(t, 0, statement(), "of the present incarnation")
	w.batch++
	w.incarnation--
	assert.EqualValues(t, fenced, statement())
	w.incarnation++
	assert.EqualValues(t, 1, statement())
	w.batch++
	b.terminate(w.link.pid)
	_, err = other.Dead(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, fenced, statement())

	var at int64
	_, c := m.batch("a", 1)
	var cols columns
	args := append([]any{w.log, w.id, w.incarnation, int64(2)}, cols.changed(&c)...)
	require.NoError(t, late.QueryRow(t.Context(), statements["write"], append(args, nil)...).Scan(&at))
	assert.EqualValues(t, fenced, at)
	assert.EqualValues(t, 2, size(t, b.store()))
}

// A writer whose context ended when it had lost its connection does not know what it has written,
// and appends no more. It can leave: nothing of it is written after that, and it is not fenced.
func TestLeaveAfterContextEnded(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	s := b.store()
	w, other, m := b.join(s), b.join(b.store()), remember()
	ctx, cancel := context.WithCancel(t.Context())
	s.connecting = func(*writer) { cancel() }
	_, err := other.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	pid := w.link.pid
	var ends sync.WaitGroup
	ends.Go(func() {
		time.Sleep(50 * time.Millisecond) // it waits for the turn
		b.terminate(pid)
	})
	g, c := m.batch("a", 1)
	_, err = w.Put(ctx, g, c)
	require.ErrorIs(t, err, context.Canceled)
	ends.Wait()
	require.NoError(t, other.End(t.Context(), proofgraph.Change{}))
	_, err = w.Put(t.Context(), g, c)
	require.ErrorIs(t, err, context.Canceled)
	s.connecting = nil
	require.NoError(t, w.Leave(t.Context()))
	require.NoError(t, w.Leave(t.Context()))
	assert.Zero(t, size(t, s))
	left := fmt.Sprintf("SELECT gone AND NOT fenced FROM writer WHERE id = %d", w.id)
	assert.True(t, one[bool](b, left))
	_, err = w.Put(t.Context(), g, c)
	require.ErrorIs(t, err, errLeft)
}

// A writer of a database that was put back has an error: what was acknowledged is not there.
func TestPutBack(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"UPDATE writer SET batch = batch - 1", "DELETE FROM writer",
		"UPDATE writer SET incarnation = 7"} {
		b := newBase(t, server(t))
		w, m := b.join(b.store()), remember()
		g, c := m.batch("a", 1)
		_, err := w.Put(t.Context(), g, c)
		require.NoError(t, err)
		b.exec(change)
		b.terminate(w.link.pid)
		g, c = m.batch("b", 1)
		for range 2 {
			_, err = w.Put(t.Context(), g, c)
			require.ErrorContains(t, err, "the server has forgotten", change)
		}
		assert.EqualValues(t, 1, size(t, b.store()))
	}
}

// A process that hangs in its turn loses it.
func TestHangInTurn(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	w, other, m := b.join(b.store()), b.join(b.store()), remember()
	_, err := w.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	g, c := m.batch("b", 1)
	began := time.Now()
	_, err = other.Put(t.Context(), g, c)
	require.NoError(t, err)
	t.Logf("the log was free after %v", time.Since(began).Round(time.Millisecond))
	_, c = m.batch("a", 1)
	require.ErrorIs(t, w.End(t.Context(), c), proofgraph.ErrMoved)
	g, c = m.batch("a", 1)
	at, err := w.Put(t.Context(), g, c)
	require.NoError(t, err, "it was not fenced")
	assert.EqualValues(t, 1, at)
}

// A process that hangs in its turn, and has sent a part of a statement, loses it too: the server
// waits for the rest, and the others end that.
func TestHangInStatement(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	user := b.login("writer")
	s := b.open(b.server.As(user, b.name), Options{})
	w, other, m := b.join(s), b.join(b.open(b.server.As(user, b.name), Options{})), remember()
	_, err := w.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	send := w.link.PgConn().Frontend()
	send.SendBind(&pgproto3.Bind{PreparedStatement: "commit"})
	require.NoError(t, send.Flush())
	began := time.Now()
	_, err = other.Turn(t.Context(), proofgraph.Ask{})
	require.NoError(t, err)
	t.Logf("the log was free after %v", time.Since(began).Round(time.Millisecond))
	_, c := m.batch("b", 1)
	require.NoError(t, other.End(t.Context(), c))
	_, c = m.batch("a", 1)
	require.ErrorIs(t, w.End(t.Context(), c), proofgraph.ErrMoved)
	g, c := m.batch("a", 1)
	at, err := w.Put(t.Context(), g, c)
	require.NoError(t, err, "it was not fenced")
	assert.EqualValues(t, 1, at)
}

// A crowd is writers that put what they can.
type crowd struct {
	base
	all   sync.WaitGroup
	once  sync.Once
	stop  chan struct{}
	acked [3]int // entries of each that were acknowledged
	moved [3]int
}

func newCrowd(b base, s func() *Store) *crowd {
	c := &crowd{base: b, stop: make(chan struct{})}
	for i := range c.acked {
		w, m := b.join(s()), remember()
		c.all.Go(func() {
			for c.goesOn() {
				g, x := m.batch(fmt.Sprint(i), 3)
				_, err := w.Put(context.Background(), g, x)
				if errors.Is(err, proofgraph.ErrMoved) {
					c.moved[i]++
					continue
				}
				if !assert.NoError(b, err) {
					return
				}
				m.wrote(x)
				c.acked[i] += 3
			}
		})
	}
	b.Cleanup(c.rest) // before the stores are closed
	return c
}

// rest waits until the writers have ended.
func (c *crowd) rest() {
	c.once.Do(func() { close(c.stop) })
	c.all.Wait()
}

func (c *crowd) goesOn() bool {
	select {
	case <-c.stop:
		return false
	default:
		return true
	}
}

// end waits for the writers, and compares what is there with what was acknowledged: every entry is
// there, once, and nothing else is.
func (c *crowd) end() {
	c.Helper()
	c.rest()
	s := c.store()
	sum := 0
	for i, acked := range c.acked {
		n := 0
		for e, err := range s.Session(context.Background(), fmt.Sprint(i), 0) {
			require.NoError(c, err)
			require.Equal(c, fmt.Sprintf("entry %d of %d", n, i), string(e.Entry))
			n++
		}
		assert.Equal(c, acked, n)
		sum += n
	}
	assert.Len(c, texts(c, s), sum)
	assert.Greater(c, sum, 30)
	c.Logf("%v entries; %v batches had to be put again", c.acked, c.moved)
}

func TestServerEndsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBase(t, ownServer(t))
	c := newCrowd(b, b.store)
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, b.server.Stop(true))
		require.NoError(t, b.server.Start())
	}
	time.Sleep(time.Second) // for writers to connect again
	c.end()
}

// A process of the server is killed, so that all of them end and recover.
func TestBackendsAreKilled(t *testing.T) {
	t.Parallel()
	b := newBase(t, ownServer(t))
	c := newCrowd(b, b.store)
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		watch := b.conn("")
		require.Eventually(t, func() bool { // they may just be connecting, or again
			pid := one[int32](b, `SELECT coalesce(min(pid), 0) FROM pg_stat_activity
				WHERE query LIKE '%put(%' AND pid <> pg_backend_pid()`)
			return pid != 0 && syscall.Kill(int(pid), syscall.SIGKILL) == nil
		}, 30*time.Second, 5*time.Millisecond)
		require.Eventually(t, func() bool { return watch.Ping(t.Context()) != nil }, 30*time.Second, 5*time.Millisecond)
		require.Eventually(t, func() bool {
			conn, err := pgx.Connect(t.Context(), b.url())
			return err == nil && conn.Close(t.Context()) == nil
		}, 30*time.Second, 20*time.Millisecond)
	}
	time.Sleep(time.Second)
	c.end()
}

func TestConnectionsEndAtRandom(t *testing.T) {
	t.Parallel()
	b := newBase(t, server(t))
	p := newProxy(t, b.server)
	url := "host=" + p.dir + " port=5432 user=helm dbname=" + b.name + " sslmode=disable"
	c := newCrowd(b, func() *Store { return b.open(url, Options{}) })
	conn := b.conn("")
	random := rand.New(rand.NewPCG(1, 2))
	ends, until := 0, time.Now().Add(4*time.Second)
	for ; time.Now().Before(until); ends++ {
		switch random.IntN(4) {
		case 0:
			p.lose(true)
		case 1:
			p.lose(false)
		default:
			_, err := conn.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1) x`)
			require.NoError(t, err)
		}
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond)
	}
	t.Logf("%d ends of connections", ends)
	c.end()
}

// Nothing is acknowledged that a standby has to have and may not have: no test of this runs at the
// same time, because it changes how long things take.
func TestStandbyWaitCancelled(t *testing.T) {
	b := newBase(t, ownServer(t))
	w, m := b.join(b.store()), remember()
	g, c := m.batch("a", 1)
	_, err := w.Put(t.Context(), g, c)
	require.NoError(t, err)
	m.wrote(c)
	defer func(answer, again time.Duration) { answerTime, againTime = answer, again }(answerTime, againTime)
	answerTime, againTime = 700*time.Millisecond, 3*time.Second
	standby := func(name string) {
		conn := b.conn("")
		_, err := conn.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'")
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "SELECT pg_reload_conf()")
		require.NoError(t, err)
		time.Sleep(200 * time.Millisecond)
	}
	standby("nobody")
	g, c = m.batch("a", 1)
	for err = proofgraph.ErrMoved; errors.Is(err, proofgraph.ErrMoved); { // it may be cancelled before it commits
		_, err = w.Put(t.Context(), g, c)
	}
	require.Error(t, err)
	t.Log(err)

	// It is there after all: the wait ends before the writer ends.
	standby("")
	answerTime, againTime = 30*time.Second, time.Minute
	w = b.join(b.store())
	n := size(t, b.store())
	standby("nobody")
	answerTime = 700 * time.Millisecond
	done := make(chan error)
	var at uint64
	go func() {
		g, c := remember().batch("b", 1)
		err := proofgraph.ErrMoved
		for errors.Is(err, proofgraph.ErrMoved) {
			at, err = w.Put(context.Background(), g, c)
		}
		done <- err
	}()
	time.Sleep(2 * time.Second)
	standby("")
	require.NoError(t, <-done)
	assert.Equal(t, n, at)
	assert.Equal(t, n+1, size(t, b.store()))
}
