package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/helmkernel/helm/evidence"
)

const heading = `                 the whole log                    condensed
years  entries   on disk  New      state  on disk  New      state   let go
`

// row prints what both logs are after so many days, and how long New takes that reads the log, and
// one that goes on from a state.
func (s *story) row(ctx context.Context, out io.Writer, days int) error {
	size, err := s.whole.store.Size(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%5.1f  %7d", float64(days)/year, size)
	for _, x := range []*shop{s.whole, s.condensed} {
		disk, err := x.bytes()
		if err != nil {
			return err
		}
		var took [2]time.Duration
		for i, fromState := range []bool{false, true} {
			if err := x.close(); err != nil {
				return err
			}
			if took[i], err = x.open(fromState); err != nil {
				return err
			}
		}
		fmt.Fprintf(out, "  %4d MiB %5.0f ms %4.0f ms", disk>>20, milliseconds(took[0]), milliseconds(took[1]))
	}
	_, err = fmt.Fprintf(out, "  %7d\n", s.went)
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// proof prints what proves the customer's call of the first day.
func (s *story) proof(ctx context.Context, out io.Writer) error {
	began := time.Now()
	excerpt, report, err := s.prove(ctx, s.condensed, s.options)
	if err != nil {
		return err
	}
	const line = "\nthe receipt of entry %d, from the customer's copy: %v in a log of %d entries, %d bytes, %.1f ms\n"
	_, err = fmt.Fprintf(out, line, s.customer.index, report.Level, report.Size, excerpt.Len(),
		milliseconds(time.Since(began)))
	if err == nil && !report.Success(evidence.Witnessed) {
		err = fmt.Errorf("the excerpt proves too little:\n%v", report)
	}
	return err
}
