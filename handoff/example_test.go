package handoff_test

import (
	"context"
	"fmt"
	"log"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/handoff"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

const mailPolicy = `
helm: policy/v1
layer: P1
bundle: {name: mail, version: 1}
tools:
  send_mail:
    effect: destructive
    sandbox: reported
    limits: {timeout: 24h}
    input: {type: object, required: [to], properties: {to: {type: string}}}
rules:
  - {id: own, allow: send_mail, when: {arg: /to, eq: ann@example.org}}
`

// A job is what the queue has: the bytes that were judged, and the name of the permission.
type job struct {
	id   string
	args []byte
}

// A queue, whose worker runs what it gets and reports it.
func Example() {
	document, err := policy.Parse("mail.yaml", []byte(mailPolicy))
	if err != nil {
		log.Fatal(err)
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		log.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	kernel, err := helm.New(helm.Options{Policy: stack, Key: key, Origin: "example.org/mail", Store: proofgraph.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	defer kernel.Close()
	desk := handoff.New(kernel, 0)
	defer desk.Close(context.Background())

	queue, done := make(chan job), make(chan struct{})
	go func() { // the worker
		defer close(done)
		for j := range queue {
			ticket := desk.Ticket(j.id)
			fmt.Printf("sent: %s\n", j.args)
			d, receipt, recorded := ticket.Settle(handoff.Outcome{Output: []byte(`{"queued":true}`)})
			fmt.Println(recorded, d.Reason, receipt.Record.Outcome, receipt.Record.Sandbox.Profile)
		}
	}()
	for _, args := range []string{`{"to": "ann@example.org"}`, `{"to": "eve@example.com"}`} {
		in := helm.Intent{Tool: "send_mail", Args: []byte(args), Caller: helm.Caller{ID: "ann"}}
		decision, receipt, ticket := desk.Begin(context.Background(), in, contracts.Digest{})
		if ticket == nil {
			fmt.Println(decision.Reason, receipt.Record.Outcome)
			continue
		}
		queue <- job{ticket.ID(), ticket.Call().Args}
	}
	close(queue)
	<-done
	// Unordered output:
	// sent: {"to":"ann@example.org"}
	// true ALLOW EXECUTED reported
	// NO_POLICY_DEFINED DENIED
}
