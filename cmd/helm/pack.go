package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/sandbox"
)

func (a *app) pack() *cobra.Command {
	c := group("pack", "verify packs, and read them")
	c.AddCommand(a.verifyPack(), a.audit(), a.showPack(), graphPack(a), a.backtest(), viewPack(a))
	return c
}

// A root is what an auditor knows of a log from other sources than the pack.
type root struct {
	trust, kernel, origin, last string
}

func (r *root) flags(c *cobra.Command) {
	c.Flags().StringVar(&r.trust, "trust", "", "`FILE` with the initial trust state of the log")
	c.Flags().StringVar(&r.kernel, "kernel", "",
		"in place of --trust: the public key, in `HEX`, of the kernel that began the log")
	c.Flags().StringVar(&r.origin, "origin", "", "the `NAME` of the log; any without it")
}

func (a *app) options(r *root) (o evidence.Options, err error) {
	if r.trust != "" && r.kernel != "" {
		return o, usageError{errors.New("--trust or --kernel, not both")}
	}
	if r.origin != "" && !contracts.IsOrigin(r.origin) {
		return o, usageError{errors.New("--origin: not 1 to 255 letters, digits and . _ / -, as logs are named")}
	}
	o.Origin = r.origin
	if r.trust != "" {
		if o.Trust, err = a.trustState(r.trust); err != nil {
			return o, err
		}
	}
	if r.kernel != "" {
		key, err := hex.DecodeString(r.kernel)
		if err != nil || crypto.CheckPublicKey(key) != nil {
			return o, usageError{errors.New("--kernel: no public key of 64 characters in hex")}
		}
		o.Kernel = key
	}
	if r.last != "" {
		o.Last, err = a.read(r.last)
	}
	return o, err
}

// opened calls do with the file of a pack, and what it is to be verified by.
func (a *app) opened(name string, r *root, do func(f io.ReaderAt, size int64, o evidence.Options) error) error {
	o, err := a.options(r)
	if err != nil {
		return err
	}
	f, size, err := open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	defer a.working("verifying " + name)()
	return do(f, size, o)
}

// report prints a report, which is no unless it is a success.
func (a *app) report(r evidence.Report, err error) error {
	if r.Fault == nil && err != nil || errors.Is(err, evidence.ErrInput) {
		return err // not of what was verified
	}
	if err := a.print(r.String(), r); err != nil {
		return err
	}
	if !r.Success(evidence.Invalid) {
		return errNo
	}
	return nil
}

func (a *app) verifyPack() *cobra.Command {
	c := &cobra.Command{
		Use: "verify PACK", Short: "verify a pack", Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify a pack: that nothing in it was removed, reordered, changed or inserted, and that each verdict\n" +
			"that can be replayed has the same result. The answer is yes only if --trust or --kernel says who\n" +
			"may have made it. An old pack passes too, unless --last has the last checkpoint: see pack audit.\n" +
			"With --witness the answer is yes only if --quorum of these have cosigned its checkpoint. Of entries\n" +
			"that the log has let go of stubs are left: the report says of which nobody has seen the entries.",
	}
	var from root
	from.flags(c)
	c.Flags().StringVar(&from.last, "last", "", "`FILE` with the last checkpoint")
	var by witnesses
	by.flags(c)
	var has holdings
	has.flags(c)
	rerun := c.Flags().Bool("rerun", false, "run calls of closed sandboxes again: code of the pack, in the sandbox")
	modules := c.Flags().StringArray("module", nil, "`FILE` of a module that the pack lacks, for --rerun")
	gas := c.Flags().Uint64("rerun-gas", 0, "the most `GAS` for all runs; 1e12 without it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if !*rerun && (len(*modules) > 0 || *gas > 0) {
			return wrongly(c, errors.New("--module and --rerun-gas are of --rerun"))
		}
		return a.opened(args[0], &from, func(f io.ReaderAt, size int64, o evidence.Options) error {
			err := by.options(a, &o)
			if err == nil {
				err = has.options(a, &o)
			}
			if err != nil {
				return err
			}
			if *rerun {
				runtime, err := sandbox.New(sandbox.Options{})
				if err != nil {
					return err
				}
				defer runtime.Close(context.WithoutCancel(c.Context()))
				all, err := a.readAll(*modules)
				if err != nil {
					return err
				}
				o.Rerun, o.RerunGas = runtime.Rerun(all), *gas
			}
			return a.report(evidence.Verify(c.Context(), f, size, o))
		})
	}
	return c
}

