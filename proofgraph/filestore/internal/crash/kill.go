//go:build unix

package crash

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	wantedKills   = flag.Int("crash.kills", 0, "processes that TestCrashKill kills; 0: a few hundred")
	onlyDirectory = flag.Int("crash.directory", -1, "the one directory of TestCrashKill to repeat, by its number")
)

// A killRun starts processes and kills them, and audits the directories that they leave. It counts,
// from several goroutines.
type killRun struct {
	base   string
	oracle *secondVerifier // nil: there is none
	drops  bool            // the processes acknowledge what they do not store, and must be found out

	mu                                sync.Mutex
	counts                            // of the last audit of each directory
	kills                             map[string]int
	tried                             map[string]int
	directories, audits, torn, looked int
	oracles                           int
	wrong                             []string
}

func newKillRun(t *testing.T) *killRun {
	base, err := os.MkdirTemp("", "crash-kill-")
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			os.RemoveAll(base)
		}
	})
	return &killRun{base: base, kills: map[string]int{}, tried: map[string]int{}}
}

const atRandom = "at a random moment"

func (k *killRun) errorf(p *plan, format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wrong = append(k.wrong, fmt.Sprintf("directory %d, in %s: ", p.number,
		filepath.Join(k.base, fmt.Sprint(p.number)))+fmt.Sprintf(format, args...))
}

func (k *killRun) killed() (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.kills {
		n += m
	}
	return n
}

// run carries a plan out. It ends at the first violation, and then leaves everything as it is.
func (k *killRun) run(p *plan) {
	home := filepath.Join(k.base, fmt.Sprint(p.number))
	if err := os.Mkdir(home, 0o700); err != nil {
		k.errorf(p, "%v", err)
		return
	}
	v := &directory{killRun: k, plan: p, home: home, dir: filepath.Join(home, "log"),
		events: filepath.Join(home, "notes")}
	for i, s := range p.steps {
		if !v.kill(i+1, s) {
			return
		}
		if !s.unseen && !v.audit(i+1, i+1 == len(p.steps)) {
			return
		}
	}
	os.RemoveAll(home)
}

// Kill kills processes at each failpoint and at random moments, over and over, and audits the log
// in between.
//
//	go test ./proofgraph/filestore -run TestCrashKill -crash.kills 10000 -timeout 0 -v
func Kill(t *testing.T) {
	began, wanted := time.Now(), *wantedKills
	if wanted == 0 {
		wanted = defaultKills()
	}
	k := newKillRun(t)
	k.oracle = newSecondVerifier(t, k.base)
	if *onlyDirectory >= 0 {
		k.run(newPlan(*onlyDirectory, *Seed))
	} else {
		k.all(t, wanted)
	}
	k.report(t, began)
	if *onlyDirectory >= 0 {
		return
	}
	for _, f := range failpoints {
		n := k.tried[f.name]
		assert.False(t, k.kills[f.name] == 0 && (n >= 2 || wanted >= 200), "nothing was ever killed at %q, in %d tries",
			f.name, n)
	}
	if k.killed() < wanted || k.effects == 0 || k.decisions == 0 || k.receipts == 0 || k.acknowledged == 0 ||
		k.settled == 0 || k.torn == 0 || k.repeated == 0 || k.looked == 0 || k.packs == 0 || k.erased == 0 {
		t.Error("too few cases")
	}
}

// all goes from directory to directory until there were as many kills, or too many violations.
func (k *killRun) all(t *testing.T, wanted int) {
	var next int
	var lanes sync.WaitGroup
	for range max(2, runtime.GOMAXPROCS(0)) {
		lanes.Go(func() {
			for k.killed() < wanted {
				k.mu.Lock()
				number, enough := next, len(k.wrong) >= 10
				next++
				k.mu.Unlock()
				if enough {
					return
				}
				if k.run(newPlan(number, *Seed)); number%100 == 99 {
					t.Logf("%d directories, %d kills", number+1, k.killed())
				}
			}
		})
	}
	lanes.Wait()
}

func (k *killRun) report(t *testing.T, began time.Time) {
	t.Helper()
	for _, w := range k.wrong {
		t.Errorf("-crash.seed %d, %s", *Seed, w)
	}
	for _, name := range slices.Sorted(maps.Keys(k.tried)) {
		t.Logf("%5d kills: %s", k.kills[name], name)
	}
	if k.oracle == nil {
		t.Log("no ../shared/oracle: evidence was not verified by the second implementation")
	}
	t.Logf("%d kills (%d at failpoints, %d %s), %d directories, %d effects, %d decisions, %d receipts, %d "+
		"acknowledged, %d unknown outcomes settled, "+
		"%d torn tails repaired, %d blobs erased, %d keys repeated, %d packs verified, %d looks of an auditor, "+
		"running processes and dead ones, %d oracle runs, violations %d; seed %d, %v",
		k.killed(), k.killed()-k.kills[atRandom], k.kills[atRandom], atRandom, k.directories, k.effects, k.decisions,
		k.receipts, k.acknowledged, k.settled,
		k.torn, k.erased, k.repeated, k.packs, k.looked, k.oracles, len(k.wrong), *Seed,
		time.Since(began).Round(time.Second))
}

// KillFindsLiars kills processes whose store acknowledges what it does not write: an audit must
// find that.
func KillFindsLiars(t *testing.T) {
	k := newKillRun(t)
	k.drops = true
	for number := 0; number < 4 && len(k.wrong) == 0; number++ {
		k.run(newPlan(number, *Seed))
	}
	all := strings.Join(k.wrong, "\n")
	if !strings.Contains(all, "an acknowledged receipt is not there") ||
		!strings.Contains(all, "an effect without a durable decision") {
		t.Errorf("%d kills, and this was noticed:\n%s", k.killed(), all)
	}
	t.Logf("after %d kills: %d violations", k.killed(), len(k.wrong))
}
