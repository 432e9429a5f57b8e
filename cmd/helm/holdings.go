package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
)

// holdings are the flags that say what an auditor has of a log that may have let go of entries.
type holdings struct {
	seen    string
	entries []string
}

func (h *holdings) flags(c *cobra.Command) {
	c.Flags().StringVar(&h.seen, "seen", "",
		"`FILE` with hashes of condense entries that were verified while their sets stood whole, one a line")
	c.Flags().StringArrayVar(&h.entries, "entry", nil,
		"`FILE` with an entry that was kept: the log has it or its own stub; once for each")
}

// options adds them to o.
func (h *holdings) options(a *app, o *evidence.Options) error {
	if h.seen != "" {
		b, err := a.read(h.seen)
		if err != nil {
			return err
		}
		for i, text := range bytes.Fields(b) {
			d, err := crypto.ParseDigest(text)
			if err != nil {
				return fmt.Errorf("%s: word %d is no hash of 64 lower-case hex digits", h.seen, i+1)
			}
			o.Seen = append(o.Seen, d)
		}
	}
	entries, err := a.readAll(h.entries)
	for _, e := range entries {
		o.Kept = append(o.Kept, bytes.TrimSuffix(e, []byte("\n")))
	}
	return err
}
