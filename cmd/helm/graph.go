package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/graph"
)

// A drawing is what the flags of a graph ask for.
type drawing struct {
	of    string
	links bool
	after bool
}

func (d *drawing) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.of, "of", "", "only what led to this `ENTRY`: index, hash or session/seq")
	c.Flags().BoolVar(&d.after, "after", false, "with --of: what followed from it")
	c.Flags().BoolVar(&d.links, "links", false, "with --of: every edge, not only those of causes")
}

const graphLong = "Write the graph of entries in the language of Graphviz, or as JSON."

func graphLog(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "graph DIR", Short: "draw which entries led to which", Args: arguments(cobra.ExactArgs(1)),
		Long: graphLong + " Nothing is verified: see log\n" +
			"verify.",
		Example: "helm log graph state --of chat-1/4 | dot -Tsvg >why.svg",
	}
	var d drawing
	d.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		store, err := openLog(args[0])
		if err != nil {
			return err
		}
		defer store.Close()
		return draw(c, a, store, &d)
	}
	return c
}

func graphPack(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "graph PACK", Short: "draw which entries of a pack led to which", Args: arguments(cobra.ExactArgs(1)),
		Long:    "Verify a pack. " + graphLong,
		Example: "helm pack graph november.pack --trust trust.json --of chat-1/4 | dot -Tsvg >why.svg",
	}
	var from root
	from.flags(c)
	var d drawing
	d.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return a.inPack(c, args[0], &from, func(p *evidence.Pack) error { return draw(c, a, p, &d) })
	}
	return c
}

func draw(c *cobra.Command, a *app, log graph.Source, d *drawing) error {
	if d.of == "" && (d.links || d.after) {
		return usageError{fmt.Errorf("%s: --links and --after are of --of", c.CommandPath())}
	}
	g, err := graph.Read(c.Context(), log)
	if err != nil {
		return err
	}
	set := g.All()
	if d.of != "" {
		at, err := g.Find(d.of)
		if err != nil {
			return usageError{fmt.Errorf("--of: %w", err)}
		}
		edges := graph.Causes
		if d.links {
			edges = graph.Links
		}
		if set = g.Ancestors(at, edges); d.after {
			set = g.Descendants(at, edges)
		}
	}
	if a.json {
		return g.WriteJSON(c.Context(), &a.out, set)
	}
	return g.WriteDOT(c.Context(), &a.out, set)
}
