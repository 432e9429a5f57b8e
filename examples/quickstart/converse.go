package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/helmkernel/helm"
)

//go:embed conversation.json
var conversationText []byte

// A conversation is in the format of OpenAI's chat completions.
type conversation struct {
	Messages []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
		Calls   []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
}

// converse makes every call of the conversation, and prints the decision and the receipt.
func converse(ctx context.Context, out io.Writer, k *helm.Kernel) error {
	var talk conversation
	if err := json.Unmarshal(conversationText, &talk); err != nil {
		return err
	}
	ctx = helm.With(ctx, helm.Intent{Caller: helm.Caller{ID: "ada", Roles: []string{"editor"}}, Session: "chat-1"})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CALL\tVERDICT\tREASON\tRULE\tWHY\tRECEIPT")
	for _, m := range talk.Messages {
		for _, call := range m.Calls {
			d, r := k.Guard(ctx, helm.Intent{Tool: call.Function.Name, Args: json.RawMessage(call.Function.Arguments)})
			why := d.Why
			if err := d.Err(); why == "" && err != nil {
				why = err.Error()
			}
			fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\t%s\t#%d %.8s\n", call.Function.Name,
				short(call.Function.Arguments, 44), d.Verdict, d.Reason,
				d.Record.Rule, short(why, 70), r.Index, r.Ref().Hash)
		}
	}
	return table.Flush()
}

func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		return s[:n-1] + "…"
	}
	return s
}
