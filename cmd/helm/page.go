package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/faces/view"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/explained"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A section is the part of a log that a page is of.
type section struct {
	from, to uint64
	inputs   bool
}

func (s *section) flags(c *cobra.Command, of string) {
	c.Flags().Uint64Var(&s.from, "from", 0, of+"only entries from this `INDEX` on")
	c.Flags().Uint64Var(&s.to, "to", 0, of+"only entries before this `INDEX`")
	c.Flags().BoolVar(&s.inputs, "inputs", false, of+"with arguments and outputs, as far as they were kept")
}

// options returns what a page of the section is of.
func (s *section) options(session string) view.Options {
	o := view.Options{From: s.from, To: s.to, Inputs: s.inputs}
	if session != "" {
		o.Session = &session
	}
	return o
}

func viewPack(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "view PACK [PAGE]", Short: "write the page on which people read a pack",
		Args: arguments(cobra.RangeArgs(1, 2)),
		Long: "Verify a pack, and write a page of it for a browser: what is proved, sessions, calls, why each was\n" +
			"decided, and what led to what. The page checks signatures, hashes and chains itself, and asks nobody\n" +
			"for anything. It is PACK.html if it is not named. It is written whole or not at all, and no file is\n" +
			"replaced. It holds 10,000 entries: of a longer pack choose a session, or --from and --to.",
	}
	var from root
	from.flags(c)
	var s section
	s.flags(c, "")
	session := c.Flags().String("session", "", "only of this `SESSION`")
	c.RunE = func(c *cobra.Command, args []string) error {
		name := args[0] + ".html"
		if len(args) == 2 {
			name = args[1]
		}
		return a.opened(args[0], &from, func(f io.ReaderAt, size int64, o evidence.Options) error {
			p, r, err := evidence.OpenPack(c.Context(), f, size, o)
			if err != nil {
				return a.report(r, err)
			}
			what := s.options(*session)
			what.Report, what.About = &r, "Of the pack, when this page was written."
			if !r.Success(evidence.Invalid) {
				first, _, _ := strings.Cut(r.String(), "\n")
				say(a, first)
			}
			return writePage(c.Context(), a, p, name, what)
		})
	}
	return c
}

// logPage writes the page of a log, with what the verifier says of it under no trust root.
func logPage(ctx context.Context, a *app, log proofgraph.Store, name string, o view.Options) error {
	r, err := evidence.VerifyStore(ctx, log, evidence.Options{})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && r.Fault == nil:
		o.About = "Not verified: " + err.Error()
	default:
		o.Report = &r
		o.About = "Of the log in its place, when this page was written, and under no trust root: see helm log verify."
	}
	return writePage(ctx, a, log, name, o)
}

// writePage writes a page, and prints its name.
func writePage(
	ctx context.Context, a *app, log view.Source, name string, o view.Options,
) error {
	steps, err := stepsIn(ctx, log, &o)
	if err != nil {
		return err
	}
	o.Steps = func(i uint64) []string { return steps[i] }
	err = create(name, 0o600, func(w io.Writer) error { return view.Write(ctx, w, log, o) })
	if errors.Is(err, view.ErrTooMuch) {
		return usageError{fmt.Errorf("%w: --session, or --from and --to", err)}
	}
	if err != nil {
		return err
	}
	return a.print(name+"\n", map[string]string{"page": name})
}

// stepsIn judges the calls of a page again, and returns the steps of each, a line each.
func stepsIn(ctx context.Context, log source, o *view.Options) (map[uint64][]string, error) {
	trust, err := began(ctx, log)
	if err != nil {
		return nil, err
	}
	all := map[uint64][]string{}
	records := map[contracts.Digest]*contracts.PolicyRecord{}
	policies := map[contracts.Digest]*guardian.Policy{}
	see := func(i uint64, st *contracts.Statement, state *registry.State) error {
		if p := st.Policy; p != nil {
			one := *p
			records[p.Policy] = &one
		}
		d := st.Judgement()
		if d == nil || d.KernelsOwn() || i < o.From || o.To > 0 && i >= o.To {
			return nil
		}
		if o.Session != nil && *o.Session != st.Session || len(all) > view.MaxEntries {
			return nil
		}
		policy, ok := policies[d.PolicyHash]
		if !ok {
			var err error
			if policy, err = stack(ctx, log, records[d.PolicyHash]); err != nil {
				all[i] = lacking(err)
				return ctx.Err()
			}
			policies[d.PolicyHash] = policy
		}
		steps, err := again(ctx, log, d, policy, state)
		if err != nil {
			all[i] = lacking(err)
			return ctx.Err()
		}
		for k := range steps {
			all[i] = append(all[i], stepLine(&steps[k]))
		}
		return nil
	}
	_, err = explained.Walk(ctx, readOnly{log}, trust, see)
	return all, err
}

func lacking(err error) []string { return []string{"no steps: " + err.Error()} }

// stepLine returns a step on a line, without the values that it read.
func stepLine(x *guardian.Step) string {
	words := []string{fmt.Sprint(x.Condition), x.Rule, x.Document, x.Pointer, fmt.Sprint(x.Result)}
	for _, r := range x.Reads {
		words = append(words, strings.TrimSpace(r.Pointer+" "+r.Type))
	}
	kept := words[:0]
	for _, w := range words {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, "  ")
}

// lets returns a handler that lets in who may ask, and everybody to the page that has no data.
func (h *held) lets(in http.Handler) http.Handler {
	page, asked := h.who.Page(view.Handler()), h.who.Handler(in)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/helm/" {
			page.ServeHTTP(w, r)
			return
		}
		asked.ServeHTTP(w, r)
	})
}
