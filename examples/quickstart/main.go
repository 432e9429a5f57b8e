// Command quickstart lets a recorded model conversation loose on real tools in a real directory, and shows what HELM makes of it: a table
// of calls and verdicts, an EvidencePack with the trust state beside it, its verification, and what one flipped bit does to it.
//
//	go run ./examples/quickstart [-pack FILE] [-key FILE]
package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
)

//go:embed policy.yaml
var policyText []byte

//go:embed conversation.json
var conversationText []byte

func main() {
	pack := flag.String("pack", "", "write the EvidencePack to this `file`, and the trust state beside it (default: in a temporary directory)")
	key := flag.String("key", "", "sign with the private key in this `file`, which is made where there is none (default: a new key each time)")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart: unexpected argument %q\n", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	}
	if err := run(context.Background(), os.Stdout, *pack, *key); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, pack, keyFile string) error {
	dir, err := os.MkdirTemp("", "helm-quickstart-")
	if err != nil {
		return err
	}
	if pack == "" {
		pack = filepath.Join(dir, "pack.tar")
	}
	tools, err := lay(filepath.Join(dir, "files"))
	if err != nil {
		return err
	}
	defer tools.root.Close()

	document, err := policy.Parse("policy.yaml", policyText)
	if err != nil {
		return err
	}
	stack, err := guardian.Compile(document)
	if err != nil {
		return err
	}
	key, err := signer(keyFile)
	if err != nil {
		return err
	}
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: stack, Key: key, Store: store, Origin: "example.org/quickstart", Drivers: tools.drivers()})
	if err != nil {
		return err
	}
	defer k.Close()

	if err := converse(ctx, out, k); err != nil {
		return err
	}
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	if err := save(ctx, pack, store, key, k); err != nil {
		return err
	}
	return audit(ctx, out, pack)
}

// signer reads the key in a file, or makes one.
func signer(name string) (crypto.PrivateKey, error) {
	if name == "" {
		return crypto.GenerateKey()
	}
	b, err := os.ReadFile(name)
	if err == nil {
		return crypto.LoadKey(bytes.NewReader(b))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return crypto.PrivateKey{}, err
	}
	key, err := crypto.GenerateKey()
	if err != nil {
		return key, err
	}
	var text bytes.Buffer
	if err := crypto.WriteKey(&text, key); err != nil {
		return key, err
	}
	return key, os.WriteFile(name, text.Bytes(), 0o600)
}

// A conversation is one in the format of OpenAI's chat completions.
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

// converse makes every call of the conversation, and prints what came of it.
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
			fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\t%s\t#%d %.8s\n", call.Function.Name, short(call.Function.Arguments, 44), d.Verdict, d.Reason,
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

// save writes the pack and, beside it, the trust state: what an auditor needs, and has from somebody else than who made the pack.
func save(ctx context.Context, name string, store proofgraph.Store, key crypto.Signer, k *helm.Kernel) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = evidence.Write(ctx, f, store, key)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.WriteFile(trustName(name), k.Trust().Canonical(), 0o644)
}

func trustName(pack string) string { return strings.TrimSuffix(pack, ".tar") + ".trust.json" }
