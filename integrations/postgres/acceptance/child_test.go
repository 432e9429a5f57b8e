//go:build unix

package acceptance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

const origin = "example.com/acceptance"

// The tool read has no budget, so that its calls can be guessed. The budget few is exceeded all the
// time, and has refunds that others wait for.
const rules = `
helm: policy/v1
layer: P1
bundle: {name: acceptance, version: 1}
tools:
  read:
    effect: read
    input: {type: object, properties: {size: {type: integer}}}
  write:
    effect: write
    input: {type: object, properties: {size: {type: integer}}}
  scarce:
    effect: write
    input: {type: object, required: [size], properties: {size: {type: integer}}}
  pay:
    effect: write
    input: {type: object, properties: {size: {type: integer}}}
  never:
    effect: write
    input: {type: object, properties: {size: {type: integer}}}
rules:
  - {id: all, allow: [read, write, scarce, pay]}
requires:
  - {id: owner, tools: [pay], all: [{approval: {roles: [owner], ttl: 10m}}]}
budgets:
  - {id: calls, tools: [write], limit: 1000000, per: all, window: total, cost: 1, refund: error}
  - {id: few, tools: [scarce], limit: 20, per: all, window: total, cost: {arg: /size}, refund: error}
`

// maxProcesses is how many processes a log may have, each of which has its own key.
const maxProcesses = 200

// key returns the key of a name.
func key(name string) crypto.PrivateKey {
	seed := crypto.Sum([]byte(name))
	return must(crypto.NewKeyFromSeed(seed[:]))
}

func keyOf(process int) crypto.PrivateKey { return key(fmt.Sprint("process ", process)) }

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// trust is the registry of all logs.
var trust = sync.OnceValue(func() *registry.Registry {
	root, owner := must(crypto.PublicOf(key("root"))), must(crypto.PublicOf(key("owner")))
	keys := []registry.Key{{Name: "root", Public: root, Role: registry.Root},
		{Name: "owner", Public: owner, Role: registry.Approver, Roles: []string{"owner"}}}
	for i := range maxProcesses {
		public := must(crypto.PublicOf(keyOf(i)))
		keys = append(keys, registry.Key{Name: fmt.Sprint("process ", i), Public: public, Role: registry.Kernel})
	}
	return must(registry.New(1, keys...))
})

// open returns a kernel, which signs with the key of a process, over a store.
func open(s proofgraph.Store, process int, tool executor.Driver) (*helm.Kernel, error) {
	doc, err := policy.Parse("acceptance.yaml", []byte(rules))
	if err != nil {
		return nil, err
	}
	p, err := guardian.Compile(doc)
	if err != nil {
		return nil, err
	}
	drivers := map[string]executor.Driver{}
	for _, name := range []string{"read", "write", "scarce", "pay"} {
		drivers[name] = tool
	}
	return helm.New(helm.Options{Policy: p, Key: keyOf(process), LogKey: key("log"), Origin: origin, Store: s,
		Trust: trust(), Drivers: drivers, Checkpoint: helm.Checkpoints{Every: 500}})
}

// Orders are for a child.
type orders struct {
	URL      string // of the database
	Process  int    // whose key it signs with
	Slot     int    // whose sessions its own are
	Runs     string // the file of effects
	Acks     string // the file of results
	Seed     uint64
	Load     bool   // it makes calls of its own; otherwise those that it is told to
	Sabotage string // what it does wrong; see sabotage_test.go
}

const ordersVariable = "HELM_ACCEPTANCE_ORDERS"

// A child is a process with a kernel. It says on its standard output how it is, a line each time:
//
//	ready        the kernel is there
//	odd WHY      a call had no receipt, and no fault was made here
//	did          a call that it was told to make has ended
//	sealed WHY   the kernel is sealed; then the process ends
//	left         it was told to stop, and has closed its kernel; then it ends
type child struct {
	orders
	store  *postgres.Store
	kernel *helm.Kernel
	runs   *os.File
	acks   *os.File
	stop   chan struct{}
}

