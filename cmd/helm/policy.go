package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/policytest"
)

func (a *app) policy() *cobra.Command {
	c := group("policy", "check, test and compare policies")
	c.AddCommand(a.check(), explain(a), a.lint(), a.diff(), draft(a), a.schema(), a.test())
	return c
}

// load compiles documents. If they do not load it prints why, and that is the answer no.
func (a *app) load(files []string) (*guardian.Policy, error) {
	p, err := policy.Load(files...)
	if err == nil {
		return p, nil
	}
	var fault *guardian.LoadError
	for _, err := range each(err) {
		if !errors.As(err, &fault) { // a file that cannot be read
			return nil, err
		}
	}
	type place struct {
		File    string `json:"file,omitempty"`
		Line    int    `json:"line,omitempty"`
		Column  int    `json:"column,omitempty"`
		Pointer string `json:"pointer,omitempty"`
		Message string `json:"message"`
	}
	places := []place{}
	for _, err := range each(err) {
		x := place{Message: err.Error()}
		if errors.As(err, &fault) {
			x = place{fault.Document, fault.Pos.Line, fault.Pos.Column, fault.Pointer, err.Error()}
		}
		places = append(places, x)
	}
	text := err.Error() + "\n"
	if err := a.print(text, map[string]any{"ok": false, "faults": places}); err != nil {
		return nil, err
	}
	return nil, errNo
}

// each returns the errors that were joined.
func each(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var list []error
	for _, err := range joined.Unwrap() {
		list = append(list, each(err)...)
	}
	return list
}

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE...", Short: "load the documents of a stack", Args: arguments(cobra.MinimumNArgs(1)),
		Long: "Load the documents of a stack, in any order of layers, and print what they are. A fault is printed\n" +
			"as file:line:column, with the remedy: all of them at once.",
		RunE: func(_ *cobra.Command, files []string) error {
			p, err := a.load(files)
			if err != nil {
				return err
			}
			type document struct {
				Layer   string `json:"layer"`
				Name    string `json:"name"`
				Version uint64 `json:"version"`
			}
			v := struct {
				OK        bool       `json:"ok"`
				Policy    string     `json:"policyHash"`
				Tools     int        `json:"tools"`
				Documents []document `json:"documents"`
			}{OK: true, Policy: p.Hash().String(), Tools: len(p.Tools())}
			var text strings.Builder
			for _, r := range p.Record().Documents {
				v.Documents = append(v.Documents, document{r.Layer, r.Name, r.Version})
				fmt.Fprintf(&text, "%s:%s version %d\n", r.Layer, r.Name, r.Version)
			}
			fmt.Fprintf(&text, "%d tools, policy hash %s\n", v.Tools, v.Policy)
			return a.print(text.String(), v)
		},
	}
}

func (a *app) lint() *cobra.Command {
	return &cobra.Command{
		Use: "lint FILE...", Short: "find what may not be meant", Args: arguments(cobra.MinimumNArgs(1)),
		Long: "Find what a policy that loads says, and its author may not have meant. docs/TESTING.md lists the\n" +
			"ids. The answer is no if there is a warning; a note alone is none.",
		RunE: func(_ *cobra.Command, files []string) error {
			p, err := a.load(files)
			if err != nil {
				return err
			}
			findings := append([]policy.Finding{}, policy.Lint(p)...)
			if err := a.print(lines(findings), findings); err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f policy.Finding) bool { return f.Severity == "warning" }) {
				return errNo
			}
			return nil
		},
	}
}

// lines returns each of a list on a line.
func lines[T fmt.Stringer](list []T) string {
	var b strings.Builder
	for _, x := range list {
		fmt.Fprintln(&b, x)
	}
	return b.String()
}

