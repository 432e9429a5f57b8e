//go:build unix

package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/integrations/postgres/pgtest"
	"github.com/helmkernel/helm/internal/shared"
)

// patience is how long anything may take that a test waits for, on a machine that has other things
// to do. Nothing is said of how long it takes.
const patience = 3 * time.Minute

// A fleet is the processes over one log.
type fleet struct {
	testing.TB
	server   *pgtest.Server
	database string
	store    *postgres.Store // of the parent, who reads
	ledger   *ledger
	dir      string
	seed     uint64
	sabotage string
	found    []string // what is wrong
	slots    []*process
	started  int // processes so far
	sealed   map[string]int
	odd      map[string]int
}

// A process is a child.
type process struct {
	number int // whose key it has
	slot   int
	cmd    *exec.Cmd
	in     io.WriteCloser
	proxy  *proxy
	errors bytes.Buffer  // what it wrote to its standard error; read it after ended
	said   chan string   // did, and ready
	ended  chan struct{} // closed when it has ended

	mu     sync.Mutex // protects the fields below
	left   bool
	sealed string
	odd    []string
	killed bool // its end is the test's doing
}

// newFleet makes a log, and no process yet.
func newFleet(t testing.TB, s *pgtest.Server, seed uint64) *fleet {
	t.Helper()
	ctx := context.Background()
	f := &fleet{TB: t, server: s, dir: t.TempDir(), seed: seed, sealed: map[string]int{}, odd: map[string]int{}}
	var err error
	f.database, err = s.Database(ctx)
	require.NoError(t, err)
	conn, err := pgx.Connect(ctx, s.URL(f.database))
	require.NoError(t, err)
	defer conn.Close(ctx)
	require.NoError(t, postgres.Migrate(ctx, conn, ""))
	_, err = conn.Exec(ctx, fences, pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	f.store, err = postgres.Open(ctx, s.URL(f.database)+" pool_max_conns=2", postgres.Options{Origin: origin})
	require.NoError(t, err)
	t.Cleanup(func() { f.store.Close() })
	f.ledger = newLedger(filepath.Join(f.dir, "runs"), filepath.Join(f.dir, "acks"), f.wrong)
	t.Cleanup(func() {
		for _, p := range f.slots {
			if p != nil {
				p.kill()
			}
		}
	})
	return f
}

// fences makes the server note how long the log was when a writer was fenced: nothing of that
// writer may have that index or a larger one.
const fences = `
CREATE TABLE public.fence (writer integer, size bigint);
CREATE FUNCTION public.fence() RETURNS trigger LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	INSERT INTO public.fence SELECT NEW.id, size FROM helm.log WHERE id = NEW.log;
	RETURN NULL;
END
$$;
CREATE TRIGGER fence AFTER UPDATE OF fenced ON helm.writer
	FOR EACH ROW WHEN (NEW.fenced) EXECUTE FUNCTION public.fence();
`

// wrong notes what is wrong with the log.
func (f *fleet) wrong(format string, args ...any) {
	f.found = append(f.found, fmt.Sprintf(format, args...))
	if f.sabotage == "" {
		f.Errorf("seed %d: log %s: %s", f.seed, f.database, f.found[len(f.found)-1])
	}
}

// eventually waits until something is so. The server may be away meanwhile.
func (f *fleet) eventually(what string, is func() bool) {
	f.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			f.Fatalf("seed %d: log %s: %s: not after %v", f.seed, f.database, what, patience)
		}
	}
}

