package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/faces/state"
)

func doctor(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "doctor", Short: "say what is wrong with a configuration and its directory", Args: arguments(cobra.NoArgs),
		Long: "Look at a configuration and all that it names: policy, keys, trust state, tokens, approvals, and\n" +
			"the whole log. Print what is wrong, where, and what to do. Nothing is changed, and a process may be\n" +
			"running. The answer is no if anything is wrong.",
	}
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		faults := state.Examine(c.Context(), *config)
		if err := c.Context().Err(); err != nil {
			return err
		}
		if len(faults) == 0 {
			return a.print("nothing is wrong\n", map[string]any{"faults": []state.Fault{}})
		}
		var b strings.Builder
		for _, f := range faults {
			fmt.Fprintf(&b, "%s: %s\n", quoted(f.Where), quoted(f.What))
			if f.Remedy != "" {
				fmt.Fprintf(&b, "    %s\n", quoted(f.Remedy))
			}
		}
		if err := a.print(b.String(), map[string]any{"faults": faults}); err != nil {
			return err
		}
		return errNo
	}
	return c
}

// quoted is ascii of a text that has quotes.
func quoted(text string) string { return strings.ReplaceAll(ascii(text), `\"`, `"`) }
