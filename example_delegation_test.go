package helm_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Ada, who is staff, lets an assistant send mail to one address for an hour. The assistant has no
// rights of its own.
func Example_delegation() {
	doc, err := policy.Parse("mail.yaml", []byte(mailPolicy))
	if err != nil {
		log.Fatal(err)
	}
	pol, err := guardian.Compile(doc)
	if err != nil {
		log.Fatal(err)
	}
	key, _ := crypto.GenerateKey()
	ada, _ := crypto.GenerateKey() // hers alone; the kernel has the public half
	adaPublic, err := crypto.PublicOf(ada)
	if err != nil {
		log.Fatal(err)
	}
	trust, err := registry.New(0, registry.Key{Name: "ada", Public: adaPublic, Role: registry.Delegator,
		Roles: []string{"staff"}})
	if err != nil {
		log.Fatal(err)
	}
	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: proofgraph.NewMemory(), Trust: trust})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()

	var when crypto.Tree
	if err := when.Parse([]byte(`{"arg": "/to", "eq": "carl@corp.example"}`),
		crypto.Limits{Bytes: 1 << 10, Depth: 8}); err != nil {
		log.Fatal(err)
	}
	now := contracts.TimeOf(time.Now())
	grant, err := contracts.Delegation{
		Delegator: "ada", Delegate: "assistant", Nonce: "1", NotBefore: now, Expires: now.Add(time.Hour),
		Only: []string{"mail.send"}, When: when.Root(),
	}.Sign(ada)
	if err != nil {
		log.Fatal(err)
	}

	send := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"sent"`), nil
	})
	for _, to := range []string{"carl@corp.example", "dora@corp.example"} {
		args, _ := json.Marshal(map[string]string{"to": to, "text": "hi"})
		in := helm.Intent{Tool: "mail.send", Args: args, Caller: helm.Caller{ID: "assistant"}, Driver: send}
		alone, _ := k.Guard(context.Background(), in)
		in.Delegation = []contracts.Envelope{grant}
		d, r := k.Guard(context.Background(), in)
		fmt.Println(alone.Reason, "alone; granted:", d.Verdict, d.Reason, string(r.Output))
	}
	// Output:
	// NO_POLICY_DEFINED alone; granted: ALLOW ALLOW "sent"
	// NO_POLICY_DEFINED alone; granted: DENY DELEGATION_SCOPE_VIOLATION
}
