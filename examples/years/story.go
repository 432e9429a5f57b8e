package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/evidence"
)

// A story has all that take part in it.
type story struct {
	clock            clock
	whole, condensed *shop
	*witnesses
	*auditor
	*customer
	went uint64 // entries that the condensed log has let go of
}

func begin(dir string) (s *story, err error) {
	s = new(story)
	s.clock.noon(0)
	if s.whole, err = newShop("example.org/whole", dir, &s.clock); err != nil {
		return nil, err
	}
	if s.condensed, err = newShop("example.org/condensed", dir, &s.clock); err != nil {
		return nil, err
	}
	if s.witnesses, err = newWitnesses(dir, &s.clock, s.condensed); err != nil {
		return nil, err
	}
	s.condensed.checkpoint = helm.Checkpoints{Witnesses: s.policy.Keys(), Quorum: s.policy.Quorum}
	for _, x := range []*shop{s.whole, s.condensed} {
		if _, err := x.open(true); err != nil {
			return nil, err
		}
	}
	s.auditor = &auditor{kept: filepath.Join(dir, "auditor.checkpoint"), options: evidence.Options{
		Trust: s.condensed.Trust(), Origin: s.condensed.name, Witnesses: s.policy.Keys(), Quorum: s.policy.Quorum}}
	return s, nil
}

func (s *story) end() error {
	s.witnesses.close()
	return errors.Join(s.whole.close(), s.condensed.close())
}

// day is a day of both shops.
func (s *story) day(ctx context.Context, day int) error {
	s.clock.noon(day)
	shops := []*shop{s.whole, s.condensed}
	if err := together(len(shops), func(i int) error { return shops[i].day(ctx, day) }); err != nil {
		return err
	}
	if day == 0 {
		c, err := newCustomer(ctx, s.condensed)
		if err != nil {
			return err
		}
		s.customer = c
	}
	if _, err := s.whole.Checkpoint(ctx); err != nil {
		return fmt.Errorf("day %d: %w", day, err)
	}
	if err := s.evening(ctx, day); err != nil {
		return fmt.Errorf("day %d: %w", day, err)
	}
	return nil
}

// evening is what the shop with the condensed log does after a day: each month it says which
// entries may go, and each quarter it lets go of those that the auditor has seen.
func (s *story) evening(ctx context.Context, day int) error {
	if day%month == month-1 {
		if _, err := s.condensed.Condense(ctx, time.Time{}); err != nil {
			return err
		}
	}
	c, err := s.condensed.Checkpoint(ctx)
	if err != nil {
		return err
	}
	if err := s.cosign(ctx, s.condensed, c); err != nil {
		return err
	}
	if day%quarter != quarter-1 {
		return nil
	}
	if _, err := s.visit(ctx, s.condensed); err != nil {
		return err
	}
	dropped, err := s.condensed.Drop(ctx)
	s.went += dropped.Entries
	return err
}