func (a *app) diff() *cobra.Command {
	c := &cobra.Command{
		Use: "diff OLD... -- NEW...", Short: "print what changes from one stack to another",
		Long: "Print what changes from one stack to another, and for each change whether a call may be allowed\n" +
			"that was not. With --pack print also which calls of a pack would have come out otherwise under NEW.\n" +
			"The answer is no if a change may widen what is allowed, or if that is not known, or if a call of the\n" +
			"pack that was denied would be allowed.",
		Example: "helm policy diff bank.yaml -- new/bank.yaml --pack november.pack --trust trust.json",
	}
	var from root
	from.flags(c)
	pack := c.Flags().String("pack", "", "`FILE` of a pack whose calls NEW judges again")
	c.RunE = func(c *cobra.Command, args []string) error {
		n := max(c.ArgsLenAtDash(), 0)
		files := args[:n]
		if err := c.Flags().Parse(args[n:]); err != nil { // flags may follow NEW
			return wrongly(c, err)
		}
		args = c.Flags().Args()
		if len(files) == 0 || len(args) == 0 {
			return wrongly(c, fmt.Errorf("%s needs documents on both sides of --", c.CommandPath()))
		}
		if *pack == "" && (c.Flags().Changed("trust") || c.Flags().Changed("kernel")) {
			return wrongly(c, errors.New("--trust and --kernel are of --pack"))
		}
		old, err := a.load(files)
		if err != nil {
			return err
		}
		candidate, err := a.load(args)
		if err != nil {
			return err
		}
		changes := append([]policy.Change{}, policy.Diff(old, candidate)...)
		widens := slices.ContainsFunc(changes, func(c policy.Change) bool { return c.Widens != "no" })
		if *pack == "" {
			err = a.print(lines(changes), changes)
		} else {
			var t *backTest
			if t, err = a.tested(c.Context(), *pack, &from, candidate); err != nil {
				return err
			}
			widens = widens || t.Allowed > 0
			err = a.print(lines(changes)+t.text, map[string]any{"changes": changes, "backtest": t})
		}
		if err == nil && widens {
			err = errNo
		}
		return err
	}
	return c
}

// isPolicy reports whether a file is a policy document.
func isPolicy(file string) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	d, err := parse(file, b)
	return err == nil && d.Layer != ""
}

func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "print a JSON Schema of documents, for editors", Args: arguments(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			a.out.Write(policy.Schema())
			return nil
		},
	}
}

func (a *app) test() *cobra.Command {
	c := &cobra.Command{
		Use: "test [FILE...]", Short: "run the cases of policies, or a transcript",
		Long: "Run files of cases: those that are named, or all *_cases.yaml in this directory. Each case has a\n" +
			"kernel, a log and a clock of its own, and its log must verify. What the cases cover is printed.\n\n" +
			"With --transcript judge the calls of a conversation, in order and in one session, by the stack whose\n" +
			"documents are named. No tool runs: each returns what the transcript has. The answer is no if a call\n" +
			"comes out otherwise than it did.",
		Example: "helm policy test --min 90 --mutate\n" +
			"helm policy test bank.yaml --transcript chat.json --caller '{\"id\":\"ann\",\"roles\":[\"clerk\"]}'",
	}
	var t transcript
	t.flags(c)
	var o policytest.Options
	pattern := c.Flags().String("run", "", "run the cases whose name matches this `REGEXP`")
	c.Flags().BoolVar(&o.Mutate, "mutate", false, "change the policy, and print which changes no case notices")
	c.Flags().BoolVar(&o.Values, "values", false, "print values of the calls")
	c.Flags().Float64Var(&o.Min, "min", 0, "the answer is no if less than so many `PERCENT` are covered")
	c.RunE = func(c *cobra.Command, files []string) error {
		if t.file != "" {
			if *pattern != "" || o.Mutate || o.Min > 0 {
				return wrongly(c, errors.New("--run, --mutate and --min are of cases, not of --transcript"))
			}
			return t.run(a, c, files, o.Values)
		}
		if t.caller != "" || t.words {
			return wrongly(c, errors.New("--caller and --words are of --transcript"))
		}
		if *pattern != "" {
			var err error
			if o.Run, err = regexp.Compile(*pattern); err != nil {
				return usageError{fmt.Errorf("--run: %w", err)}
			}
		}
		if len(files) == 0 {
			files, _ = filepath.Glob("*_cases.yaml")
			if len(files) == 0 {
				return usageError{errors.New("there is no *_cases.yaml here: name a file of cases")}
			}
		}
		defer a.working("running cases")()
		reports, ok := []policytest.Report{}, true
		var text strings.Builder
		for _, file := range files {
			suite, err := policytest.Load(os.DirFS(filepath.Dir(file)), filepath.Base(file))
			if err != nil && isPolicy(file) {
				return wrongly(c, fmt.Errorf("%s is a policy: name a file of cases, or a --transcript for it", file))
			}
			if err != nil {
				reports = append(reports, policytest.Report{File: file, Faults: strings.Split(err.Error(), "\n")})
				fmt.Fprintln(&text, err)
				ok = false
				continue
			}
			r, err := suite.Run(c.Context(), o)
			if err != nil {
				return err
			}
			reports = append(reports, r)
			fmt.Fprintf(&text, "%s\n", strings.TrimRight(r.String(), "\n"))
			ok = ok && r.OK()
		}
		if err := a.print(text.String(), reports); err != nil {
			return err
		}
		if !ok {
			return errNo
		}
		return nil
	}
	return c
}
