// Policies compares the cost of deciding about a tool call, by HELM and by the policy engines that
// a host might take instead, and the answer of each if a policy cannot be evaluated. It prints
// tables in Markdown.
//
//	GOWORK=off go run ./policies [-for 1s]
//
// One policy of 12 tools and 32 rules is written in each engine's language (helm.yaml, tools.cedar,
// tools.rego, and in Go for those that have no documents): roles, limits, directories, suffixes, an
// allow-list of 40 payees, optional arguments; a denial overrides an allowance. Its larger form has
// 84 copies of it, under other names: 1,008 tools. Requests are made at random around the limits,
// and well-typed. Before anything is timed, each engine must return the verdict of the policy that
// is written by hand for each of them; inside the timed loop every verdict and error is compared
// again.
//
//	Go, written by hand         a map of functions over one struct; encoding/json
//	HELM                        guardian.Policy.Judge: all eight conditions and the decision's
//	                            record, with reason and rule; the arguments are checked against
//	                            the tool's closed schema each time. Nothing is signed or stored.
//	                            From text: also strict parsing, defaults, canonical form and its
//	                            SHA-256, as the kernel does it
//	… its reading and schema    the part of HELM's row that no other row does: no policy
//	CEL, a program a tool       cel.dev/cel-go v0.33.2 (Apache-2.0): compiled, checked,
//	                            OptOptimize; found by the tool's name in a Go map
//	Cedar, one policy set       github.com/cedar-policy/cedar-go v1.9.0 (Apache-2.0): entities
//	                            made before; the set is searched in sequence
//	Cedar, a policy set a tool  the same, found by the tool's name in a Go map
//	Casbin, rules by eval()     github.com/casbin/casbin/v3 v3.10.0 (Apache-2.0): policy lines
//	                            whose rules are compiled at each evaluation
//	Casbin, a matcher a tool    the same rules as matchers, which Enforcers compile once; found by
//	                            the tool's name. No cached Enforcer, which would remember answers
//	OPA, a prepared query       github.com/open-policy-agent/opa/v1 v1.22.0 (Apache-2.0): rules
//	                            indexed by the tool, EvalParsedInput
//
// "Parsed before" leaves to each engine only the work of one decision: values, entities and input
// documents are in its own form. "From JSON text" begins with the bytes of the arguments, read by
// the engine's own reader or encoding/json. The caller, its roles and the tool's name are at hand
// in both. Rows are measured by turns, in slices of 20 ms, or of one pass over the requests if that
// is longer; a figure is the median of its slices. It is processor time, if the system reports it,
// so that other processes are not measured; garbage collection is in it. Load is the time from the
// policy's text to an engine that answers, the median of three. All of it takes about three
// minutes.
//
// The probes are calls that must not go through, put to a broad allow with a rule that denies. The
// table has their results in a host that calls the engine as its first example does: README or
// documentation, named at each prober. Where an engine has no composition of its own, it is ours:
// not deny and permit. In all of these engines a policy can be written that fails closed, mostly by
// an allow that names everything it needs; the probes are of a policy that relies on its denials.
// Cedar is probed also with the validator of cedar-go's x/exp, which a host has to call itself; OPA
// also with StrictBuiltinErrors, and with a schema of the input and Strict too; CEL also with a Go
// type for the arguments. (OPA orders every string above every number. So it denies the numeric
// string above an upper limit, and would let one pass a lower limit.)
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

func main() {
	each := flag.Duration("for", time.Second, "how long each figure is measured")
	flag.Parse()
	if err := run(os.Stdout, plan{*each, 20 * time.Millisecond}, 1, 84); err != nil {
		fmt.Fprintln(os.Stderr, "policies:", err)
		os.Exit(1)
	}
}

// run prints the probes and, for each number of copies of the tools, the figures.
func run(w io.Writer, p plan, sizes ...int) error {
	if err := probeTable(w); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "\n%s, %s/%s, %d cores; %v a figure\n", runtime.Version(), runtime.GOOS, runtime.GOARCH,
		runtime.GOMAXPROCS(0), p.each); err != nil {
		return err
	}
	var columns []column
	for _, copies := range sizes {
		engines, err := load(copies)
		if err != nil {
			return err
		}
		for _, form := range forms {
			results, err := measure(engines, copies, form.of, p)
			if err != nil {
				return fmt.Errorf("%d tools, %s: %w", copies*len(tools), form.name, err)
			}
			if err := table(w, copies, form.name, results); err != nil {
				return err
			}
			columns = append(columns, column{copies, form.name, results})
		}
	}
	return summary(w, columns)
}
