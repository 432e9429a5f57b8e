// Command approvals shows a call that a person must approve. It is denied with a request to sign;
// an owner signs it in another process; then the call runs, once. The approval is for that call
// alone: with other arguments, and a second time, it is denied.
//
//	go run ./examples/approvals
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/helmkernel/helm"
)

func main() { os.Exit(start(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// start is main with an exit status. Started as "approve KEYFILE" it is the approver: it reads a
// question and writes an envelope.
func start(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	var err error
	switch {
	case len(args) == 0:
		err = run(ctx, out)
	case len(args) == 2 && args[0] == "approve":
		err = approve(args[1], in, out)
	default:
		fmt.Fprintf(errs,
			"approvals: unexpected argument %q\nUsage of approvals: go run ./examples/approvals, without flags or "+
				"arguments\n", args[0])
		return 2
	}
	if err != nil {
		fmt.Fprintln(errs, "approvals:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, out io.Writer) error {
	dir, err := os.MkdirTemp("", "helm-approvals-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ann, keyFile, err := hire(dir)
	if err != nil {
		return err
	}
	d, err := open(out, ann)
	if err != nil {
		return err
	}
	defer d.k.Close()
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "agent-7"}, Session: "chat-1"})
	const rent, more = `{"to":"landlord","amount":900}`, `{"to":"landlord","amount":9000}`

	fmt.Fprintf(out, "1. The agent pays the rent. That is over 50, so an owner must approve it.\n\n")
	denied := d.call(ctx, rent)
	if !errors.Is(denied.Err(), helm.ErrApprovalRequired) {
		return fmt.Errorf("the call needs no approval: %w", denied.Err())
	}
	fmt.Fprintf(out, "\n2. What an owner must sign, and what it is about: the call as it was judged.\n\n")
	asked, err := json.MarshalIndent(question{*denied.Pending, denied.Args}, "", "  ")
	if err != nil {
		return err
	}
	fmt.Fprintf(out,
		"%s\n\n3. Ann owns the business. She reads it in a process of her own, which has her key, and signs.\n\n",
		asked)
	yes, err := ask(ctx, keyFile, asked)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "approval %v (%d bytes)\n", yes.Digest(), len(yes))

	for _, step := range []struct{ title, args string }{
		{"4. Other arguments under Ann's approval. She did not approve these.", more},
		{"5. The call that she approved.", rent},
		{"6. The same call again, with the same approval. It was for one payment.", rent},
	} {
		fmt.Fprintf(out, "\n%s\n\n", step.title)
		d.call(ctx, step.args, yes)
	}
	fmt.Fprintf(out, "\n7. An auditor gets the pack, and Ann's key from a source they trust.\n\n")
	return d.audit(ctx)
}
