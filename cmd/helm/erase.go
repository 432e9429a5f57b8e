package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/erasure"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

func erase(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "erase DIR --session SESSION", Short: "erase arguments, outputs and texts of a session",
		Args: arguments(cobra.ExactArgs(1)),
		Long: "Erase what a log keeps of a session besides its entries: arguments, outputs, facts and texts. The\n" +
			"entries stay, and packs verify. No kernel may be writing to the log. Packs and backups of before\n" +
			"keep what they have.",
	}
	session := c.Flags().String("session", "", "`SESSION` as its calls named it")
	word := c.Flags().String("yes", "", "the name of the `SESSION` again, where nobody can type it")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *session == "" {
			return usageError{fmt.Errorf("%s needs --session", c.CommandPath())}
		}
		log, err := openLog(args[0]) // Open would make one
		if err != nil {
			return err
		}
		log.Close()
		name := ascii(*session)
		what := fmt.Sprintf("of the session %s all arguments, outputs and texts are erased, for ever\n", name)
		if err := confirm(a, c, *word, *session, what); err != nil {
			return err
		}
		store, err := filestore.Open(logDir(args[0]), filestore.Options{})
		if err != nil {
			return err
		}
		defer store.Close()
		e, err := erasure.Erase(c.Context(), store, erasure.Selection{Sessions: []string{*session}})
		if err != nil {
			return err
		}
		v := struct {
			Calls  int                `json:"calls"`
			Erased []contracts.Digest `json:"erased"`
			Kept   []contracts.Digest `json:"kept"`
			Gone   []contracts.Digest `json:"gone"`
		}{len(e.Calls), append([]contracts.Digest{}, e.Erased...), append([]contracts.Digest{}, e.Kept...),
			append([]contracts.Digest{}, e.Gone...)}
		text := fmt.Sprintf("%d calls: %d blobs erased, %d kept because another entry names them, %d were not there\n",
			v.Calls, len(v.Erased), len(v.Kept), len(v.Gone))
		return a.print(text, v)
	}
	return c
}
