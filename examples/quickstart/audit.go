package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/examples/internal/output"
	"github.com/helmkernel/helm/trust/registry"
)

// audit is the auditor's side: it has a pack and a trust state, and nothing else.
func audit(ctx context.Context, out io.Writer, pack string) error {
	state, err := os.ReadFile(output.TrustName(pack))
	if err != nil {
		return err
	}
	trust, err := registry.ParseState(state)
	if err != nil {
		return fmt.Errorf("%s: %w", output.TrustName(pack), err)
	}
	b, err := os.ReadFile(pack)
	if err != nil {
		return err
	}
	o := evidence.Options{Trust: trust, Origin: origin}
	report, err := evidence.Verify(ctx, bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		return fmt.Errorf("%s: %w", pack, err)
	}
	fmt.Fprintf(out, "pack   %s (%d bytes)\ntrust  %s\n", pack, len(b), output.TrustName(pack))
	fmt.Fprintf(out,
		"level  %s, signer %s: %d entries, %d verdicts replayed, %d of the kernel's own, %d not replayable\n",
		report.Level, report.Signer, report.Size, report.Replay.Replayed, report.Replay.KernelsOwn,
		report.Replay.NotReplayable)
	fmt.Fprintf(out, "root   %s\n", report.MerkleRoot)

	b[len(b)/2] ^= 1 // a change by someone who has the pack and no key
	report, err = evidence.Verify(ctx, bytes.NewReader(b), int64(len(b)), o)
	if err == nil {
		return fmt.Errorf("a pack with a flipped bit was found %s", report.Level)
	}
	fmt.Fprintf(out, "\none bit flipped: %s: %v\n", report.Level, err)
	return nil
}
