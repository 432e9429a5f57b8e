package evidence

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/guardian/past"
	"github.com/helmkernel/helm/internal/race"
)

// TestStories: a session is folded as its entries come, or when a policy asks, or again and again
// because the cache is too small. The past is the same each time, and the same as its maker's.
func TestStories(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	forge.Wander(m, 300, false)
	m.Checkpoint()
	pack := m.Pack(Write)
	for name, x := range map[string]struct {
		asked bool
		most  int
	}{"as it comes": {true, maxSessions}, "when asked": {false, maxSessions}, "again and again": {true, 2000},
		"one at a time": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			v := newVerifier(t.Context(), Options{Trust: m.Trust})
			v.replay.sessions.asked, v.replay.sessions.most = x.asked, x.most
			require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
			some, none := 0, 0
			for i := range 5 {
				session := fmt.Sprint("s", i)
				p := &logPast{r: &v.replay, chain: v.fold.chain(session), kept: &new(contracts.Inputs).State}
				truth := m.Past(session)
				for _, tool := range []string{"", "fs.list", "fs.read", "fs.stat"} {
					if a, b := p.Calls(tool), truth.Calls(tool); a != b {
						t.Errorf("%s: %d calls of %q, want %d", session, a, tool, b)
					}
				}
				for _, same := range []string{"", `{"/depth":0}`, `{"/depth":1}`, `{"/depth":9}`, `{"/path":"/srv/1"}`,
					`{"/lines":1,"/path":"/srv/2"}`, `{"/lines":0}`, `{"/x":0}`, `{"/y":0}`, `{"/z":0}`} {
					for _, tool := range []string{"fs.list", "fs.read", "fs.stat"} {
						values := forge.ValuesOf(t, same)
						want, err := truth.Receipt(tool, values)
						require.NoError(t, err)
						p.kept = &contracts.SessionState{Receipts: []contracts.PriorReceipt{{Tool: tool, Same: values}}}
						got, err := p.Receipt(tool, values)
						assert.True(t, err == nil && got.Time == want.Time && equal(got.Entry, want.Entry),
							"%s, %s, %s: %+v, %v; want %+v", session, tool, same, got, err, want)
						if got.Entry != nil {
							some++
						} else {
							none++
						}
					}
				}
				assert.Nil(t, p.trouble)
			}
			assert.True(t, some >= 30 && none >= 30, "%d receipts, %d that are none", some, none)
			w := v.replay.sessions.weight
			assert.False(t, w > x.most && len(v.replay.sessions.held) > 1, "%d bytes of %d sessions are held", w,
				len(v.replay.sessions.held))
		})
	}
}

// TestStoriesOfErased: where inputs of earlier calls are gone, kept inputs are believed in what the
// log cannot tell, and in nothing else.
func TestStoriesOfErased(t *testing.T) {
	t.Parallel()
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	forge.Wander(m, 300, true)
	m.Checkpoint()
	pack := m.Pack(Write)
	v := newVerifier(t.Context(), Options{Trust: m.Trust})
	require.NoError(t, v.inPack(bytes.NewReader(pack), int64(len(pack))))
	tried := map[string]int{}
	for i := range 5 {
		session := fmt.Sprint("s", i)
		for _, x := range []struct{ tool, same string }{{"fs.list", `{"/depth":0}`}, {"fs.list", `{"/depth":1}`},
			{"fs.list", `{"/depth":9}`}, {"fs.read", `{"/path":"/srv/1"}`},
			{"fs.read", `{"/lines":1,"/path":"/srv/2"}`}} {
			same := forge.ValuesOf(t, x.same)
			var latest *past.Run // of those that can be read
			var runs []past.Run
			for _, r := range m.Memory.Runs {
				if r.Session != session || r.Tool != x.tool {
					continue
				}
				runs = append(runs, r.Run)
				s := new(past.Session)
				s.Execute(r.Run, forge.ValuesOf(t, string(m.Memory.Args[r.Decision])), past.Facts{})
				if p, _ := s.Receipt(x.tool, same,
					func(past.Run) (crypto.Value, error) {
						return forge.ValuesOf(t, string(m.Memory.Args[r.Decision])), nil
					}); p.Entry != nil && !m.Memory.Erased[r.Decision] {
					latest = &r.Run
				}
			}
			ask := func(entry *contracts.Digest, at contracts.Time) bool {
				claim := contracts.PriorReceipt{Entry: entry, Same: same, Time: at, Tool: x.tool}
				p := &logPast{r: &v.replay, chain: v.fold.chain(session),
					kept: &contracts.SessionState{Receipts: []contracts.PriorReceipt{claim}}}
				got, err := p.Receipt(x.tool, same)
				if err != nil || p.trouble != nil {
					t.Fatal(err, p.trouble)
				}
				return equal(got.Entry, entry) && got.Time == at
			}
			if got, want := ask(nil, 0), latest == nil; got != want {
				t.Errorf("%s %v: none: %v", session, x, got)
			}
			tried[fmt.Sprint("none ", latest == nil)]++
			for _, r := range runs {
				want := latest != nil && latest.Entry == r.Entry || m.Memory.Erased[r.Decision] && (latest == nil ||
					latest.Receipt < r.Receipt)
				assert.Equal(t, want, ask(&r.Entry, r.Time), "%s %v: %d, where %+v can be read", session, x, r.Receipt,
					latest)
				tried[fmt.Sprint(m.Memory.Erased[r.Decision], want)]++
				assert.False(t, ask(&r.Entry, r.Time+1), "%s %v: another time is believed", session, x)
			}
			for _, other := range []contracts.Digest{{1}, v.fold.index.Hash(0), m.Memory.Runs[0].Entry,
				m.Memory.Runs[1].Entry, m.Memory.Runs[2].Entry} {
				mine := false
				for _, r := range runs {
					mine = mine || r.Entry == other
				}
				assert.False(t, !mine && ask(&other, forge.Start), "%s %v: another entry is believed", session, x)
			}
		}
	}
	assert.Len(t, tried, 6, "only %v were tried", tried)
}

