package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

func find(_ context.Context, args json.RawMessage) (string, error) {
	var in struct{ Number string }
	err := json.Unmarshal(args, &in)
	return "order " + in.Number + ": one lamp, 79.00 EUR, paid", err
}

func refund(_ context.Context, args json.RawMessage) (string, error) {
	var in struct {
		Number string
		Amount float64
	}
	err := json.Unmarshal(args, &in)
	return fmt.Sprintf("refunded %.2f EUR on order %s", in.Amount, in.Number), err
}

func remove(context.Context, json.RawMessage) (string, error) {
	panic("never reached: no policy declares it")
}

// model stands in for a model that reads the results of its tools.
type model struct{ turn int }

type call struct{ tool, args string }

func (m *model) next(result string) (call, bool) {
	m.turn++
	switch {
	case m.turn == 1:
		return call{"order.find", `{"number": "4711"}`}, true
	case m.turn == 2:
		return call{"order.refund", `{"amount": 79.00, "number": "4711"}`}, true
	case m.turn == 3 && strings.Contains(result, "NO_POLICY_DEFINED"):
		return call{"order.refund", `{"amount": 50, "number": "4711"}`}, true
	case m.turn == 4:
		return call{"order.refund", `{"amount": 29}`}, true
	case m.turn == 5:
		return call{"order.delete", `{}`}, true
	}
	return call{}, false
}
