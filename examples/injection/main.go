// Command injection shows what a policy can do about instructions in the outputs of tools. A model
// that obeys them makes calls that look like the user's own: another payee, another address,
// another page, another file. A policy without provenance cannot tell them apart. One with
// provenance asks where the value came from: from the user's words, or from a fact that no stranger
// can write.
//
// The last part shows the mistake to avoid: a fact that is marked trusted, and that the agent
// itself can write.
//
//	go run ./examples/injection
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/helmkernel/helm/examples/internal/command"
)

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdout, os.Stderr)) }

func start(ctx context.Context, args []string, out, errs io.Writer) int {
	return command.Plain("injection", args, errs, func() error { return run(ctx, out) })
}

func run(ctx context.Context, out io.Writer) error {
	for _, part := range []struct {
		conversation
		stacks []stack
	}{
		{errands, []stack{
			{"WITHOUT PROVENANCE", []string{"without.yaml"}},
			{"WITH PROVENANCE", []string{"with.yaml"}},
		}},
		{agenda, []stack{
			{"FACT WRONGLY TRUSTED", []string{"with.yaml"}},
			{"AND THE FLOOR", []string{"with.yaml", "floor.yaml"}},
		}},
	} {
		if err := compare(ctx, out, part.conversation, part.stacks); err != nil {
			return err
		}
	}
	return nil
}

// compare prints what becomes of each call of a conversation under each stack of policies.
func compare(ctx context.Context, out io.Writer, c conversation, stacks []stack) error {
	lines := make([]string, len(c.calls))
	for i, call := range c.calls {
		lines[i] = fmt.Sprintf("%s\t%s %s", call.by, call.tool, call.args)
	}
	head, proofs := "ASKED BY\tCALL", ""
	for _, s := range stacks {
		decisions, report, err := s.play(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for i, d := range decisions {
			verdict := d.Verdict.String()
			if !d.Allowed() {
				verdict += " " + string(d.Reason)
			}
			lines[i] += "\t" + verdict + "\t" + d.Record.Rule
		}
		head += "\t" + s.name + "\tRULE"
		proofs += fmt.Sprintf("%s: level %s, %d verdicts, %d replayed\n", s.name, report.Level,
			report.Allows+report.Denials, report.Replay.Replayed)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "The user: %s\n\n", c.user)
	fmt.Fprintln(table, head)
	for _, line := range lines {
		fmt.Fprintln(table, line)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", proofs)
	return err
}
