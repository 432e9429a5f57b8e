package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

// spend spends whatever is left of the budget, in all replicas at once, and no euro more.
func spend(ctx context.Context, s *story) error {
	const agents = 6
	var paid, refused [agents]int
	if err := together(agents, func(i int) error {
		session := fmt.Sprintf("spend-%d", i)
		a, err := s.client.call(ctx, look(session, "ada"), "")
		if err := errors.Join(err, a.must(contracts.ReasonAllow)); err != nil {
			return err
		}
		for _, euros := range []int{100, 10, 1} {
			for {
				a, err := s.client.call(ctx, pay(session, "ada", euros), "")
				if err != nil {
					return err
				}
				if a.Reason == contracts.ReasonBudgetExceeded {
					refused[i]++
					break
				}
				if err := a.must(contracts.ReasonAllow); err != nil {
					return err
				}
				paid[i]++
			}
		}
		return nil
	}); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "  %d agents at once: %d payments of 100, 10 and 1 euros, and %d BUDGET_EXCEEDED\n",
		agents, sum(paid[:]), sum(refused[:]))
	return err
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}
