package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
)

func draft(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "new BUNDLE [FILE...]", Short: "draft a bundle from a list of tools",
		Args: arguments(cobra.MinimumNArgs(1)),
		Long: "Draft a bundle from a list of tools: the result of tools/list of MCP, or an array of tools as OpenAI\n" +
			"or Anthropic have them, or what an MCP server lists, which is started or connected to, or what all\n" +
			"servers of a configuration list, by the names that their tools have in helm mcp serve. The draft\n" +
			"allows nothing, and each tool is destructive until a person says less. What was closed or left out\n" +
			"is a comment in it, and a line on stderr.\n\n" +
			"With the files of a stack that has the bundle already, print what became of its tools as a diff for\n" +
			"patch: new ones are declared, and no rule allows them; a definition that changed, and that a tool has\n" +
			"vanished, are comments next to the tool, whose old definition stays pinned. Nothing is taken out, and\n" +
			"nothing is allowed by it. The answer is no if there is such a thing.",
		Example: "helm policy new --tools tools.json crm >crm.yaml\n" +
			"helm policy new --mcp 'crm-server --readonly' crm >crm.yaml\n" +
			"helm policy new --servers helm.yaml tools >tools.yaml\n" +
			"helm policy new --tools tools.json crm crm.yaml floor.yaml | patch -p0",
	}
	var l toolList
	l.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		list, from, err := l.read(a, c)
		if err != nil {
			return err
		}
		text, notes, err := policy.New(list.json, args[0])
		if err == nil {
			text, err = list.pinned(text)
		}
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
	tools, openai, anthropic, servers string
	server                            remote
}

func (l *toolList) flags(c *cobra.Command) {
	c.Flags().StringVar(&l.tools, "tools", "", "`FILE` with the list in any of the forms, - is stdin")
	c.Flags().StringVar(&l.openai, "openai", "", "`FILE` with tools as OpenAI has them, and in no other form")
	c.Flags().StringVar(&l.anthropic, "anthropic", "", "`FILE` with tools as Anthropic has them, and in no other form")
	c.Flags().StringVar(&l.servers, "servers", "", "`FILE` of a configuration, helm.yaml, that names MCP servers")
	l.server = remoteFlags(c)
}

// read returns the list, and its source.
func (l *toolList) read(a *app, c *cobra.Command) (list drafted, from string, err error) {
	for _, name := range []string{l.tools, l.openai, l.anthropic, l.servers, *l.server.command} {
		if name != "" && from != "" {
			return list, "", wrongly(c, errors.New("one list of tools at a time"))
		}
		from += name
	}
	switch {
	case from == "":
		return list, "", wrongly(c, errors.New("a list of tools is missing: --tools FILE or --mcp CMD, for one"))
	case *l.server.command != "":
		list.json, err = l.server.list(c.Context())
		return list, "--mcp", err
	case l.servers != "":
		list, err = listOf(c.Context(), l.servers)
		return list, from, err
	}
	if list.json, err = a.read(from); err != nil {
		return list, "", err
	}
	if l.tools == "" {
		err = l.form(list.json)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", from, err)
	}
	return list, from, err
}

// A drafted list is one that a draft is made of.
type drafted struct {
	json []byte
	is   map[string]string // by the definition of an entry as it is here that of the entry as its server has it
}

// listOf returns the tools of all servers of a configuration, by the names that policies have for
// them.
func listOf(ctx context.Context, file string) (d drafted, err error) {
	conf, err := state.ReadConfig(file)
	if err != nil {
		return d, err
	}
	tools, err := configured(ctx, conf)
	if err != nil {
		return d, err
	}
	d.is = map[string]string{}
	list := []json.RawMessage{}
	for _, t := range tools {
		var entry map[string]json.RawMessage
		if err := json.Unmarshal(t.Entry, &entry); err != nil {
			return d, err
		}
		if entry["name"], err = json.Marshal(t.Tool); err != nil {
			return d, err
		}
		named, err := json.Marshal(entry)
		if err != nil {
			return d, err
		}
		definition, err := contracts.DefinitionOf(named)
		if err != nil {
			return d, err
		}
		d.is[definition.String()] = t.Definition.String()
		list = append(list, named)
	}
	d.json, err = json.Marshal(map[string]any{"tools": list})
	return d, err
}

var definitionLine = regexp.MustCompile(`(?m)^    definition: "?([0-9a-f]{64})"?$`)

// pinned returns a draft of the list whose definitions are those of the servers.
func (d drafted) pinned(draft []byte) ([]byte, error) {
	if d.is == nil {
		return draft, nil
	}
	draft = definitionLine.ReplaceAllFunc(draft, func(line []byte) []byte {
		return fmt.Appendf(nil, "    definition: %q", d.is[string(definitionLine.FindSubmatch(line)[1])])
	})
	doc, err := policy.Parse("draft.yaml", draft)
	if err == nil {
		_, err = guardian.Compile(doc)
	}
	return draft, err
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
