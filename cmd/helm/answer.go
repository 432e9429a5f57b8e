package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/state"
)

// A pending is the file that an approver gets: Decision.Pending, and Decision.Args.
type pending struct {
	Request contracts.ApprovalRequest `json:"request"`
	Args    json.RawMessage           `json:"args"`
}

// answer returns the command approve, or refuse.
func answer(a *app, verb string) *cobra.Command {
	c := &cobra.Command{
		Use: verb + " [NONCE|FILE] --key FILE", Short: verb + " a call that waits for a person",
		Args: arguments(cobra.MaximumNArgs(1)),
		Long: strings.ToUpper(verb[:1]) + verb[1:] +
			" a call. FILE has {\"request\", \"args\"}: Decision.Pending and Decision.Args of the\n" +
			"denial. The arguments must be those of the request. They are shown, and the name of the tool must\n" +
			"be typed. The envelope goes to stdout, or to a new file, and travels back to who made the call.\n\n" +
			"NONCE names a request that waits in a state directory: the answer is kept there, and the call may\n" +
			"be made again. Without either the requests that wait are listed.\n\n" +
			"With --to URL the requests are those of a helm serve, and the answer is handed to it. Its token, of\n" +
			"the scopes approve and inputs, is in the file of --token-file.",
	}
	keyFile := c.Flags().String("key", "", "`FILE` with the approver's key")
	word := c.Flags().String("yes", "", "the name of the `TOOL`, where nobody can type it")
	to := c.Flags().String("to", "", "a new `FILE|URL` for the envelope: the URL of a helm serve")
	tokenFile := c.Flags().String("token-file", "", "`FILE` with the token for the URL")
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		var there *elsewhere
		if isURL(*to) {
			var err error
			if there, err = newElsewhere(*to, *tokenFile); err != nil {
				return err
			}
		}
		if len(args) == 0 {
			return waiting(c.Context(), a, *config, there)
		}
		if *keyFile == "" || *keyFile == "-" && args[0] == "-" {
			return usageError{fmt.Errorf("%s needs --key, in another file than the request", c.CommandPath())}
		}
		var p pending
		var kept *state.Approvals // that the request is of
		if nonce := args[0]; isNonce(nonce) && !exists(nonce) && there != nil {
			var err error
			if p, err = there.get(c.Context(), nonce); err != nil {
				return err
			}
		} else if isNonce(nonce) && !exists(nonce) {
			var err error
			if kept, err = openApprovals(c.Context(), *config); err != nil {
				return err
			}
			defer kept.Close()
			found, err := kept.Get(c.Context(), nonce)
			if err != nil {
				return fmt.Errorf("%s: %w", nonce, err)
			}
			p = pending{found.Request, found.Args}
		} else if err := readRequest(a, args[0], &p); err != nil {
			return err
		}
		key, err := a.key(*keyFile)
		if err != nil {
			return err
		}
		if err := confirm(a, c, *word, p.Request.Tool, p.describe()); err != nil {
			return err
		}
		sign := p.Request.Approve
		if verb == "refuse" {
			sign = p.Request.Refuse
		}
		envelope, err := sign(key)
		if err != nil {
			return err
		}
		if kept != nil && *to == "" || there != nil {
			if there != nil {
				err = there.answer(c.Context(), envelope)
			} else {
				err = kept.Answer(c.Context(), p.Request.Nonce, envelope)
			}
			if err != nil {
				return err
			}
			v := map[string]string{"answer": verb, "nonce": p.Request.Nonce, "tool": p.Request.Tool}
			return a.print(fmt.Sprintf("%s: the answer is kept\n", p.Request.Nonce), v)
		}
		if *to != "" {
			return create(*to, 0o600, func(w io.Writer) error { _, err := w.Write(envelope); return err })
		}
		a.out.Write(append(envelope, '\n'))
		return nil
	}
	return c
}

// readRequest reads a request from a file.
func readRequest(a *app, name string, p *pending) error {
	b, err := a.read(name)
	if err != nil {
		return err
	}
	if err := strict(b, p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := p.Request.About(p.Args); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// strict reads JSON in which nothing may be misspelt, or there twice.
func strict(b []byte, v any) error {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth}); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	return spelt(tree.Root(), reflect.TypeOf(v))
}

// spelt returns an error if a member has the name of a field in other letter case: it would be
// taken for the field, also next to the one that is spelt right.
func spelt(v crypto.Value, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || v.Kind() != crypto.Object || reflect.PointerTo(t).Implements(decodes) {
		return nil
	}
	fields := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = t.Field(i).Type
	}
	for it := v.Iter(); it.Next(); {
		field, ok := fields[string(it.Key())]
		if !ok {
			return fmt.Errorf("unknown field %q", it.Key())
		}
		if err := spelt(it.Value(), field); err != nil {
			return err
		}
	}
	return nil
}

var decodes = reflect.TypeFor[json.Unmarshaler]()

// describe returns what the approver signs, whole, as a terminal may be told it.
func (p *pending) describe() string {
	r := &p.Request
	var b strings.Builder
	row := func(name, value string) { fmt.Fprintf(&b, "%-11s %s\n", name, value) }
	row("tool", ascii(r.Tool))
	row("arguments", strings.ReplaceAll(asciiJSON(p.Args), "\n", " "))
	row("caller", ascii(r.Caller.ID))
	row("tenant", ascii(r.Caller.Tenant))
	row("roles", ascii(strings.Join(r.Caller.Roles, ", ")))
	row("session", ascii(r.Session))
	row("not before", r.NotBefore.String())
	row("expires", r.Expires.String())
	row("needs", fmt.Sprintf("%d of %s", r.Quorum, ascii(strings.Join(r.Roles, ", "))))
	row("policy", r.PolicyHash.String())
	row("declaration", r.SchemaHash.String())
	row("nonce", r.Nonce)
	return b.String()
}

// confirm shows what is asked, and returns nil if a person types the word, or the command line has
// it.
func confirm(a *app, c *cobra.Command, given, word, what string) error {
	say(a, strings.TrimSuffix(what, "\n"))
	if given == "" {
		nobody := usageError{fmt.Errorf("nobody can type here: --yes %s says that it is meant", ascii(word))}
		if _, ok := terminal(a.in); !ok {
			return nobody
		}
		fmt.Fprintf(c.ErrOrStderr(), "type %s to go on: ", ascii(word))
		var line [256]byte
		n, err := a.in.Read(line[:])
		if err == io.EOF {
			return nobody
		} else if err != nil {
			return err
		}
		given = strings.TrimRight(string(line[:n]), "\r\n")
	}
	if given != word {
		say(a, "nothing was done: that is not "+ascii(word))
		return errNo
	}
	return nil
}