// run is a child from beginning to end. It returns the exit code.
func (o orders) run() int {
	c := &child{orders: o, stop: make(chan struct{})}
	if err := c.begin(); err != nil {
		fmt.Println("sealed", err)
		return 0
	}
	fmt.Println("ready")
	var all sync.WaitGroup
	if o.Load {
		for g := range 4 {
			all.Go(func() { c.load(g) })
		}
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && in.Text() != "stop" {
		c.told(in.Text())
		fmt.Println("did")
	}
	if in.Text() != "stop" {
		return 0 // who started it has ended
	}
	close(c.stop)
	all.Wait()
	c.kernel.Close()
	c.store.Close()
	fmt.Println("left")
	return 0
}

func (c *child) begin() (err error) {
	for _, f := range []struct {
		file **os.File
		name string
	}{{&c.runs, c.Runs}, {&c.acks, c.Acks}} {
		if *f.file, err = os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err != nil {
			return err
		}
	}
	if c.store, err = postgres.Open(context.Background(), c.URL, postgres.Options{Origin: origin}); err != nil {
		return err
	}
	var s proofgraph.Store = c.store
	if c.Sabotage == ranEarly {
		s = early{c.store, c}
	}
	c.kernel, err = open(s, c.Process, c)
	return err
}

// ended ends the process if the kernel is sealed.
func (c *child) ended() {
	if err := c.kernel.Err(); err != nil {
		fmt.Println("sealed", strings.ReplaceAll(err.Error(), "\n", "; "))
		c.store.Close() // the others need not wait for keepalives
		os.Exit(0)
	}
}

// size is the number of bytes of a line in the files of a child. It is a divisor of the size of a
// page, so that a process that is killed writes all of a line or nothing.
const size = 256

// note appends a line to a file, by one write.
func note(f *os.File, words ...any) {
	line := fmt.Sprintf("%-*s\n", size-1, strings.TrimSuffix(fmt.Sprintln(words...), "\n"))
	if len(line) != size {
		panic("a line of another length")
	}
	must(f.WriteString(line))
}

// Run makes a child the driver of its tools. Each run appends a line to the file of effects before
// all else.
func (c *child) Run(_ context.Context, call contracts.Call) (executor.Result, error) {
	if c.Sabotage != ranEarly {
		note(c.runs, call.Permit.Decision.Hash(), c.Process)
	}
	var args struct{ Size int }
	if err := json.Unmarshal(call.Args, &args); err != nil {
		return executor.Result{}, err
	}
	time.Sleep(time.Duration(args.Size%4) * time.Millisecond)
	if args.Size%3 == 0 || call.Tool == "scarce" && args.Size%5 != 0 {
		return executor.Result{}, errors.New("the tool has failed") // and the charge is returned
	}
	return executor.Result{Output: call.Args}, nil
}

// guard makes a call, and notes its receipt as soon as it is there.
func (c *child) guard(in helm.Intent) helm.Decision {
	d, r := c.kernel.Guard(context.Background(), in)
	if c.Sabotage == ranTwice && d.Allowed() {
		note(c.runs, r.Record.DecisionHash, c.Process)
	}
	if len(r.Entry) > 0 {
		note(c.acks, r.Index, r.Entry.Hash(), d.Verdict, len(r.Output) > 0, c.Process)
	} else if c.ended(); d.Reason != contracts.ReasonToolCanceled {
		fmt.Println("odd", d.Reason, d.Why)
	}
	return d
}

func intent(tool, session string, n int) helm.Intent {
	return helm.Intent{Tool: tool, Session: session, Args: fmt.Appendf(nil, `{"size":%d}`, n)}
}

// pay pays with an approval, twice.
func (c *child) pay(session string, n int) {
	in := intent("pay", session, n)
	d := c.guard(in)
	if d.Pending == nil {
		return
	}
	in.Approvals = []contracts.Envelope{must(d.Pending.Approve(key("owner")))}
	c.guard(in)
	c.guard(in)
}

// load makes calls until the child is told to stop.
func (c *child) load(g int) {
	random := rand.New(rand.NewPCG(c.Seed, uint64(g)))
	own := fmt.Sprintf("own-%d-%d", c.Slot, g)
	for n := 0; ; n++ {
		select {
		case <-c.stop:
			return
		default:
		}
		common := fmt.Sprint("common-", random.IntN(3))
		switch p := random.IntN(100); {
		case p < 35:
			c.guard(intent("read", own, random.IntN(100)))
		case p < 55:
			c.guard(intent("write", own, random.IntN(100)))
		case p < 65:
			c.guard(intent("write", "", random.IntN(100)))
		case p < 80: // a key that others may have as well
			k := random.IntN(200)
			in := intent("write", common, k)
			in.Idempotency = fmt.Sprint("key ", k)
			c.guard(in)
		case p < 88:
			c.guard(intent("scarce", common, 1+random.IntN(6)))
		case p < 92:
			c.guard(intent("never", own, n))
		case p < 95:
			c.pay([]string{own, ""}[n%2], n)
		case p < 97:
			once := fmt.Sprintf("once-%d-%d-%d", c.Process, g, n)
			c.guard(intent("read", once, n))
			c.did(c.kernel.CloseSession(context.Background(), once))
		case p < 98:
			_, err := c.kernel.Checkpoint(context.Background())
			c.did(err)
		default:
			c.did(c.kernel.UserMessage(context.Background(), common, "hello"))
		}
		time.Sleep(time.Duration(random.IntN(8000)) * time.Microsecond)
	}
}

// did says so if something has failed.
func (c *child) did(err error) {
	if err != nil {
		c.ended()
		fmt.Println("odd", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
}

// told does what one line says: a tool, a session, a number and a key, or what is no call.
func (c *child) told(line string) {
	words := append(strings.Fields(line), "", "", "")
	tool, session, idempotency := words[0], words[1], words[3]
	n, _ := strconv.Atoi(words[2])
	if session == "main" {
		session = ""
	}
	switch tool {
	case "checkpoint":
		_, err := c.kernel.Checkpoint(context.Background())
		c.did(err)
	case "close":
		c.did(c.kernel.CloseSession(context.Background(), session))
	case "message":
		c.did(c.kernel.UserMessage(context.Background(), session, "hello"))
	case "pay":
		c.pay(session, n)
	default:
		in := intent(tool, session, n)
		in.Idempotency = idempotency
		c.guard(in)
	}
	c.ended()
}
