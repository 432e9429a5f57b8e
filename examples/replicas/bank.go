package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
)

// An order is what a replica asks of the bank: a tool of the agent, and what it was called with.
type order struct {
	Reference string // the id of the decision, by which the log knows the call
	Replica   string // who asks
	Tool      string
	To        string
	Euros     uint64 // of a payment
}

// A teller is the driver of the bank's tools in a replica.
type teller struct{ replica, bank string }

func (t *teller) Run(ctx context.Context, c contracts.Call) (executor.Result, error) {
	o := order{Reference: c.Permit.DecisionID, Replica: t.replica, Tool: c.Tool}
	if err := json.Unmarshal(c.Args, &o); err != nil {
		return executor.Result{}, err
	}
	body, err := json.Marshal(o)
	if err != nil {
		return executor.Result{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.bank, bytes.NewReader(body))
	if err != nil {
		return executor.Result{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return executor.Result{}, err
	}
	defer res.Body.Close()
	output, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the bank: %s", res.Status)
	}
	return executor.Result{Output: output}, err
}

// done is the output of both tools.
type done struct {
	By string `json:"by"` // a replica
}

// A bank carries out every order, and writes it down first. It knows nothing of HELM, and carries
// out twice what comes twice: so its book shows what was done, whatever the log says.
type bank struct {
	slow    string     // it never answers a payment to them
	waiting chan order // these payments

	mu   sync.Mutex // protects book
	book []order
}

func newBank(slow string) *bank { return &bank{slow: slow, waiting: make(chan order)} }

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, "no order", http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	b.book = append(b.book, o)
	b.mu.Unlock()
	if o.Tool == "bank.pay" && o.To == b.slow {
		select {
		case b.waiting <- o:
			<-r.Context().Done() // the replica has gone
		case <-r.Context().Done():
		}
		return
	}
	write(w, done{By: o.Replica})
}

// orders returns the book so far.
func (b *bank) orders() []order {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.book)
}

// paid returns an error unless the bank has that many payments to one payee.
func (b *bank) paid(to string, want int) error {
	n := 0
	for _, o := range b.orders() {
		if o.Tool == "bank.pay" && o.To == to {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("the bank has %d payments to %s, and not %d", n, to, want)
	}
	return nil
}
