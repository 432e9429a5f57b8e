package letgo

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

const busyTools = `
helm: policy/v1
layer: P1
bundle: {name: busy, version: 1}
tools:
  save: {effect: write, input: {type: object, required: [text], properties: {text: {type: string}}}}
  wipe: {effect: destructive, input: {type: object, required: [text], properties: {text: {type: string}}}}
  never: {effect: read, input: {type: object, required: [text], properties: {text: {type: string}}}}
rules: [{id: all, allow: [save, wipe]}]
`

const busyBudget = `
budgets: [{id: day, tools: [save], limit: 1000000000, cost: 1, per: tenant, window: day}]
`

// callers is how many there are side by side.
const callers = 16

// busyWorld is the world of the calls of a busy log.
func busyWorld(t testing.TB, store proofgraph.Store, budget bool, change ...func(*helm.Options)) *world {
	return newWorld(t, store, append([]func(*helm.Options){func(o *helm.Options) {
		text := busyTools
		if budget {
			text += busyBudget
		}
		o.Policy = kerneltest.Compile(t, floor, text)
		save := helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`"saved"`), nil
		})
		o.Drivers = map[string]executor.Driver{"save": save, "wipe": save}
	}}, change...)...)
}

// busy makes a log of about n entries, more than a day ago.
func busy(t testing.TB, store proofgraph.Store, n, each int) *world {
	t.Helper()
	w := busyWorld(t, store, true)
	w.busy(context.Background(), "caller", n/2, each)
	w.later(25 * time.Hour)
	return w
}

// busy makes n calls, and closes the sessions, of each calls each: arguments of 900 bytes, one call
// of 20 denied and 3 % of high risk. It begins no call after ctx has ended, and returns how many
// there were.
func (w *world) busy(ctx context.Context, name string, n, each int) int {
	var wait sync.WaitGroup
	var made [callers]int
	for g := range callers {
		wait.Go(func() {
			for i := 0; i*callers < n && ctx.Err() == nil; i++ {
				session := fmt.Sprintf("%s-%d/%d", name, g, i/each)
				tool := "save"
				switch {
				case i%20 == 7:
					tool = "never"
				case i%33 == 5:
					tool = "wipe"
				}
				args := fmt.Appendf(nil, `{"text":"%0900d"}`, i*callers+g)
				_, r := w.kernel.Guard(context.Background(), helm.Intent{Tool: tool, Args: args, Session: session,
					Caller: helm.Caller{ID: fmt.Sprint("caller-", g), Tenant: "acme"}})
				if r.Entry == nil {
					panic("not recorded")
				}
				if made[g]++; made[g]%each == 0 || (i+1)*callers >= n {
					if err := w.kernel.CloseSession(context.Background(), session); err != nil {
						panic(err)
					}
				}
			}
		})
	}
	wait.Wait()
	sum := 0
	for _, n := range made {
		sum += n
	}
	return sum
}

func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