// TestStoriesOfMany: of many sessions that are asked about no more is held than may be, and a run
// weighs what it takes.
func TestStoriesOfMany(t *testing.T) {
	race.Alone(t)
	n := 300_000
	if testing.Short() {
		n = 100_000
	}
	const room = 32 << 20
	x := sessionCache{most: room, asked: true}
	chains := make([]chain, n)
	st := &contracts.Statement{Decision: &contracts.DecisionRecord{Tool: "fs.read", Approvals: []contracts.Digest{{1}}}}
	ran := &contracts.Statement{Receipt: &contracts.Receipt{Tool: "fs.read", Outcome: contracts.Executed}}
	most := uint64(0)
	base := heap()
	for i := range chains {
		c := &chains[i]
		x.hold(c, new(session))
		x.weigh(c, c.held.add(st, uint64(i), contracts.Digest{}, 0, []string{fmt.Sprintf("%032d", i)}))
		x.weigh(c, c.held.add(ran, uint64(i), contracts.Digest{}, 0, nil))
		if i%10_000 == 9_999 {
			most = max(most, heap()-base)
		}
	}
	t.Logf("%d bytes at most of %d sessions", most, n)
	assert.True(t, most >= room/2 && most <= room, "%d bytes are held", most)
	runtime.KeepAlive(chains)

	x, base = sessionCache{most: maxSessions}, heap()
	c := new(chain)
	x.hold(c, new(session))
	for i := range 100_000 {
		x.weigh(c, c.held.add(ran, uint64(i), contracts.Digest{}, 0, nil))
	}
	if held := heap() - base; held > uint64(x.weight) || x.weight != ofSession+100_000*ofRun {
		t.Errorf("%d bytes of what weighs %d", held, x.weight)
	}
	x.shape(c, c.held, "fs.read", forge.ValuesOf(t, `{"/path":0}`))
	read := 0
	_, err := c.held.Receipt("fs.read", forge.ValuesOf(t, `{"/path":-1}`), func(past.Run) (crypto.Value, error) {
		read++
		return forge.ValuesOf(t, fmt.Sprintf(`{"path":%d}`, read)), nil
	})
	require.True(t, err == nil && read == 100_000, "%v %v", read, err)
	if held := heap() - base; held > uint64(x.weight) {
		t.Errorf("%d bytes of what weighs %d", held, x.weight)
	}
	runtime.KeepAlive(c)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestLieToldAgain: an ALLOW consumed a request, and the session's summary was dropped and is built
// again. What another request of the same call is said to be, used or not, is held to the log as if
// the session had been held: the first one's inputs are there, so nothing is left open.
func TestLieToldAgain(t *testing.T) {
	t.Parallel()
	for _, lies := range []bool{false, true} {
		d := forge.NewFixture(t)
		first := d.Pending(`{"amount":1}`)
		second := d.Pending(`{"amount":1}`)
		d.Allowed(d.Ask("pay", `{"amount":1}`, d.Approve(forge.SeedA, first))).Ran(`1`)
		d.Session = "s2"
		d.Look("/a")
		d.Allowed(d.Ask("act", `{"path":"/a"}`)).Ran(`1`) // which asks for the past of that one
		d.Session = "s1"
		ask := d.Ask("pay", `{"amount":1}`, d.Approve(forge.SeedA, second))
		if lies {
			d.Memory.Lie = func(p past.Past) past.Past {
				return forge.Liar{Past: p, FakeUsed: func(bool) bool { return true }}
			}
			d.Denied(contracts.ReasonApprovalInvalid, ask)
		} else {
			d.Allowed(ask).Ran(`1`)
		}
		d.Checkpoint()
		pack := d.Pack(Write)
		told := uint64(0)
		for _, most := range []int{maxSessions, 1} {
			v := newVerifier(t.Context(), Options{Trust: d.Trust})
			v.replay.sessions.most, v.replay.sessions.limit = most, most
			err := v.inPack(bytes.NewReader(pack), int64(len(pack)))
			assert.True(t, lies == errors.Is(err, ErrReplay) && (lies || err == nil),
				"lies %v, %d bytes of sessions: %v", lies, most, err)
			assert.False(t, most == 1 && v.replay.sessions.reread <= told, "no session was read again")
			told = v.replay.sessions.reread
		}
	}
}
