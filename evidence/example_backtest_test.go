package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// shop is a stack whose first rule is the caller's.
func shop(version int, rule string) *guardian.Policy {
	policy, err := guardian.Compile(contracts.Document{Name: "shop.json", Canonical: fmt.Appendf(nil,
		`{"bundle":{"name":"shop","version":%d},"helm":"policy/v1","layer":"P1","rules":[%s,{"allow":"buy","id":"all"}],`+
			`"tools":{"buy":{"effect":"write","input":{"properties":{"price":{"type":"integer"}},`+
			`"required":["price"],"type":"object"}}}}`, version, rule)})
	if err != nil {
		panic(err)
	}
	return policy
}

// A stack is tried on the calls of a log before it is put into force.
func ExampleBackTest() {
	ctx := context.Background()
	key, err := crypto.GenerateKey()
	if err != nil {
		fmt.Println(err)
		return
	}
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: shop(1, `{"deny":"buy","id":"dear","when":{"arg":"/price","gt":100}}`),
		Key: key, Store: store})
	if err != nil {
		fmt.Println(err)
		return
	}
	buy := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"bought"`), nil
	})
	for _, price := range []int{20, 70, 90, 400} {
		k.Guard(ctx, helm.Intent{Tool: "buy", Args: fmt.Appendf(nil, `{"price":%d}`, price), Session: "s", Driver: buy})
	}
	if _, err := k.Checkpoint(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, store, key); err != nil {
		fmt.Println(err)
		return
	}

	candidate := shop(2, `{"deny":"buy","id":"dear","when":{"arg":"/price","gt":50}}`)
	o := evidence.Options{Trust: k.Trust()}
	found, err := evidence.BackTest(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), o, candidate,
		func(c evidence.Change) error {
			fmt.Println(c)
			return nil
		})
	fmt.Println(found.Judged, "calls,", found.Same, "the same;", found.Report.Success(evidence.Logged), err)
	// Output:
	// entry 4 s/2 buy: ALLOW (P1:shop:all) → DENY POLICY_VIOLATION (P1:shop:dear)
	// entry 6 s/4 buy: ALLOW (P1:shop:all) → DENY POLICY_VIOLATION (P1:shop:dear)
	// 4 calls, 2 the same; true <nil>
}
