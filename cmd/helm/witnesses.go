package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/cosign"
)

// witnesses are the flags that say whose cosignatures count.
type witnesses struct {
	keys     []string
	quorum   int
	cosigned string
}

func (w *witnesses) flags(c *cobra.Command) {
	c.Flags().StringArrayVar(&w.keys, "witness", nil,
		"verifier key, `VKEY`, of a witness that may cosign the checkpoint; once for each")
	c.Flags().IntVar(&w.quorum, "quorum", 0, "how many of the witnesses, `N`, must have cosigned it")
	c.Flags().StringVar(&w.cosigned, "cosigned", "", "`FILE` with the checkpoint and cosignatures that were made later")
}

// options adds them to o.
func (w *witnesses) options(a *app, o *evidence.Options) (err error) {
	if _, err := cosign.Parse(w.keys); err != nil {
		return usageError{fmt.Errorf("--witness: %w", err)}
	}
	if n := len(w.keys); w.quorum != 0 && n == 0 || n > 0 && (w.quorum < 1 || w.quorum > n) {
		return usageError{fmt.Errorf("--quorum: %d of %d witnesses: not 1 to as many as there are", w.quorum, n)}
	}
	o.Witnesses, o.Quorum = w.keys, w.quorum
	if w.cosigned != "" {
		o.Cosigned, err = a.read(w.cosigned)
	}
	return err
}
