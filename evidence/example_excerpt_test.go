package evidence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// One receipt is handed to those who may see that call and not the log.
func ExampleVerifyExcerpt() {
	ctx := context.Background()
	store := proofgraph.NewMemory()
	k, _, err := newClock(store)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 3 { // each a decision and a receipt, after the genesis and the policy
		k.Guard(ctx, helm.Intent{Tool: "clock.read", Args: json.RawMessage(`{}`), Driver: noon})
	}
	if _, err := k.Checkpoint(ctx); err != nil {
		fmt.Println(err)
		return
	}
	var excerpt bytes.Buffer
	if err := evidence.WriteExcerpt(ctx, &excerpt, store, evidence.Excerpt{Receipt: 5}); err != nil {
		fmt.Println(err)
		return
	}

	// Who has the excerpt has, from elsewhere, a trust state.
	o := evidence.Options{Trust: k.Trust(), Origin: "example.test/clock"}
	report, err := evidence.VerifyExcerpt(ctx, bytes.NewReader(excerpt.Bytes()), int64(excerpt.Len()), o)
	if err != nil || !report.Success(evidence.Logged) {
		fmt.Println(report, err)
		return
	}
	for _, p := range report.Excerpt {
		fmt.Println("entry", p.Index, "of", report.Size, "is a", p.Statement.Kind())
	}
	receipt := report.Excerpt[1].Statement.Receipt
	fmt.Println(receipt.Tool, receipt.Outcome, "and", report.Replay.Replayed, "verdicts replayed")
	// Output:
	// entry 4 of 8 is a decision
	// entry 5 of 8 is a receipt
	// clock.read EXECUTED and 0 verdicts replayed
}