// start starts a process in a slot. It returns when the kernel is there, or has failed. The hook of
// its proxy, if there is one, sees all that it sends.
func (f *fleet) start(slot int, load bool, arm ...func(*process) hook) *process {
	f.Helper()
	require.Less(f, f.started, maxProcesses-1, "there are no keys for more processes: %v", f.sealed)
	p := &process{number: f.started, slot: slot, said: make(chan string, 64), ended: make(chan struct{})}
	f.started++
	if slot < len(f.slots) && f.slots[slot] != nil {
		p.proxy = f.slots[slot].proxy
	} else {
		p.proxy = newProxy(f, f.server)
	}
	p.proxy.on(nil)
	p.proxy.mu.Lock()
	p.proxy.rewrite = rewrites[f.sabotage]
	p.proxy.mu.Unlock()
	o := orders{URL: fmt.Sprintf("host=%s port=5432 user=helm dbname=%s sslmode=disable pool_max_conns=3 "+
		"application_name='process %d'",
		p.proxy.dir, f.database, p.number),
		Process: p.number, Slot: slot, Runs: f.ledger.runs.name, Acks: f.ledger.acks.name, Load: load,
		Seed: f.seed + uint64(p.number), Sabotage: f.sabotage}
	self, err := os.Executable()
	require.NoError(f, err)
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), ordersVariable+"="+string(must(json.Marshal(o))))
	p.cmd.Stderr = &p.errors
	p.in, err = p.cmd.StdinPipe()
	require.NoError(f, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(f, err)
	for len(f.slots) <= slot {
		f.slots = append(f.slots, nil)
	}
	f.slots[slot] = p
	for _, a := range arm {
		p.proxy.on(a(p))
	}
	p.mu.Lock()
	err = p.cmd.Start()
	p.mu.Unlock()
	require.NoError(f, err)
	go p.listen(out)
	select {
	case <-p.said:
	case <-p.ended:
	case <-time.After(patience):
		f.Fatalf("seed %d: log %s: process %d does not begin", f.seed, f.database, p.number)
	}
	return p
}

// listen reads what a process says until it has ended.
func (p *process) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		what, why, _ := strings.Cut(lines.Text(), " ")
		p.mu.Lock()
		switch what {
		case "odd":
			p.odd = append(p.odd, why)
		case "sealed":
			p.sealed = why
		case "left":
			p.left = true
		case "ready", "did":
			select {
			case p.said <- what:
			default:
			}
		default: // a race, a panic
			p.odd = append(p.odd, "unexpected: "+lines.Text())
		}
		p.mu.Unlock()
	}
	p.cmd.Wait()
	close(p.ended)
}

// kill kills a process, and returns when it has ended.
func (p *process) kill() {
	p.mu.Lock()
	p.killed = true
	p.cmd.Process.Kill()
	p.mu.Unlock()
	<-p.ended
}

// signal stops a process, or has it go on.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd.Process.Signal(s)
}

// tell has a process make a call, and waits until it has ended. It reports false if the process has
// ended.
func (p *process) tell(line string) bool {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		<-p.ended
		return false
	}
	select {
	case <-p.said:
		return true
	case <-p.ended:
		return false
	}
}

// running reports whether a process has not ended.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// names are what differs between two texts of one error.
var names = regexp.MustCompile(`[^ ]*[0-9][^ ]*`)

// gone notes how a process ended, which must be in one of the ways that there are.
func (f *fleet) gone(p *process) {
	f.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, why := range p.odd {
		f.odd[names.ReplaceAllString(why, "…")]++
		if strings.HasPrefix(why, "unexpected") {
			f.Errorf("seed %d: process %d: %s", f.seed, p.number, why)
		}
	}
	if p.sealed != "" {
		f.sealed[p.sealed]++
	}
	if p.errors.Len() > 0 || !p.killed && !p.left && p.sealed == "" {
		f.Errorf("seed %d: process %d has ended, %v: %s", f.seed, p.number, p.cmd.ProcessState, p.errors.String())
	}
}

// tend starts processes in the slots of those that have ended.
func (f *fleet) tend() {
	f.Helper()
	for slot, p := range f.slots {
		if p != nil && !p.running() {
			f.gone(p)
			f.start(slot, true)
		}
	}
}

// check compares the log with what the processes have noted.
func (f *fleet) check() {
	f.Helper()
	f.eventually("the log can be read", func() bool {
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		return f.ledger.read(ctx, f.store) == nil
	})
}

// goOn waits until each process has been given another receipt, and checks the log. Processes that
// have ended are started again.
func (f *fleet) goOn() {
	f.Helper()
	f.eventually("all processes go on", f.going(nil))
}

// going returns a function that checks the log, and reports whether each process but one has been
// given another receipt since.
func (f *fleet) going(but *process) func() bool {
	f.tend()
	f.check()
	before := map[int]int{}
	for _, p := range f.slots {
		before[p.number] = f.ledger.acked[p.number]
	}
	return func() bool {
		f.tend()
		f.check()
		for _, p := range f.slots {
			if p != but && f.ledger.acked[p.number] <= before[p.number] {
				return false
			}
		}
		return true
	}
}

