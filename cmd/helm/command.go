package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
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
	out    bytes.Buffer  // the result, which is written whole or not at all
	stream *bufio.Writer // results that are a stream
	json   bool
}

// run runs the command, and returns its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	a := &app{in: in, stream: bufio.NewWriter(out)}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(&a.out)
	root.SetErr(errs)
	err := root.ExecuteContext(ctx)
	if ferr := a.stream.Flush(); ferr != nil {
		err = ferr
	}
	if err == nil || errors.Is(err, errNo) {
		if _, werr := out.Write(a.out.Bytes()); werr != nil {
			err = werr
		}
	}
	var wrong usageError
	switch {
	case err == nil:
		return yes
	case errors.Is(err, errNo):
		return no
	}
	a.complain(errs, err)
	if errors.As(err, &wrong) {
		return usage
	}
	return noAnswer
}

func (a *app) complain(errs io.Writer, err error) {
	if a.json {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error()}})
		fmt.Fprintf(errs, "%s\n", b)
		return
	}
	fmt.Fprintf(errs, "helm: %v\n", err)
	if errors.As(err, new(usageError)) {
		fmt.Fprintln(errs, "helm -h and helm COMMAND -h say how it is called")
	}
}

// root returns all commands.
func (a *app) root() *cobra.Command {
	root := group("helm", "work on the policies, logs and packs of HELM")
	root.Long = "Work on the policies, logs and packs of HELM.\n\n" +
		"Exit codes: 0 yes; 1 the answer is no; 2 called wrongly; 3 no answer."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = false
	root.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON document")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(a.policy(), a.pack(), a.log(), answer(a, "approve"), answer(a, "refuse"))
	root.AddCommand(conform(a), keygen(a), a.version())
	return root
}

// group returns a command that has others, and does nothing itself.
func group(name, short string) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%s has no command %q", c.CommandPath(), args[0])}
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			return usageError{fmt.Errorf("%s needs a command: %s", c.CommandPath(), strings.Join(names(c), ", "))}
		},
	}
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
		if err := check(c, args); err != nil {
			return usageError{fmt.Errorf("%s: %w; it is called as: %s", c.CommandPath(), err, c.UseLine())}
		}
		return nil
	}
}

// print prints a result: the text, or with --json the value.
func (a *app) print(text string, value any) error {
	if !a.json {
		a.out.WriteString(text)
		return nil
	}
	b, err := json.MarshalIndent(value, "", "  ")
	if err == nil {
		a.out.Write(append(b, '\n'))
	}
	return err
}

// item prints one of a stream of results: its text, or with --json an object on a line.
func (a *app) item(value fmt.Stringer) error {
	if !a.json {
		_, err := fmt.Fprintln(a.stream, value)
		return err
	}
	b, err := json.Marshal(value)
	if err == nil {
		_, err = a.stream.Write(append(b, '\n'))
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
