package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/integrations/postgres"
)

// audit ends all replicas, and verifies one pack as an auditor does, who has it and the initial
// trust state alone. It prints what the pack says, which must be what the bank's book says.
func audit(ctx context.Context, s *story) error {
	if err := s.deployment.end(); err != nil { // the last of them makes a checkpoint of all
		return err
	}
	store, err := postgres.Open(ctx, s.db.owner, postgres.Options{Schema: s.db.schema, Origin: origin})
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.Check(ctx); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := evidence.Write(ctx, &b, store, s.keys.kernel); err != nil {
		return err
	}
	initial, err := s.keys.initial()
	if err != nil {
		return err
	}
	pack, report, err := evidence.OpenPack(ctx, bytes.NewReader(b.Bytes()), int64(b.Len()),
		evidence.Options{Trust: initial, Origin: origin})
	if err != nil {
		return err
	}
	size, err := store.Size(ctx)
	if err != nil {
		return err
	}
	whole := report.Size == size && report.Open == nil && report.Replay.NotReplayable == 0
	if !report.Success(evidence.Logged) || !whole {
		return fmt.Errorf("the pack proves too little of a log of %d entries:\n%v", size, report)
	}
	fmt.Fprintf(s.out, "  one pack of %d entries, %d KiB: %v, %d verdicts replayed; the tables agree\n\n",
		report.Size, b.Len()>>10, report.Level, report.Replay.Replayed)
	l, err := read(ctx, pack)
	if err != nil {
		return err
	}
	l.print(s.out)
	done, err := l.compare(s.bank.orders())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "  the bank's book says the same of each call; of the unknown ones it has %d\n", done)
	return err
}
