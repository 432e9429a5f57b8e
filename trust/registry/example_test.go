package registry_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/trust/registry"
)

// key makes a key that is always the same; real ones come from crypto.GenerateKey or a KMS.
func key(n byte) (crypto.PrivateKey, crypto.PublicKey) {
	seed := make([]byte, 32)
	seed[0] = n
	k, _ := crypto.NewKeyFromSeed(seed)
	return k, k.Public().(crypto.PublicKey)
}

// An approver's key is added to a log: its holder proves possession, two of three roots sign, and
// the approver's answers count for the entries after the event.
func ExampleState_Apply() {
	root1, root1Public := key(1)
	root2, root2Public := key(2)
	_, root3Public := key(3)
	_, kernel := key(4)
	_, log := key(5)
	initial, err := registry.New(2, registry.Key{Name: "root 1", Public: root1Public, Role: registry.Root},
		registry.Key{Name: "root 2", Public: root2Public, Role: registry.Root},
		registry.Key{Name: "root 3", Public: root3Public, Role: registry.Root})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := initial.Initial(kernel, log)
	if err != nil {
		fmt.Println(err)
		return
	}

	ann, annPublic := key(6)
	event, err := contracts.TrustEvent{Type: "key", Origin: "example.org/log", Version: state.Version() + 1,
		Name: "ann", Role: "approver", Roles: []string{"owner"}}.Prove(ann)
	if err != nil {
		fmt.Println(err)
		return
	}
	first, err := contracts.TrustRecord{Event: event}.Sign(root1)
	if err != nil {
		fmt.Println(err)
		return
	}
	record, err := contracts.ParseTrust(first) // the second root reads the event before signing it
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = state.Apply(record, "example.org/log", 7)
	fmt.Println(err)
	both, err := record.Sign(root2)
	if err != nil {
		fmt.Println(err)
		return
	}
	if record, err = contracts.ParseTrust(both); err != nil {
		fmt.Println(err)
		return
	}
	next, err := state.Apply(record, "example.org/log", 7)
	if err != nil {
		fmt.Println(err)
		return
	}
	for index := uint64(6); index < 10; index++ {
		_, ok := next.Key(crypto.KeyID(annPublic), registry.Approver, index)
		fmt.Println(index, ok)
	}
	_, err = next.Apply(record, "example.org/log", 8)
	fmt.Println(strings.Replace(err.Error(), "want 3: ", "want 3:\n", 1))
	// Output:
	// registry: trust event: key: signatures: 1 of root keys, want 2: ask root 2, root 3
	// 6 false
	// 7 false
	// 8 true
	// 9 true
	// registry: trust event: version: 2, want 3:
	// it is for another state than this one, was applied before, or one before it is missing
}

// A request reaches an approver in any way, the approver answers, and the answer is opened when it
// is presented.
func ExampleOpenApproval() {
	ann, annPublic := key(6)
	_, kernel := key(4)
	_, log := key(5)
	r, err := registry.New(0, registry.Key{Name: "ann", Public: annPublic, Role: registry.Approver,
		Roles: []string{"owner"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	state, err := r.Initial(kernel, log)
	if err != nil {
		fmt.Println(err)
		return
	}
	// of a decision
	pending := contracts.ApprovalRequest{Nonce: "000102030405060708090a0b0c0d0e0f", Quorum: 1, Roles: []string{"owner"},
		Session: "chat-1", Tool: "send_money"}

	question, err := json.Marshal(pending)
	if err != nil {
		fmt.Println(err)
		return
	}
	var asked contracts.ApprovalRequest
	if err := json.Unmarshal(question, &asked); err != nil {
		fmt.Println(err)
		return
	}
	answer, err := asked.Approve(ann)
	if err != nil {
		fmt.Println(err)
		return
	}

	approval, holder, err := registry.OpenApproval(state, answer)
	fmt.Println(holder.Name, holder.Roles, approval.Verdict, approval.Request.Tool,
		approval.Request.Digest() == pending.Digest(), err)
	// Output:
	// ann [owner] ALLOW send_money true <nil>
}
