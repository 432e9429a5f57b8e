// Command audit is the auditor's side: what a pack proves to an auditor who was not there and has
// no key.
//
//	go run ./examples/audit
//
// makes a log in a temporary directory, and audits it: pack and trust state in, report out. It also
// audits a pack that was tampered with, an old pack that is passed off as the latest, and a pack
// from which a caller was erased, and judges the calls again under other rules. To audit your own
// pack:
//
//	go run ./examples/audit -pack FILE -trust FILE -origin NAME [-kept FILE [-begin]] [-json]
//
// The exit status is 0 only for a pack that is as it should be, 1 for every other answer, and 2 if
// the arguments are wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

// start is main with an exit status.
func start(ctx context.Context, args []string, out, errs io.Writer) int {
	f := flag.NewFlagSet("audit", flag.ContinueOnError)
	f.SetOutput(errs)
	var (
		pack = f.String("pack", "",
			"audit the EvidencePack in this `file` (default: the packs of a log that is made for it)")
		trust = f.String("trust", "",
			"the initial trust state of its log, in a `file`: you have it from elsewhere than the pack")
		origin = f.String("origin", "", "the `name` of its log (default: any; the report shows it)")
		kept   = f.String("kept", "",
			"the `file` in which you keep the last checkpoint (default: none, and an old pack passes for the latest)")
		begin  = f.Bool("begin", false, "make the file of -kept: this is the first pack of the log that you see")
		asJSON = f.Bool("json", false, "print the report as JSON")
	)
	wrong := func(format string, args ...any) int {
		fmt.Fprintf(errs, "audit: "+format+"\n", args...)
		f.Usage()
		return 2
	}
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case f.NArg() > 0:
		return wrong("unexpected argument %q", f.Arg(0))
	case f.NFlag() > 0 && (*pack == "" || *trust == ""):
		return wrong("a pack is audited with -pack and -trust: give both")
	case *begin && *kept == "":
		return wrong("-begin makes the file of -kept, which is not given")
	}
	empty := ""
	f.Visit(func(x *flag.Flag) {
		if x.Value.String() == "" {
			empty = x.Name
		}
	})
	if empty != "" { // of a variable that is not set, say: leaving out -origin or -kept means something else
		return wrong("-%s is empty: give it a value, or leave it out", empty)
	}
	err := func() error {
		if *pack == "" {
			return demonstrate(ctx, out)
		}
		a, err := newAuditor(out, *trust, *origin, *kept)
		if err != nil {
			return err
		}
		a.json = *asJSON
		if *begin {
			return a.begin(ctx, *pack)
		}
		return a.audit(ctx, *pack)
	}()
	if err != nil {
		fmt.Fprintln(errs, "audit:", err)
		return 1
	}
	return 0
}
