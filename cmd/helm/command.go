package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Exit codes.
const (
	yes      = 0
	no       = 1
	usage    = 2
	noAnswer = 3
)

// errNo is the answer no, of which the output says why.
var errNo = errors.New("no")

// A usageError says that the command was called wrongly.
type usageError struct{ error }

// An app is one run of the command.
type app struct {
	in     io.Reader
	errs   io.Writer
	out    bytes.Buffer  // the result, which is written whole or not at all
	stream *bufio.Writer // results that are a stream
	json   bool
	when   string // colour: auto, always or never
	tty    bool   // stdout is a terminal

	stdin  io.Reader // for a protocol, which outlives the signal that ends it
	stdout io.Writer
}

// now writes the result so far, before the command goes on.
func now(a *app) error {
	_, err := a.out.WriteTo(a.stream)
	if err = errors.Join(err, a.stream.Flush()); err != nil {
		return fmt.Errorf("stdout: %w", err)
	}
	return nil
}

// run runs the command, and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	_, tty := terminal(out)
	a := &app{in: interruptible(ctx, in), errs: errs, stream: bufio.NewWriter(out), tty: tty,
		stdin: in, stdout: out}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(&a.out)
	root.SetErr(errs)
	a.json = asked(args, "--json") // also of a line that cannot be read further
	err := root.ExecuteContext(ctx)
	if ferr := a.stream.Flush(); ferr != nil {
		err = fmt.Errorf("stdout: %w", ferr)
	}
	if err == nil || errors.Is(err, errNo) {
		if _, werr := out.Write(a.out.Bytes()); werr != nil {
			err = fmt.Errorf("stdout: %w", werr)
		}
	}
	switch {
	case err == nil:
		return yes
	case errors.Is(err, errNo):
		return no
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, errInterrupted)) {
		err = errInterrupted
	}
	a.complain(err)
	if errors.As(err, new(usageError)) {
		return usage
	}
	return noAnswer
}

var errInterrupted = errors.New("interrupted: there is no answer")

// asked reports whether a flag is among the arguments, before the -- if there is one.
func asked(args []string, flag string) bool {
	if n := slices.Index(args, "--"); n >= 0 {
		args = args[:n]
	}
	return slices.Contains(args, flag)
}

func (a *app) complain(err error) {
	if a.json {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error()}})
		fmt.Fprintf(a.errs, "%s\n", asciiJSON(b))
		return
	}
	fmt.Fprintf(a.errs, "helm: %s\n", printable(err.Error()))
}

// sections are those of helm -h, with their commands in order.
var sections = []struct{ title, names string }{
	{"Begin", "init keygen token trust"},
	{"Write policies, and test them", "policy"},
	{"Put HELM before tools", "mcp proxy serve"},
	{"Answer calls that wait for a person", "approve refuse"},
	{"Read what happened, and prove it", "log pack excerpt"},
	{"This program", "doctor conformance completion version help"},
}

const rootLong = `helm decides whether the tool calls of AI agents may run, and proves afterwards what it decided.

A policy says what is allowed: helm policy new drafts one from a list of tools, helm policy test runs
cases against it. What was decided is in a signed log: helm log verify and helm pack verify find every
change of it, without a network.`

const rootAfter = `Exit codes: 0 the answer is yes; 1 it is no; 2 the command was called wrongly; 3 there is no answer,
since a file cannot be read, say. Results are on stdout, all else is on stderr.

A flag that is not given is taken from the environment: HELM_TRUST=trust.json is --trust trust.json.
NO_COLOR and TERM=dumb are obeyed. No flag takes a secret: keys are in files, and - is stdin.
`

