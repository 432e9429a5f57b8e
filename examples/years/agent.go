package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Each day clerks have as many conversations with the agent, side by side.
const clerks = 4

// note is what an agent writes down of an order, 800 bytes.
var note = strings.Repeat("The customer says that the parcel came, and was not what it said. ", 13)[:800]

// A call is one of a conversation.
type call struct {
	tool, args string
	want       error
}

// conversation returns the calls of one conversation. One call in thirty asks for too much.
func conversation(day, clerk int) []call {
	order := fmt.Sprintf("%05d-%d", day, clerk)
	euros, want := 20+(day*7+clerk*13)%400, error(nil)
	if clerk == 0 {
		euros, want = 900, helm.ErrDenied
	}
	about := func(tool string) call {
		return call{tool, fmt.Sprintf(`{"order":%q,"note":%q}`, order, note), nil}
	}
	return []call{
		about("order.read"), about("order.note"), about("order.read"), about("order.note"), about("order.read"),
		{"refund.pay", fmt.Sprintf(`{"order":%q,"euros":%d}`, order, euros), want},
	}
}

// day is one day of the agent.
func (s *shop) day(ctx context.Context, day int) error {
	return together(clerks, func(clerk int) error { return s.talk(ctx, day, clerk) })
}

// together calls f for 0 to n-1 side by side.
func together(n int, f func(i int) error) error {
	var all sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

func (s *shop) talk(ctx context.Context, day, clerk int) error {
	session := fmt.Sprintf("day-%d/%d", day, clerk)
	who := helm.Caller{ID: fmt.Sprintf("clerk-%d", clerk), Roles: []string{"clerk"}}
	for _, c := range conversation(day, clerk) {
		d, r := s.Guard(ctx, helm.Intent{Tool: c.tool, Args: json.RawMessage(c.args), Session: session, Caller: who})
		if err := d.Err(); !errors.Is(err, c.want) {
			return fmt.Errorf("%s: day %d: %s: %w", s.name, day, c.tool, err)
		}
		if s.receipt == nil && r.Record.Outcome == contracts.Executed {
			s.keep(r)
		}
	}
	return s.CloseSession(ctx, session)
}
