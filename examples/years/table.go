package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/helmkernel/helm/evidence"
)

const heading = `                 the whole log         condensed
years  entries   on disk  New         on disk  New       let go
`

// row prints what both logs are after so many days.
func (s *story) row(ctx context.Context, out io.Writer, days int) error {
	size, err := s.whole.store.Size(ctx)
	if err != nil {
		return err
	}
	var disk [2]int64
	var took [2]time.Duration
	for i, x := range []*shop{s.whole, s.condensed} {
		if disk[i], err = x.bytes(); err != nil {
			return err
		}
		if err := x.close(); err != nil {
			return err
		}
		if took[i], err = x.open(); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(out, "%5.1f  %7d  %4d MiB  %6.0f ms  %4d MiB  %6.0f ms  %7d\n", float64(days)/year, size,
		disk[0]>>20, milliseconds(took[0]), disk[1]>>20, milliseconds(took[1]), s.went)
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
