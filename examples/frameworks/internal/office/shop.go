package office

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/helmkernel/helm"
)

// A Shop is the tools. It remembers what ran.
type Shop struct {
	mu  sync.Mutex
	ran []string
}

// Ran returns the calls that ran, in order.
func (s *Shop) Ran() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.ran...)
}

// Drivers returns the tools as drivers.
func (s *Shop) Drivers() map[string]helm.Driver {
	return map[string]helm.Driver{"invoice_find": helm.Func(s.Find), "invoice_refund": helm.Func(s.Refund)}
}

// Find returns an invoice.
func (s *Shop) Find(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Number string `json:"number"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	s.log("invoice_find", args)
	return json.Marshal(map[string]any{"number": in.Number, "total": 120})
}

// Refund pays back.
func (s *Shop) Refund(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Amount int `json:"amount"`
	}
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	s.log("invoice_refund", args)
	return json.Marshal(map[string]any{"refunded": in.Amount})
}

func (s *Shop) log(tool string, args json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ran = append(s.ran, fmt.Sprintf("%s %s", tool, args))
}
