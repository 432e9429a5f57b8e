package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/policy"
)

const origin = "example.org/replicas" // the log's name

//go:embed bank-1.yaml
var bank1 []byte

//go:embed bank-2.yaml
var bank2 []byte

// policies are what a replica can be started with.
var policies = map[string][]byte{"bank-1.yaml": bank1, "bank-2.yaml": bank2}

// A config is how replicas are deployed. It is the same for all of them: key, trust and log too.
type config struct {
	Database string // connection string
	Schema   string
	Key      string // PEM
	Trust    trust
	Bank     string // URL
}

// serve is a replica. It writes its address when it takes calls, and ends by SIGTERM, or when its
// standard input does, which is when the process that started it has ended.
func serve(ctx context.Context, name, policyName string, in io.Reader, out io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c config
	settings := json.NewDecoder(in)
	if err := settings.Decode(&c); err != nil {
		return err
	}
	go func() {
		io.Copy(io.Discard, io.MultiReader(settings.Buffered(), in))
		stop()
	}()

	store, err := postgres.Open(ctx, c.Database, postgres.Options{Schema: c.Schema, Origin: origin})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }() // after the kernel
	k, err := newKernel(name, policyName, c, store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, k.Close()) }() // after the server: it waits for running calls

	r := &replica{Kernel: k, name: name, sealed: stop}
	if err := r.listen(ctx, out); err != nil {
		return err
	}
	return k.Err()
}

// newKernel returns a kernel that is one of several over the log. It settles the calls of a replica
// that died, and is refused if the log has had a later policy.
func newKernel(name, policyName string, c config, store *postgres.Store) (*helm.Kernel, error) {
	key, err := crypto.LoadKey(strings.NewReader(c.Key))
	if err != nil {
		return nil, err
	}
	registry, err := c.Trust.registry()
	if err != nil {
		return nil, err
	}
	document, err := policy.Parse(policyName, policies[policyName])
	if err != nil {
		return nil, err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return nil, err
	}
	bank := &teller{replica: name, bank: c.Bank}
	return helm.New(helm.Options{
		Policy:     stack,
		Key:        key,
		Origin:     origin,
		Store:      store,
		Trust:      registry,
		Drivers:    map[string]executor.Driver{"bank.look": bank, "bank.pay": bank},
		Keep:       helm.Keep{Outputs: true}, // so that the repeat of a call has its output
		Checkpoint: helm.Checkpoints{After: time.Second},
	})
}

// A replica is one of several processes with a kernel over one log, and serves it over HTTP.
type replica struct {
	*helm.Kernel
	name   string
	sealed func() // ends the process
}

// patience is more than the tools' time limit.
const patience = time.Minute

// listen serves until ctx ends, and then until the calls that run have been answered.
func (r *replica) listen(ctx context.Context, out io.Writer) error {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /call", r.call)
	mux.HandleFunc("POST /trust", r.trust)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return server.Shutdown(ctx)
}

// A call is what a client sends. Whom a call is for is what the client says: outside of an example
// the balancer, or the replica, finds that out.
type call struct {
	Tool      string
	Args      json.RawMessage
	Caller    string
	Session   string
	Approvals []contracts.Envelope
}

// An answer is what a client gets: the last word on the call.
type answer struct {
	Replica string
	Verdict string
	Reason  contracts.ReasonCode
	Why     string
	Output  json.RawMessage            `json:",omitempty"`
	Pending *contracts.ApprovalRequest `json:",omitempty"` // what an approver has to sign
	Args    json.RawMessage            `json:",omitempty"` // with Pending: what it is about
}

// idempotencyKey is the header with the key of a call, which the balancer reads too.
const idempotencyKey = "Idempotency-Key"

func (r *replica) call(w http.ResponseWriter, req *http.Request) {
	var c call
	if err := json.NewDecoder(req.Body).Decode(&c); err != nil {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	d, receipt := r.Guard(req.Context(), helm.Intent{Tool: c.Tool, Args: c.Args, Caller: helm.Caller{ID: c.Caller},
		Session: c.Session, Approvals: c.Approvals, Idempotency: req.Header.Get(idempotencyKey)})
	if r.Err() != nil {
		r.sealed() // it takes no call any more: a new process does
	}
	write(w, answer{Replica: r.name, Verdict: d.Verdict.String(), Reason: d.Reason, Why: d.Why,
		Output: receipt.Output, Pending: d.Pending, Args: d.Args})
}

// trust puts a trust event in force, in all replicas.
func (r *replica) trust(w http.ResponseWriter, req *http.Request) {
	event, err := io.ReadAll(http.MaxBytesReader(w, req.Body, contracts.MaxEnvelope))
	if err == nil {
		err = r.Govern(req.Context(), event)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	write(w, answer{Replica: r.name})
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}
