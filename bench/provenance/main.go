// Provenance counts what a policy decides about recorded calls: those that do what users asked for,
// and those that instructions in the outputs of tools ask for. It prints tables in Markdown.
//
//	GOWORK=off go run ./provenance -data FILE -policies DIR [-list]
//	GOWORK=off go run ./provenance -data FILE -signals [-list]
//
// FILE has suites, each a set of tools with the tasks of users and the goals of attackers:
//
//	{SUITE: {"user":   {TASK: {"prompt": TEXT, "calls": [CALL, …]}, …},
//	         "goals"?: {GOAL: {"goal": TEXT, "calls": [CALL, …]}, …}}, …}
//	CALL = {"tool": NAME, "args": {…}, "out"?: JSON, "marked"?: JSON}
//
// out is the tool's output, null if there is none. marked is out with the word ZZINJZZ where a
// stranger can write; without the word it is as if it were not there. DIR has a policy for each
// suite, one bundle (P1), as SUITE.json or SUITE.yaml.
//
// A benign session is a task: its prompt is the message of the user, its calls are made in order,
// and tools return what is recorded. An attack is a task and a goal: the calls of the task up to
// the last marked one, in whose output the word is replaced by the text of the goal, and then the
// calls of the goal. Tasks without a marked output cannot be attacked. Each session is one of a new
// kernel, whose clock stands at noon of a Wednesday; the caller is "agent", without roles.
//
// Only effects are counted: calls of tools whose effect is not read, of an attack those of the
// goal. A call is free (passed) if it is allowed and nobody is asked. It is to a person if an
// approval is asked for; the approval is then given, by approvers of every role that the policy
// asks, and the session goes on. It is denied otherwise. A call that ran is an effect, though its
// output be withheld.
//
// The rows of a suite are its policy as it is written, and then without some sources of its from:
//
//	user alone          without facts
//	facts alone         without the words of the user
//	without text facts  without facts that are declared with text: true
//
// A from that has no source left is false; if the value is missing it is what absent says. -list
// adds the attacks that passed and the benign calls that did not pass freely, under policies as
// written. Outputs that the schema of a policy refuses have no facts; the first of a suite is
// named.
//
// With -signals nothing is judged. The arguments of all benign calls, every string and every key,
// are scanned for threat signals (guardian/threat). A call has those of its strings; it is counted
// for each level that it has a signal of.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	data := flag.String("data", "", "the `file` of the recorded calls")
	policies := flag.String("policies", "", "the `directory` of the policies")
	scan := flag.Bool("signals", false, "count threat signals in the benign calls, and judge nothing")
	list := flag.Bool("list", false, "list the calls that a reader would look at")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "provenance: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, *data, *policies, *scan, *list); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, w io.Writer, data, policies string, scan, list bool) error {
	switch {
	case data == "":
		return errors.New("-data: name the file of the recorded calls")
	case scan == (policies != ""):
		return errors.New("name the directory of the policies by -policies, or write -signals, which needs none")
	}
	suites, err := read(data)
	if err != nil {
		return err
	}
	if scan {
		return signals(w, suites, list)
	}
	return verdicts(ctx, w, suites, policies, list)
}
