package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// manual returns what -h prints.
func manual(c *cobra.Command) string {
	var b strings.Builder
	text := c.Long
	if text == "" {
		text = sentence(c.Short)
	}
	b.WriteString(text + "\n\n")
	if !c.HasAvailableSubCommands() {
		b.WriteString("    " + called(c) + "\n")
	} else if c.HasParent() {
		writeCommands(&b, c.Commands())
		fmt.Fprintf(&b, "\n%s COMMAND -h says more of one.\n", c.CommandPath())
	} else {
		for _, s := range sections {
			var list []*cobra.Command
			for _, name := range strings.Fields(s.names) {
				if sub, _, err := c.Find([]string{name}); err == nil && sub != c {
					list = append(list, sub)
				}
			}
			if len(list) > 0 {
				b.WriteString(s.title + ":\n")
				writeCommands(&b, list)
				b.WriteByte('\n')
			}
		}
		b.WriteString("helm COMMAND -h says more of one.\n")
	}
	if c.Example != "" {
		b.WriteString("\nExample:\n    " + strings.ReplaceAll(c.Example, "\n", "\n    ") + "\n")
	}
	if flags := c.LocalNonPersistentFlags().FlagUsages(); flags != "" && c.Name() != "helm" {
		b.WriteString("\nFlags:\n" + flags)
	}
	if !c.HasParent() {
		b.WriteString("\nFlags of every command:\n" + c.PersistentFlags().FlagUsages() + "\n" + rootAfter)
	} else if !c.HasAvailableSubCommands() {
		b.WriteString("\nFlags of every command:\n" + c.Root().PersistentFlags().FlagUsages())
	}
	return b.String()
}

func writeCommands(b *strings.Builder, list []*cobra.Command) {
	for _, c := range list {
		if c.IsAvailableCommand() || c.Name() == "help" {
			fmt.Fprintf(b, "  %-12s %s\n", c.Name(), c.Short)
		}
	}
}

// called returns how a command is called, without the words of cobra.
func called(c *cobra.Command) string {
	if c.HasAvailableLocalFlags() {
		return c.UseLine()
	}
	return strings.TrimSuffix(c.UseLine(), " [flags]")
}

func sentence(short string) string { return strings.ToUpper(short[:1]) + short[1:] + "." }

// help returns the command that prints what -h does.
func help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "say how a command is called",
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return wrongly(root, fmt.Errorf("there is no command %q", strings.Join(args, " ")))
			}
			return c.Help()
		},
	}
}

// completion returns the command that prints what a shell completes by.
func completion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use: "completion SHELL", Short: "print what bash, zsh, fish or powershell completes commands by",
		Args: arguments(cobra.ExactArgs(1)), ValidArgs: shells,
		Long: "Print what a shell completes commands by. SHELL is bash, zsh, fish or powershell.\n\n" +
			"    bash        source <(helm completion bash)\n" +
			"    zsh         source <(helm completion zsh), after autoload -U compinit; compinit\n" +
			"    fish        helm completion fish | source\n" +
			"    powershell  helm completion powershell | Out-String | Invoke-Expression",
		RunE: func(c *cobra.Command, args []string) error {
			var b strings.Builder
			var err error
			switch args[0] {
			case "bash":
				err = c.Root().GenBashCompletionV2(&b, true)
			case "zsh":
				err = c.Root().GenZshCompletion(&b)
			case "fish":
				err = c.Root().GenFishCompletion(&b, true)
			case "powershell":
				err = c.Root().GenPowerShellCompletionWithDesc(&b)
			default:
				err = wrongly(c, fmt.Errorf("%q is none of %s", args[0], strings.Join(shells, ", ")))
			}
			if err != nil {
				return err
			}
			return a.document([]byte(b.String()), map[string]string{"shell": args[0], "script": b.String()})
		},
	}
}
