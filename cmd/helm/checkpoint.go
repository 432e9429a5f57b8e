package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/faces/state"
)

func checkpoint(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "checkpoint", Short: "sign the log of a state directory as it is now", Args: arguments(cobra.NoArgs),
		Long: "Settle what an earlier process left in the log of a state directory, sign the log as it is now, and\n" +
			"print the signed note. A pack reaches to the latest one. A process that runs makes one when it\n" +
			"ends, and no other can meanwhile.",
	}
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		s, err := state.Open(c.Context(), conf, state.Options{})
		if err != nil {
			return err
		}
		note, err := s.Kernel().Checkpoint(c.Context())
		if err := errors.Join(err, s.Close(c.Context())); err != nil {
			return err
		}
		return a.print(string(note.Note), map[string]any{
			"origin": note.Origin, "size": note.Size, "root": note.Root, "note": string(note.Note),
		})
	}
	return c
}
