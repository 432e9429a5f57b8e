package main

import (
	"bytes"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/graph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

func excerpts(a *app) *cobra.Command {
	c := group("excerpt", "prove one receipt of a log, without the log")
	c.AddCommand(writeExcerpt(a), verifyExcerpt(a))
	return c
}

func writeExcerpt(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "write DIR RECEIPT EXCERPT", Short: "write a receipt with the proof that the log has it",
		Args: arguments(cobra.ExactArgs(3)),
		Long: "Write a receipt of a log and its decision, with proofs that the log has them, under its latest\n" +
			"checkpoint. RECEIPT is its index, hash or session/seq, as log show has it. No key is needed, and a\n" +
			"kernel may be writing to the log. It is written whole or not at all, and no file is replaced.",
		Example: "helm excerpt write state/log chat-1/5 refund.excerpt",
	}
	inputs := c.Flags().Bool("inputs", false, "with arguments, output and facts, as far as they were kept")
	kept := c.Flags().StringArray("entry", nil, "`FILE` with an entry that the log let go of; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		entries, err := a.readAll(*kept)
		if err != nil {
			return err
		}
		store, err := openLog(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		defer a.working("writing " + args[2])()
		x := evidence.Excerpt{Blobs: *inputs}
		for _, e := range entries {
			x.Entries = append(x.Entries, bytes.TrimSuffix(e, []byte("\n")))
		}
		if x.Receipt, err = found(c, store, args[1]); err != nil {
			return err
		}
		err = create(args[2], 0o600, func(w io.Writer) error { return evidence.WriteExcerpt(c.Context(), w, store, x) })
		if err != nil {
			return err
		}
		return a.print(args[2]+"\n", map[string]any{"excerpt": args[2], "entry": x.Receipt})
	}
	return c
}

// found returns the index of the entry that an argument names.
func found(c *cobra.Command, log *filestore.Store, name string) (uint64, error) {
	if index, err := strconv.ParseUint(name, 10, 64); err == nil {
		return index, nil
	}
	g, err := graph.Read(c.Context(), log)
	if err != nil {
		return 0, err
	}
	index, err := g.Find(name)
	if err != nil {
		return 0, wrongly(c, fmt.Errorf("RECEIPT: %w", err))
	}
	return index, nil
}

func verifyExcerpt(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "verify EXCERPT", Short: "verify an excerpt", Args: arguments(cobra.ExactArgs(1)),
		Long: "Verify an excerpt: that the kernel signed the receipt and its decision, and that the log of its\n" +
			"checkpoint has them. No verdict is replayed: that takes a pack. The answer is yes only if --trust says\n" +
			"who signs for the log: its trust state at the receipt or later, as trust in helm trust show --json.\n" +
			"With --witness it is yes only if --quorum of these have cosigned the checkpoint, and with --last only\n" +
			"if that is a checkpoint of the same size and root.",
	}
	var from root
	from.flags(c)
	c.Flags().Lookup("trust").Usage = "`FILE` with a trust state of the log, at the receipt or later"
	c.Flags().Lookup("kernel").Usage =
		"in place of --trust: the public key, in `HEX`, of the kernel that signed; it proves no more than that"
	c.Flags().StringVar(&from.last, "last", "", "`FILE` with the last checkpoint")
	var by witnesses
	by.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.opened(args[0], &from, func(f io.ReaderAt, size int64, o evidence.Options) error {
			if err := by.options(a, &o); err != nil {
				return err
			}
			return a.report(evidence.VerifyExcerpt(c.Context(), f, size, o))
		})
	}
	return c
}
