// Command years plays five years of a small agent in about a minute, by a clock of its own. Two
// shops have the same agent, which serves the same customers: one keeps every entry of its log, the
// other has two witnesses cosign a checkpoint every evening, condenses the log every month, and
// lets go of what was condensed every quarter, after an auditor was there.
//
//	go run ./examples/years [-days N]
//
// It prints what each log takes on disk, and how long a kernel takes to go on with it, reading it
// or from the state that the kernel before has left, at the end of each year. Last, a customer of
// the first day has the call of then proved, of which the log has a hash alone: the customer kept
// the receipt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm/examples/internal/command"
)

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("years", flag.ContinueOnError)
	days := f.Int("days", 5*year, "how many `days`, of which a year has 364")
	return command.Run(f, args, errs, func() error { return run(ctx, out, *days) })
}

const (
	year    = 364 // days
	quarter = year / 4
	month   = year / 13
)

func run(ctx context.Context, out io.Writer, days int) (err error) {
	dir, err := os.MkdirTemp("", "helm-years-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := begin(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	fmt.Fprint(out, heading)
	for day := range days {
		if err := s.day(ctx, day); err != nil {
			return err
		}
		if n := day + 1; n%year == 0 || n == days {
			if err := s.row(ctx, out, n); err != nil {
				return err
			}
		}
	}
	return s.proof(ctx, out)
}
