// Package office is what the programs share: a shop's policy and tools, a kernel with its keys and
// its log, a person who approves, and what the model does. It knows nothing of any framework.
package office

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Origin is the log's name.
const Origin = "example.org/frameworks"

// Policy is the shop's policy, in policy.yaml.
//
//go:embed policy.yaml
var Policy embed.FS

// An Office is a kernel, and what is around it in a program.
type Office struct {
	Shop   *Shop
	Script *Script
	Events []string        // of each call: verdict, tool, reason, and place of the fault
	Report evidence.Report // of Audit

	mu     sync.Mutex // of Events
	desk   *desk
	policy *guardian.Policy
	kernel *helm.Kernel
	out    io.Writer
	store  *proofgraph.Memory
	key    crypto.PrivateKey
}

// An Opener opens an office that prints what happens.
type Opener func(out io.Writer) (*Office, error)

// Open opens an office with the shop's policy, and with the shop's tools as drivers.
func Open(out io.Writer) (*Office, error) {
	s := new(Shop)
	return OpenWith(out, Policy, s, s.Drivers())
}

// OpenUnbound is Open for a program with drivers of its own.
func OpenUnbound(out io.Writer) (*Office, error) { return OpenWith(out, Policy, new(Shop), nil) }

// OpenWith opens an office with the policy in policy.yaml. Tools without a driver take
// [helm.Intent.Driver].
func OpenWith(out io.Writer, files fs.FS, s *Shop, drivers map[string]helm.Driver) (*Office, error) {
	stack, err := policy.LoadFS(files, "policy.yaml")
	if err != nil {
		return nil, err
	}
	o := &Office{Shop: s, policy: stack, out: &printer{w: out}, store: proofgraph.NewMemory()}
	if o.key, err = crypto.GenerateKey(); err != nil {
		return nil, err
	}
	ann, err := crypto.GenerateKey() // outside of an example she makes it, and shares the public half
	if err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(ann)
	if err != nil {
		return nil, err
	}
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: public, Role: registry.Approver,
		Roles: []string{"owner"}})
	if err != nil {
		return nil, err
	}
	o.desk = &desk{out: o.out, key: ann, answered: make(map[call]helm.Envelope)}
	o.Script = &Script{Calls: Refund, office: o}
	o.kernel, err = helm.New(helm.Options{Policy: stack, Key: o.key, Store: o.store, Origin: Origin,
		Trust: trust, Drivers: drivers, Observe: o.observe})
	return o, err
}

// A printer is for lines of calls that are made side by side.
type printer struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *printer) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(line)
}

// Close closes the kernel.
func (o *Office) Close() error { return o.kernel.Close() }

// A Play has the model make the calls of the script, in a framework.
type Play func(ctx context.Context, o *Office) error

// Run opens an office, plays, and audits the log.
func Run(ctx context.Context, out io.Writer, open Opener, play Play) (*Office, error) {
	o, err := open(out)
	if err != nil {
		return nil, err
	}
	defer o.Close()
	if err := play(ctx, o); err != nil {
		return o, err
	}
	return o, o.Audit(ctx)
}

// Main is the main of a program.
func Main(open Opener, play Play) {
	if _, err := Run(context.Background(), os.Stdout, open, play); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Tools returns the tools of the policy. It is the one list that models get: no schema is written
// twice.
func (o *Office) Tools() []guardian.Tool { return o.policy.Tools() }

// Description returns what a tool's input schema says of the tool.
func Description(t guardian.Tool) string {
	var schema struct {
		Description string `json:"description"`
	}
	_ = json.Unmarshal(t.Input, &schema) // the policy loaded, so it is a schema
	return schema.Description
}

// Schema returns a tool's input schema as a T, which is a framework's type for schemas.
func Schema[T any](t guardian.Tool) (schema T, err error) {
	err = json.Unmarshal(t.Input, &schema)
	return schema, err
}

// Args returns arguments that a framework has decoded. None are {}, which models mean by it.
func Args(decoded any) (json.RawMessage, error) {
	args, err := json.Marshal(decoded)
	if string(args) == "null" {
		args = json.RawMessage("{}")
	}
	return args, err
}

// Session returns the name of the session of a conversation that a framework identifies by several
// ids. They may hold what is no legal name, and must not run into each other: bob/1 and 2 are
// another conversation than bob and 1/2.
func Session(ids ...string) string {
	return "s-" + crypto.Sum(fmt.Appendf(nil, "%q", ids)).String()[:32]
}

// Guard is [helm.Kernel.Guard] with the answers of approvers: it presents an answer when the call
// that it is about is made again, and keeps the questions of calls that wait for one. No bytes as
// arguments are {}, which some models mean by it.
func (o *Office) Guard(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
	if len(in.Args) == 0 {
		in.Args = json.RawMessage("{}")
	}
	c := callOf(in)
	in.Approvals = o.desk.answers(c)
	d, r := o.kernel.Guard(ctx, in)
	o.desk.note(c, d)
	return d, r
}

// Answer has Ann read what is asked, and sign.
func (o *Office) Answer() error { return o.desk.answer() }

// observe prints what the kernel decided.
func (o *Office) observe(_ context.Context, e helm.Event) {
	event := fmt.Sprintf("%v %s %s", e.Verdict, e.Tool, e.Reason)
	if e.Why != "" {
		event += ": " + e.Why
	}
	o.mu.Lock()
	o.Events = append(o.Events, event)
	o.mu.Unlock()
	fmt.Fprintf(o.out, "helm   %s, receipt %d\n", event, e.Index)
}

// Audit is the auditor's side, with a pack and the trust state and nothing else.
func (o *Office) Audit(ctx context.Context) error {
	if _, err := o.kernel.Checkpoint(ctx); err != nil {
		return err
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, o.store, o.key); err != nil {
		return err
	}
	r, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: o.kernel.Trust(), Origin: Origin})
	if err != nil {
		return err
	}
	o.Report = r
	fmt.Fprintf(o.out, "audit  %v, signer %v: %d allowed, %d denied, %d receipts, %d verdicts replayed\n",
		r.Level, r.Signer, r.Allows, r.Denials, r.Receipts, r.Replay.Replayed)
	if !r.Success(evidence.Logged) {
		return errors.New("the pack proves too little")
	}
	return nil
}
