package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/helmkernel/helm/contracts"
)

// crash kills a replica that has not recorded its payment yet. Another one records that it is
// unknown how the call ended, and does so for whatever else the replica was running. What these
// calls were charged stays charged.
func crash(ctx context.Context, s *story) error {
	if _, err := s.must(ctx, contracts.ReasonAllow, look("chat-2", "erin"), ""); err != nil {
		return err
	}
	load, err := newLoad(ctx, s.client, "crash", contracts.ReasonAllow, contracts.ReasonOutcomeUnknown)
	if err != nil {
		return err
	}
	defer load.stop()
	load.until(names...)
	killed := make(chan string, 1)
	failed := make(chan error, 1)
	go func() {
		select {
		case o := <-s.bank.waiting:
			killed <- o.Replica
			failed <- s.kill(o.Replica)
		case <-ctx.Done():
			failed <- ctx.Err()
		}
	}()
	payment := pay("chat-2", "erin", 70)
	a, err := s.client.call(ctx, payment, "order-2") // whose answer comes from another replica
	if err := errors.Join(err, a.must(contracts.ReasonOutcomeUnknown)); err != nil {
		return err
	}
	if err := <-failed; err != nil {
		return err
	}
	name := <-killed
	if a.Replica == name {
		return fmt.Errorf("%s was killed, and has answered", name)
	}
	fmt.Fprintf(s.out, "  %-5s  is killed: the bank has paid, and no answer came\n", name)
	s.print(payment, a)
	load.until(slices.DeleteFunc(slices.Clone(names), func(x string) bool { return x == name })...)
	if err := s.start(ctx, name, first); err != nil {
		return err
	}
	load.until(names...)
	n, err := load.end()
	fmt.Fprintf(s.out, "  %-5s  runs again: %d other payments came in meanwhile\n", name, n)
	return errors.Join(err, s.bank.paid("erin", 1))
}
