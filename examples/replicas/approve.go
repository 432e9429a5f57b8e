package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

// approve makes a payment that Ann approves, and that comes to all replicas at once. The one that
// pays uses her approval up, for all of them.
func approve(ctx context.Context, s *story) error {
	if _, err := s.must(ctx, contracts.ReasonAllow, look(chat, "landlord"), ""); err != nil {
		return err
	}
	rent := pay(chat, "landlord", 500)
	asked, err := s.must(ctx, contracts.ReasonApprovalRequired, rent, "")
	if err != nil {
		return err
	}
	if err := asked.Pending.About(asked.Args); err != nil { // what Ann sees is what she signs
		return err
	}
	yes, err := asked.Pending.Approve(s.keys.ann)
	if err != nil {
		return err
	}
	rent.Approvals = []contracts.Envelope{yes}
	answers := make([]answer, len(names))
	if err := together(len(names), func(i int) (err error) {
		answers[i], err = s.client.call(ctx, rent, "")
		return err
	}); err != nil {
		return err
	}
	allowed := 0
	for _, a := range answers {
		s.print(rent, a)
		if a.Reason == contracts.ReasonAllow {
			allowed++
		} else if err := a.must(contracts.ReasonApprovalInvalid); err != nil {
			return err
		}
	}
	if allowed != 1 {
		return fmt.Errorf("one approval has allowed %d payments", allowed)
	}
	if _, err := s.must(ctx, contracts.ReasonApprovalInvalid, rent, ""); err != nil {
		return err
	}
	return errors.Join(different(answers...), s.bank.paid("landlord", 1))
}