// root returns all commands.
func (a *app) root() *cobra.Command {
	root := group("helm", "decide what tools of AI agents may do, and prove what was decided")
	root.Long = rootLong
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.DisableDefaultCmd = true // ours is one of the others
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print JSON: a document, or an object a line for lists")
	root.PersistentFlags().StringVar(&a.when, "color", "auto", "colour: `WHEN` is auto, always or never")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return wrongly(c, err) })
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.settle(c) }
	root.AddCommand(a.policy(), a.pack(), a.log(), answer(a, "approve"), answer(a, "refuse"))
	root.AddCommand(initialize(a), tokens(a), trusted(a), doctor(a), excerpts(a))
	root.AddCommand(gateway(a), proxied(a), serving(a), conform(a), keygen(a), a.version(), completion(a))
	root.SetHelpCommand(help(root))
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(&a.out, manual(c)) })
	return root
}

// settle takes flags that were not given from the environment.
func (a *app) settle(c *cobra.Command) (err error) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		name := "HELM_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(name)
		if f.Changed || value == "" || err != nil || f.Name == "yes" || f.Name == "help" {
			return // yes is meant for one call, which an environment outlives
		}
		if serr := f.Value.Set(value); serr != nil {
			err = wrongly(c, fmt.Errorf("%s in the environment: %w", name, serr))
		}
	})
	if err == nil && !slices.Contains([]string{"auto", "always", "never"}, a.when) {
		err = wrongly(c, fmt.Errorf("--color: %q is none of auto, always, never", a.when))
	}
	return err
}

// wrongly says that a command was called wrongly, and what says how it is called.
func wrongly(c *cobra.Command, err error) error {
	return usageError{fmt.Errorf("%w; %s -h says how it is called", err, c.CommandPath())}
}

// group returns a command that has others, and does nothing itself.
func group(name, short string) *cobra.Command {
	c := &cobra.Command{Use: name, Short: short, SuggestionsMinimumDistance: 2}
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return wrongly(c, fmt.Errorf("%s needs a command: %s", c.CommandPath(), strings.Join(names(c), ", ")))
		}
		near := ""
		if list := c.SuggestionsFor(args[0]); len(list) > 0 {
			near = ", but " + strings.Join(list, ", ")
		}
		return wrongly(c, fmt.Errorf("%s has no command %q%s", c.CommandPath(), args[0], near))
	}
	c.Args = cobra.ArbitraryArgs // RunE knows them
	return c
}

func names(c *cobra.Command) (list []string) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			list = append(list, sub.Name())
		}
	}
	return list
}

// arguments reports how many arguments a command takes as an error of usage.
func arguments(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check(c, args) != nil {
			return wrongly(c, fmt.Errorf("wrong number of arguments (%d): %s", len(args), called(c)))
		}
		return nil
	}
}

// print prints a result: the text, or with --json the value. It is printed so that nothing in it
// moves a cursor or turns text round; names that others chose are to be [ascii] in the text.
func (a *app) print(text string, value any) error {
	if !a.json {
		a.out.WriteString(a.colouredLines(printable(text)))
		return nil
	}
	b, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		a.out.WriteString(asciiJSON(b) + "\n")
	}
	return err
}

// document prints a result that is a document, as it is.
func (a *app) document(text []byte, value any) error {
	if a.json {
		return a.print("", value)
	}
	a.out.Write(text)
	return nil
}

// item prints one of a stream of results: its text, or with --json an object on a line.
func (a *app) item(text string, value any) error {
	if !a.json {
		_, err := fmt.Fprintln(a.stream, text)
		return err
	}
	b, err := json.Marshal(value)
	if err == nil {
		_, err = fmt.Fprintln(a.stream, asciiJSON(b))
	}
	return err
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "print the version", Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				Revision string `json:"revision,omitempty"`
				Go       string `json:"go"`
			}{Version: "unknown"}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.Version, v.Go = info.Main.Version, info.GoVersion
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						v.Revision = s.Value
					}
				}
			}
			return a.print(fmt.Sprintf("helm %s %s %s\n", v.Version, v.Revision, v.Go), v)
		},
	}
}
