package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/policy"
)

func draft(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "new BUNDLE [FILE...]", Short: "draft a bundle from a list of tools",
		Args: arguments(cobra.MinimumNArgs(1)),
		Long: "Draft a bundle from a list of tools: the result of tools/list of MCP, or an array of tools as OpenAI\n" +
			"or Anthropic have them, or what an MCP server lists, which is started or connected to. The draft\n" +
			"allows nothing, and each tool is destructive until a person says less. What was closed or left out\n" +
			"is a comment in it, and a line on stderr.\n\n" +
			"With the files of a stack that has the bundle already, print what became of its tools as a diff for\n" +
			"patch: new ones are declared, and no rule allows them; a definition that changed, and that a tool has\n" +
			"vanished, are comments next to the tool, whose old definition stays pinned. Nothing is taken out, and\n" +
			"nothing is allowed by it. The answer is no if there is such a thing.",
		Example: "helm policy new --tools tools.json crm >crm.yaml\n" +
			"helm policy new --mcp 'crm-server --readonly' crm >crm.yaml\n" +
			"helm policy new --tools tools.json crm crm.yaml floor.yaml | patch -p0",
	}
	var l toolList
	l.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		list, from, err := l.read(a, c)
		if err != nil {
			return err
		}
		text, notes, err := policy.New(list, args[0])
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		if len(args) > 1 {
			return renew(a, args[0], args[1:], text, notes)
		}
		tell(a, notes)
		return a.document(text, map[string]any{"policy": string(text), "notes": append([]policy.Note{}, notes...)})
	}
	return c
}

// tell writes notes to stderr; with --json they are in the result.
func tell(a *app, notes []policy.Note) {
	for _, n := range notes {
		if !a.json {
			fmt.Fprintln(a.errs, ascii(n.String()))
		}
	}
}

// A toolList says where a list of tools comes from.
type toolList struct {
	tools, openai, anthropic string
	server                   remote
}

func (l *toolList) flags(c *cobra.Command) {
	c.Flags().StringVar(&l.tools, "tools", "", "`FILE` with the list in any of the forms, - is stdin")
	c.Flags().StringVar(&l.openai, "openai", "", "`FILE` with tools as OpenAI has them, and in no other form")
	c.Flags().StringVar(&l.anthropic, "anthropic", "", "`FILE` with tools as Anthropic has them, and in no other form")
	l.server = remoteFlags(c)
}

// read returns the list, and its source.
func (l *toolList) read(a *app, c *cobra.Command) (list []byte, from string, err error) {
	for _, name := range []string{l.tools, l.openai, l.anthropic, *l.server.command} {
		if name != "" && from != "" {
			return nil, "", wrongly(c, errors.New("one list of tools at a time"))
		}
		from += name
	}
	if from == "" {
		return nil, "", wrongly(c, errors.New("a list of tools is missing: --tools FILE or --mcp CMD, for one"))
	}
	if *l.server.command != "" {
		list, err = l.server.list(c.Context())
		return list, "--mcp", err
	}
	if list, err = a.read(from); err != nil {
		return nil, "", err
	}
	if l.tools == "" {
		err = l.form(list)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return list, from, err
}

// form returns an error for a list that has another form than was said. Whether it is one at all
// policy.New says.
func (l *toolList) form(list []byte) error {
	var tools []map[string]json.RawMessage
	if json.Unmarshal(list, &tools) != nil {
		return errors.New("no array of tools")
	}
	for i, t := range tools {
		_, mcp := t["inputSchema"]
		_, anthropic := t["input_schema"]
		if mcp || anthropic && l.anthropic == "" || t["function"] != nil && l.openai == "" {
			return fmt.Errorf("/%d: a tool of another form: --tools takes any", i)
		}
	}
	return nil
}