func (a *app) audit() *cobra.Command {
	c := &cobra.Command{
		Use: "audit PACK --trust FILE --kept FILE", Short: "verify a pack, and that it goes on from the last one",
		Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify a pack against the checkpoint that was kept of the one before, and keep its own if it is a\n" +
			"success. --begin begins the file with the first pack of a log. Next to it, with the suffix .seen,\n" +
			"are the hashes of condense entries that were verified before their entries were let go of.",
	}
	var from root
	from.flags(c)
	var has holdings
	has.flags(c)
	file := c.Flags().String("kept", "", "`FILE` that keeps the last checkpoint")
	begin := c.Flags().Bool("begin", false, "this is the first pack: there is no such file yet")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *file == "" {
			return usageError{fmt.Errorf("%s needs --kept", c.CommandPath())}
		}
		return a.opened(args[0], &from, func(f io.ReaderAt, size int64, o evidence.Options) error {
			if err := has.options(a, &o); err != nil {
				return err
			}
			if !*begin {
				return a.report(kept.Verify(c.Context(), *file, f, size, o))
			}
			r, err := evidence.Verify(c.Context(), f, size, o)
			if err = errors.Join(a.report(r, err), now(a)); err != nil {
				return err // what nobody was told is not kept
			}
			return kept.Begin(*file, r)
		})
	}
	return c
}

func (a *app) showPack() *cobra.Command {
	c := &cobra.Command{
		Use: "show PACK", Short: "list the entries of a pack that verifies", Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify a pack, and list its entries. With --why say of one how it was decided, and what led to it.",
	}
	var from root
	from.flags(c)
	var which filter
	which.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.inPack(c, args[0], &from, func(p *evidence.Pack) error { return a.show(c, p, &which) })
	}
	return c
}

// inPack calls do with a pack that verifies. One that is no success is said to be none.
func (a *app) inPack(c *cobra.Command, name string, from *root, do func(*evidence.Pack) error) error {
	return a.opened(name, from, func(f io.ReaderAt, size int64, o evidence.Options) error {
		p, r, err := evidence.OpenPack(c.Context(), f, size, o)
		if err != nil {
			return a.report(r, err)
		}
		if !r.Success(evidence.Invalid) {
			first, _, _ := strings.Cut(r.String(), "\n")
			say(a, first)
		}
		return do(p)
	})
}

func (a *app) backtest() *cobra.Command {
	c := &cobra.Command{
		Use: "backtest PACK FILE...", Short: "judge the calls of a pack by other documents",
		Args: arguments(cobra.MinimumNArgs(2)),
		Long: "Verify a pack, and print what would have become of its calls under the stack in the files. The\n" +
			"answer is no if a call that was denied would be allowed.",
	}
	var from root
	from.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		candidate, err := a.load(args[1:])
		if err != nil {
			return err
		}
		return a.compare(c.Context(), args[0], &from, candidate)
	}
	return c
}

// compare prints what a candidate makes of the calls of a pack. The answer is no if a call would be
// allowed that was not.
func (a *app) compare(ctx context.Context, name string, from *root, candidate *guardian.Policy) error {
	t, err := a.tested(ctx, name, from, candidate)
	if err != nil {
		return err
	}
	if err := a.print(t.text, t); err != nil {
		return err
	}
	if t.Allowed > 0 {
		return errNo
	}
	return nil
}

// A backTest is what a candidate makes of the calls of a pack.
type backTest struct {
	Judged    uint64        `json:"judged"`
	Same      uint64        `json:"same"`
	Denied    uint64        `json:"denied"`
	Allowed   uint64        `json:"allowed"`
	Again     uint64        `json:"askedAgain"`
	Otherwise uint64        `json:"otherwise"`
	Unjudged  []uint64      `json:"unjudged"`
	Changes   []changedCall `json:"changes"`
	text      string
}

type changedCall struct {
	Entry uint64 `json:"entry"`
	Text  string `json:"text"`
}

// tested has a candidate judge the calls of a pack. If the pack is no success it prints why, and
// that is the answer no.
func (a *app) tested(
	ctx context.Context, name string, from *root, candidate *guardian.Policy,
) (v *backTest, err error) {
	v = &backTest{Unjudged: []uint64{}, Changes: []changedCall{}}
	var text strings.Builder
	err = a.opened(name, from, func(f io.ReaderAt, size int64, o evidence.Options) error {
		n, err := evidence.BackTest(ctx, f, size, o, candidate, func(c evidence.Change) error {
			x := changedCall{c.Index, ascii(strings.ReplaceAll(c.String(), "\u2192", "->"))}
			v.Changes = append(v.Changes, x)
			fmt.Fprintln(&text, x.Text)
			return nil
		})
		if err != nil || !n.Report.Success(evidence.Invalid) {
			return a.report(n.Report, err)
		}
		v.Judged, v.Same, v.Denied, v.Allowed = n.Judged, n.Same, n.Denied, n.Allowed
		v.Again, v.Otherwise = n.Anew, n.Otherwise
		v.Unjudged = append(v.Unjudged, n.Unjudged...)
		return nil
	})
	fmt.Fprintf(&text, "%d calls judged: %d the same, %d denied now, %d allowed now, %d asked again, %d otherwise; "+
		"%d not judged\n",
		v.Judged, v.Same, v.Denied, v.Allowed, v.Again, v.Otherwise, len(v.Unjudged))
	v.text = text.String()
	return v, err
}
