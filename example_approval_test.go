package helm_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A mail that a person must approve. The denial holds the request to sign, and with the approval
// the same call runs, once.
func Example_approval() {
	text := mailPolicy +
		"requires:\n  - {id: outgoing, tools: [mail.send], all: [{approval: {roles: [owner], ttl: 15m}}]}\n"
	doc, err := policy.Parse("mail.yaml", []byte(text))
	if err != nil {
		log.Fatal(err)
	}
	pol, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	ann, err := crypto.GenerateKey() // ann's own: the kernel has the public half
	if err != nil {
		log.Fatal(err)
	}
	public, err := crypto.PublicOf(ann)
	if err != nil {
		log.Fatal(err)
	}
	trust, err := registry.New(0, registry.Key{Name: "ann", Public: public, Role: registry.Approver,
		Roles: []string{"owner"}})
	if err != nil {
		log.Fatal(err)
	}
	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: proofgraph.NewMemory(), Trust: trust})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	type mail struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}
	send := helm.Wrap(k, "mail.send", func(_ context.Context, m mail) (string, error) { return "sent to " + m.To, nil })
	ctx := helm.With(context.Background(), helm.Intent{Caller: helm.Caller{ID: "bob", Roles: []string{"staff"}},
		Session: "chat-1"})
	m := mail{"ada@corp.example", "hi"}

	_, err = send(ctx, m)
	var e *helm.Error
	if !errors.Is(err, helm.ErrApprovalRequired) || !errors.As(err, &e) {
		log.Fatal(err)
	}
	asked, _ := json.Marshal(e.Pending) // goes to ann, together with the arguments
	fmt.Println(strings.Contains(string(asked), `"roles":["owner"]`), e.Reason)

	var question contracts.ApprovalRequest // at ann's
	if err := json.Unmarshal(asked, &question); err != nil {
		log.Fatal(err)
	}
	yes, err := question.Approve(ann)
	if err != nil {
		log.Fatal(err)
	}

	approved := helm.With(ctx, helm.Intent{Tool: "mail.send", Approvals: []contracts.Envelope{yes}})
	fmt.Println(send(approved, m))
	_, err = send(approved, m)
	fmt.Println(strings.Replace(err.Error(), "outgoing: ", "outgoing:\n", 1))
	// Output:
	// true APPROVAL_REQUIRED
	// sent to ada@corp.example <nil>
	// helm: mail.send: denied (APPROVAL_INVALID): P1:mail:outgoing:
	// approval 0 is used: a call was allowed by it
}
