package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/conformance"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/sandbox"
)

// levels are those that can be asked for, in order.
var levels = []conformance.Level{conformance.Format, conformance.Kernel, conformance.Full}

func conform(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "conformance", Short: "run the gates of conformance", Args: arguments(cobra.NoArgs),
		Long: "Run the gates of conformance against the kernel in this program, or grade the answers of another\n" +
			"implementation to the vectors. The answer is no if the level is not reached.",
	}
	answers := c.Flags().String("grade", "", "`FILE` of answers, one JSON object a line")
	level := c.Flags().String("level", "",
		"the `LEVEL` to be reached, FORMAT, KERNEL or FULL; KERNEL without it, with --grade FORMAT")
	keyFile := c.Flags().String("key", "", "`FILE` with a key that signs the report")
	to := c.Flags().String("to", "", "a new `FILE` for the signed report")
	c.RunE = func(c *cobra.Command, _ []string) error {
		least := conformance.Kernel
		if *answers != "" {
			least = conformance.Format
		}
		if *level != "" {
			least = conformance.Level(*level)
		}
		if rank(least) == 0 {
			return usageError{fmt.Errorf("--level: %q is none of FORMAT, KERNEL, FULL", *level)}
		}
		if (*keyFile == "") != (*to == "") {
			return usageError{fmt.Errorf("%s: --key and --to go together", c.CommandPath())}
		}
		r, err := gates(c.Context(), a, *answers)
		if err != nil {
			return err
		}
		if *keyFile != "" {
			key, err := a.key(*keyFile)
			if err != nil {
				return err
			}
			if r, err = r.Sign(key); err != nil {
				return err
			}
			err = create(*to, 0o644, func(w io.Writer) error { _, err := w.Write(r.Envelope); return err })
			if err != nil {
				return err
			}
		}
		return graded(a, r, least)
	}
	return c
}

// rank returns the place of a level, 0 if there is none.
func rank(l conformance.Level) int {
	for i, x := range levels {
		if x == l {
			return i + 1
		}
	}
	return 0
}

func gates(ctx context.Context, a *app, answers string) (r conformance.Report, err error) {
	if answers == "-" {
		return conformance.Grade(conformance.Vectors(), a.in)
	}
	if answers != "" {
		f, err := os.Open(answers)
		if err != nil {
			return r, err
		}
		defer f.Close()
		return conformance.Grade(conformance.Vectors(), f)
	}
	var o conformance.Options
	runtime, err := sandbox.New(sandbox.Options{})
	if err == nil { // else its gate says that it was not run
		defer runtime.Close(context.WithoutCancel(ctx))
		o.Rerun = runtime.Rerun(nil)
		o.Sandbox = func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error) {
			return runtime.Load(ctx, wasm, name, g, sandbox.Host{})
		}
	}
	return conformance.Run(ctx, o)
}

func graded(a *app, r conformance.Report, least conformance.Level) error {
	type gate struct {
		Name   string   `json:"name"`
		Result string   `json:"result"`
		Cases  int      `json:"cases"`
		Failed []string `json:"failed"`
		Why    string   `json:"why,omitempty"`
	}
	v := struct {
		Level   string `json:"level"`
		Vectors string `json:"vectors"`
		Gates   []gate `json:"gates"`
	}{string(r.Level), r.Vectors.String(), []gate{}}
	for _, g := range r.Gates {
		x := gate{Name: g.Name, Result: string(g.Result), Cases: len(g.Cases), Failed: []string{}, Why: g.Why}
		for _, f := range g.Failed {
			x.Failed = append(x.Failed, f.Case)
		}
		v.Gates = append(v.Gates, x)
	}
	if err := a.print(r.String(), v); err != nil {
		return err
	}
	if rank(r.Level) < rank(least) {
		return errNo
	}
	return nil
}
