package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/kept"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

func (a *app) log() *cobra.Command {
	c := group("log", "verify logs in files, and read them")
	c.AddCommand(a.verifyLog(), a.showLog(), graphLog(a), a.export(), erase(a))
	return c
}

func (a *app) verifyLog() *cobra.Command {
	c := &cobra.Command{
		Use: "verify DIR", Short: "verify a log in place, up to its checkpoint", Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify a log in place, up to its latest checkpoint. A kernel may be writing to it.",
	}
	var from root
	from.flags(c)
	c.Flags().StringVar(&from.last, "last", "", "`FILE` with the last checkpoint")
	file := c.Flags().String("kept", "", "`FILE` that keeps the last checkpoint, as pack audit has it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if from.last != "" && *file != "" {
			return usageError{errors.New("--last or --kept, not both")}
		}
		o, err := a.options(&from)
		if err != nil {
			return err
		}
		store, err := filestore.OpenReadOnly(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		if *file != "" {
			return a.report(kept.VerifyStore(c.Context(), *file, store, o))
		}
		return a.report(evidence.VerifyStore(c.Context(), store, o))
	}
	return c
}

func (a *app) showLog() *cobra.Command {
	c := &cobra.Command{
		Use: "show DIR", Short: "list the entries of a log", Args: arguments(cobra.ExactArgs(1)),
		Long: "List the entries of a log. Nothing is verified: see log verify. A kernel may be writing to it.",
	}
	var which filter
	which.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		store, err := filestore.OpenReadOnly(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		return a.show(c.Context(), store, &which)
	}
	return c
}

func (a *app) export() *cobra.Command {
	c := &cobra.Command{
		Use: "export DIR PACK --key FILE", Short: "write the pack of a log, up to its checkpoint",
		Args: arguments(cobra.ExactArgs(2)),
		Long: "Write the pack of a log, up to its latest checkpoint. It is written whole or not at all, and no file\n" +
			"is replaced.",
	}
	name := c.Flags().String("key", "", "`FILE` with a kernel key of the log, - is stdin")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *name == "" {
			return usageError{fmt.Errorf("%s needs --key", c.CommandPath())}
		}
		key, err := a.key(*name)
		if err != nil {
			return err
		}
		store, err := filestore.OpenReadOnly(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		err = create(args[1], 0o600, func(w io.Writer) error { return evidence.Write(c.Context(), w, store, key) })
		if err != nil {
			return err
		}
		return a.print(args[1]+"\n", map[string]string{"pack": args[1]})
	}
	return c
}

// A source of entries.
type source interface {
	Size(ctx context.Context) (uint64, error)
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
}

// A filter says which entries are listed.
type filter struct{ session, tool, verdict string }

func (f *filter) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.session, "session", "", "only of this `SESSION`")
	c.Flags().StringVar(&f.tool, "tool", "", "only calls of this `TOOL`")
	c.Flags().StringVar(&f.verdict, "verdict", "", "only judgements that are `ALLOW` or DENY")
}

// A line is an entry as it is listed. Nothing of arguments or outputs is in it.
type line struct {
	Index   uint64               `json:"index"`
	Hash    crypto.Digest        `json:"hash"`
	Time    contracts.Time       `json:"time"`
	ID      string               `json:"id"` // session/seq
	Kind    string               `json:"kind"`
	Tool    string               `json:"tool,omitempty"`
	Verdict string               `json:"verdict,omitempty"`
	Outcome contracts.Outcome    `json:"outcome,omitempty"`
	Reason  contracts.ReasonCode `json:"reason,omitempty"`
	Rule    string               `json:"rule,omitempty"`
	session string
}

func (x *line) String() string {
	words := []string{strconv.FormatUint(x.Index, 10), x.Time.String(), ascii(x.ID), x.Kind}
	for _, w := range []string{ascii(x.Tool), x.Verdict, string(x.Outcome), string(x.Reason), ascii(x.Rule)} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, "  ")
}

// ascii returns a name of a log as a terminal may be told it.
func ascii(name string) string {
	s := strconv.QuoteToASCII(name)
	return s[1 : len(s)-1]
}

// show lists entries: a line each, or with --json an object each.
func (a *app) show(ctx context.Context, log source, which *filter) error {
	if v := which.verdict; v != "" && v != "ALLOW" && v != "DENY" {
		return usageError{errors.New("--verdict: ALLOW or DENY")}
	}
	size, err := log.Size(ctx)
	if err != nil {
		return err
	}
	var r contracts.Reader
	index := uint64(0)
	for e, err := range log.Entries(ctx, 0, size) {
		if err != nil {
			return err
		}
		sealed, err := r.Open(e)
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		st, err := sealed.Statement()
		if err != nil {
			return fmt.Errorf("entry %d: %w", index, err)
		}
		x := lineOf(st)
		x.Index, x.Hash = index, e.Hash()
		index++
		if which.session != "" && which.session != x.session || which.tool != "" && which.tool != x.Tool ||
			which.verdict != "" && which.verdict != x.Verdict {
			continue
		}
		if err := a.item(x); err != nil {
			return err
		}
	}
	return nil
}

func lineOf(st *contracts.Statement) *line {
	id := st.Session + "/" + strconv.FormatUint(st.Seq, 10)
	x := &line{Time: st.Time, ID: id, Kind: string(st.Kind()), session: st.Session}
	if r := st.Receipt; r != nil {
		x.Tool, x.Outcome, x.Reason, x.Verdict = r.Tool, r.Outcome, r.Reason, r.Verdict.String()
	}
	if d := st.Judgement(); d != nil {
		x.Tool, x.Reason, x.Rule, x.Verdict = d.Tool, d.Reason, d.Rule, d.Verdict.String()
	}
	return x
}
