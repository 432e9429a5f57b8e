package explained

import (
	"context"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
)

// Verified closes the kernel of a test, and has its log verified with replay. All verdicts must be
// made again, but the kernel's own.
func Verified(ctx context.Context, k *helm.Kernel, log proofgraph.Store, origin string) error {
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	if err := k.Close(); err != nil {
		return err
	}
	r, err := evidence.VerifyStore(ctx, log, evidence.Options{Trust: k.Trust(), Origin: origin})
	switch {
	case err != nil:
		return err
	case r.Level < evidence.Logged || r.Fault != nil:
		return fmt.Errorf("the log is %v: %v", r.Level, r.Fault)
	case r.Replay.Differing+r.Replay.NotReplayable > 0 || r.Open != nil || r.Behind > 0:
		return fmt.Errorf("the log does not replay: %v", r)
	}
	return nil
}
