package main

import (
	"context"
	"fmt"

	"github.com/helmkernel/helm/contracts"
)

// freeze hands a freeze to one replica, and later its end to another. Each holds in all of them.
func freeze(ctx context.Context, s *story) error {
	for _, x := range []struct {
		name  string
		event func() (contracts.Envelope, error)
		want  contracts.ReasonCode
	}{
		{"freeze", s.keys.freeze, contracts.ReasonSystemFrozen},
		{"unfreeze", s.keys.unfreeze, contracts.ReasonAllow},
	} {
		event, err := x.event()
		if err != nil {
			return err
		}
		a, err := s.client.govern(ctx, event)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.out, "  %-5s  %s\n", a.Replica, x.name)
		var answers []answer
		for range names {
			a, err := s.must(ctx, x.want, look(chat, "ada"), "")
			if err != nil {
				return err
			}
			answers = append(answers, a)
		}
		if err := different(answers...); err != nil {
			return err
		}
	}
	return nil
}
