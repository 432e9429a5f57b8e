package main

import (
	"bytes"
	"context"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
)

// keep has the customer of the first call keep its receipt.
func (s *shop) keep(r helm.Receipt) { s.once.Do(func() { s.receipt = &r }) }

// A customer keeps the receipt of a call, and the decision that it names: 2 KiB, of which the log
// lets go in time.
type customer struct {
	index   uint64
	entries []contracts.Entry
}

func newCustomer(ctx context.Context, s *shop) (*customer, error) {
	c := &customer{index: s.receipt.Index, entries: []contracts.Entry{s.receipt.Entry}}
	for index := range c.index { // the decision is one of the first entries
		e, err := s.read(ctx, index)
		if err != nil {
			return nil, err
		}
		if e.Hash() == s.receipt.Record.DecisionHash {
			c.entries = append(c.entries, e)
		}
	}
	return c, nil
}

// prove has the log prove the customer's entries, and verifies the proof.
func (c *customer) prove(ctx context.Context, s *shop, o evidence.Options) (bytes.Buffer, evidence.Report, error) {
	var excerpt bytes.Buffer
	err := evidence.WriteExcerpt(ctx, &excerpt, s.store, evidence.Excerpt{Receipt: c.index, Entries: c.entries})
	if err != nil {
		return excerpt, evidence.Report{}, err
	}
	report, err := evidence.VerifyExcerpt(ctx, bytes.NewReader(excerpt.Bytes()), int64(excerpt.Len()), o)
	return excerpt, report, err
}