// end stops the processes, has what they left settled, and checks everything.
func (f *fleet) end() evidence.Report {
	f.Helper()
	for _, p := range f.slots {
		if p != nil && p.running() {
			p.proxy.on(nil)
			io.WriteString(p.in, "stop\n")
		}
	}
	for slot, p := range f.slots {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
		case <-time.After(patience):
			p.kill()
			f.Errorf("seed %d: process %d does not stop", f.seed, p.number)
		}
		f.gone(p)
		f.slots[slot] = nil
	}
	ctx := context.Background()
	k, err := open(f.store, f.started, executor.Func(nothing))
	require.NoError(f, err)
	defer k.Close()
	f.started++
	_, err = k.Checkpoint(ctx)
	require.NoError(f, err)
	f.check()
	f.ledger.ended()
	if err := f.store.Check(ctx); err != nil {
		f.wrong("%v", err)
	}
	f.fenced()
	var pack bytes.Buffer
	require.NoError(f, evidence.Write(ctx, &pack, f.store, keyOf(f.started-1)))
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: k.Trust(), Origin: origin})
	require.NoError(f, err)
	if !r.Success(evidence.Logged) || r.Replay.Differing > 0 || r.Replay.Replayed == 0 || r.Size != f.ledger.size {
		f.wrong("the pack: %v", r)
	}
	f.agree(pack.Bytes(), k.Trust().Canonical(), r)
	return r
}

// nothing is a tool that is not called.
func nothing(context.Context, json.RawMessage) (json.RawMessage, error) { panic("a call of nobody") }

// fenced compares what writers wrote with how long the log was when they were fenced.
func (f *fleet) fenced() {
	f.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, f.server.URL(f.database))
	require.NoError(f, err)
	defer conn.Close(ctx)
	var holes int64
	require.NoError(f, conn.QueryRow(ctx, "SELECT max(index) + 1 - count(*) FROM helm.entry").Scan(&holes))
	if holes != 0 {
		f.wrong("%d indexes are missing", holes)
	}
	process := map[uint64]int{}
	for hash, d := range f.ledger.decisions {
		process[f.ledger.index[hash]] = d.process
	}
	writers := map[int]int{} // by process
	rows, err := conn.Query(ctx, "SELECT index, writer FROM helm.open")
	require.NoError(f, err)
	var index, size uint64
	var writer int
	_, err = pgx.ForEachRow(rows, []any{&index, &writer}, func() error {
		p, ok := process[index]
		if !ok { // it came after the entries were read
			return nil
		}
		if w, ok := writers[p]; ok && w != writer {
			f.wrong("process %d is the writers %d and %d", p, w, writer)
		}
		writers[p] = writer
		return nil
	})
	require.NoError(f, err)
	sizes := map[int]uint64{}
	rows, err = conn.Query(ctx, "SELECT writer, size FROM public.fence")
	require.NoError(f, err)
	_, err = pgx.ForEachRow(rows, []any{&writer, &size}, func() error {
		sizes[writer] = size
		return nil
	})
	require.NoError(f, err)
	for p, w := range writers {
		if n, ok := sizes[w]; ok && f.ledger.last[p] >= n {
			f.wrong("process %d wrote entry %d, and was fenced when the log had %d", p, f.ledger.last[p], n)
		}
	}
}

var agreed sync.Map // by the name of a test, whose other packs are not compared

// agree has the second implementation verify one pack of each test.
func (f *fleet) agree(pack, state []byte, report evidence.Report) {
	f.Helper()
	if _, already := agreed.LoadOrStore(f.Name(), true); already || f.sabotage != "" {
		return
	}
	if !shared.Have(f, "oracle-next") {
		f.Log("no ../shared/oracle-next: the pack is not compared with the second implementation")
		return
	}
	for name, b := range map[string][]byte{"pack.tar": pack, "trust.json": state} {
		require.NoError(f, os.WriteFile(filepath.Join(f.dir, name), b, 0o600))
	}
	verify := exec.Command(shared.Oracle(f, ""), "verify", "-trust", "trust.json", "-origin", origin, "pack.tar")
	verify.Dir = f.dir
	out, err := verify.CombinedOutput()
	s := string(out)
	if err != nil || !strings.Contains(s, report.MerkleRoot.String()) || !strings.Contains(s, `"LOGGED"`) {
		f.wrong("the second implementation: %v\n%s", err, s)
	}
	f.Logf("the second implementation agrees about %d entries", report.Size)
}
