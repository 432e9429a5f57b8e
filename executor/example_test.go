package executor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
)

// durable stands for a place in the log with an ALLOW that is on stable storage. A kernel has a
// *proofgraph.Slot there.
type durable struct{ decision contracts.DecisionRecord }

func (d *durable) Durable() (contracts.Entry, *contracts.DecisionRecord, error) {
	return contracts.Entry("the signed bytes"), &d.decision, nil
}

// A permit is for one call, and is spent once.
func ExampleRun() {
	call := contracts.Call{Tool: "add", Args: []byte(`{"a":1,"b":2}`), Session: "chat-1"}
	slot := &durable{contracts.DecisionRecord{Verdict: contracts.Allow, Reason: contracts.ReasonAllow, ID: "chat-1/0",
		Tool: "add", ArgsHash: crypto.Sum(call.Args)}}
	add := executor.Func(func(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
		var in struct{ A, B int }
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		return fmt.Appendf(nil, `{ "sum": %d }`, in.A+in.B), nil
	})

	permit, err := executor.Admit(slot, call)
	if err != nil {
		fmt.Println(err)
		return
	}
	limits := executor.Limits{Timeout: time.Minute, Output: 1 << 10}
	for range 2 {
		outcome := executor.Run(context.Background(), permit, add, limits)
		fmt.Println(outcome.Reason, string(outcome.Output), outcome.Err)
	}

	call.Args = []byte(`{"a":1,"b":1000}`)
	_, err = executor.Admit(slot, call)
	fmt.Println(err)
	// Output:
	// ALLOW {"sum":3} <nil>
	// FAIL_CLOSED_ERROR  executor: run: the permit was used before
	// executor: admit: the decision is for other arguments
}
