// Package command runs an example as a program: its arguments, its errors and its exit status.
package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
)

// Run runs an example whose flags are set up in f, and returns its exit status: 1 if it fails, 2 if
// an argument is not one of its own.
func Run(f *flag.FlagSet, args []string, errs io.Writer, example func() error) int {
	f.SetOutput(errs)
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case f.NArg() > 0:
		fmt.Fprintf(errs, "%s: unexpected argument %q\n", f.Name(), f.Arg(0))
		f.Usage()
		return 2
	}
	return Plain(f.Name(), nil, errs, example)
}

// Plain is Run for an example that has neither flags nor arguments.
func Plain(name string, args []string, errs io.Writer, example func() error) int {
	if len(args) > 0 {
		fmt.Fprintf(errs, "%s: unexpected argument %q\n", name, args[0])
		fmt.Fprintf(errs, "Usage of %s: go run ./examples/%[1]s, without flags or arguments\n", name)
		return 2
	}
	if err := example(); err != nil {
		fmt.Fprintf(errs, "%s: %v\n", name, err)
		return 1
	}
	return 0
}
