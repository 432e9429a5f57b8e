package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/helmkernel/helm/contracts"
)

// deploy ends one replica and starts it again with a later policy. The two policies then hold side
// by side, each in its replicas, until the others are deployed too. No replica can start with the
// older one any more.
func deploy(ctx context.Context, s *story) error {
	if _, err := s.must(ctx, contracts.ReasonAllow, look(chat, "mallory"), ""); err != nil {
		return err
	}
	const name = "two"
	load, err := newLoad(ctx, s.client, "deploy", contracts.ReasonAllow)
	if err != nil {
		return err
	}
	defer load.stop()
	load.until(names...)
	if err := s.stop(name); err != nil {
		return err
	}
	if err := s.start(ctx, name, second); err != nil {
		return err
	}
	load.until(names...)
	n, err := load.end()
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "  %-5s  has ended and runs again with %s: %d payments came in meanwhile, and none failed\n",
		name, second, n)
	for range names {
		payment := pay(chat, "mallory", 1)
		a, err := s.client.call(ctx, payment, "")
		if err != nil {
			return err
		}
		s.print(payment, a)
		want := contracts.ReasonAllow
		if a.Replica == name {
			want = contracts.ReasonPolicyViolation
		}
		if err := a.must(want); err != nil {
			return err
		}
	}
	switch err := s.start(ctx, "late", first); {
	case err == nil:
		return errors.New("a replica runs with a policy that is older than the log's latest")
	case !strings.Contains(err.Error(), "version 1 goes back"):
		return err
	default:
		fmt.Fprintf(s.out, "  late   with %s: %v\n", first, err)
	}
	return s.bank.paid("mallory", len(names)-1)
}
