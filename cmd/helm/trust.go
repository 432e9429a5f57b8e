package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

func trusted(a *app) *cobra.Command {
	c := group("trust", "say who may sign what, and change it")
	c.AddCommand(showTrust(a), trustEvent(a), signTrust(a), enterTrust(a))
	return c
}

// A listedKey is a key of a trust state, as its canonical form has it.
type listedKey struct {
	ID      string   `json:"id"`
	Name    string   `json:"name"`
	Public  []byte   `json:"public"`
	Role    string   `json:"role"`
	Roles   []string `json:"roles"`
	Revoked *uint64  `json:"revoked"`
}

func showTrust(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "show", Short: "print who may sign what", Args: arguments(cobra.NoArgs),
		Long: "Print the trust state of a state directory, with all that events in its log changed. A process may\n" +
			"be running. The state that the log began with is the file trust.json, for auditors. A log key is\n" +
			"shown as a verifier key too, which witnesses of the log are told.",
	}
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		g, err := state.ReadTrust(c.Context(), conf.Dir)
		if err != nil {
			return err
		}
		var form struct {
			Frozen    bool        `json:"frozen"`
			Keys      []listedKey `json:"keys"`
			Threshold uint64      `json:"threshold"`
			Version   uint64      `json:"version"`
		}
		if err := json.Unmarshal(g.Trust.Canonical(), &form); err != nil {
			return err
		}
		var b strings.Builder
		fmt.Fprintf(&b, "log %s, %d entries\nversion %d, %d root keys must sign a change\n",
			g.Origin, g.Size, form.Version, form.Threshold)
		if form.Frozen {
			b.WriteString("frozen: every call is denied\n")
		}
		verifiers := []string{}
		for _, k := range form.Keys {
			fmt.Fprintf(&b, "%-9s %s %s", k.Role, k.ID, ascii(k.Name))
			if k.Role == string(registry.Log) && k.Revoked == nil {
				verifiers = append(verifiers, proofgraph.VerifierKey(g.Origin, k.Public))
				fmt.Fprintf(&b, " %s", verifiers[len(verifiers)-1])
			}
			if len(k.Roles) > 0 {
				fmt.Fprintf(&b, " for %s", ascii(strings.Join(k.Roles, ", ")))
			}
			if k.Revoked != nil {
				fmt.Fprintf(&b, ", revoked at entry %d", *k.Revoked)
			}
			b.WriteByte('\n')
		}
		return a.print(b.String(), map[string]any{
			"origin": g.Origin, "entries": g.Size, "trust": g.Trust, "verifierKeys": verifiers,
		})
	}
	return c
}

var eventTypes = []string{"key", "revoke", "root", "undelegate", "freeze", "unfreeze"}

func trustEvent(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "event TYPE", Short: "write a change of who may sign, for roots to sign",
		Args: arguments(cobra.ExactArgs(1)), ValidArgs: eventTypes,
		Long: "Write a change of who may sign, for roots to sign by helm trust sign. TYPE is one of\n\n" +
			"  key         add the key of --key: --role, --name, and --for of an approver or a delegator\n" +
			"  revoke      end the key of --id: --why\n" +
			"  root        replace the roots by those of --root: --threshold\n" +
			"  undelegate  end the grant --grant of the caller --delegator\n" +
			"  freeze      deny every call: --why\n" +
			"  unfreeze    end that: --why\n\n" +
			"A key that is added proves that it is at hand, so its file is needed. With --role log it is the key\n" +
			"that is derived from the kernel key in the file. The event is for one log, and for one version of\n" +
			"its trust state: those of the configuration, or of --origin and --version.",
	}
	f := c.Flags()
	key := f.String("key", "", "`FILE` with the key to add, - is stdin")
	role := f.String("role", "", "`ROLE` of the key: kernel, log, publisher, approver, delegator, attestor, freezer")
	name := f.String("name", "", "`NAME` of its holder; of a delegator the caller id")
	roles := f.StringSlice("for", nil, "`ROLES` to answer for, with commas")
	id := f.String("id", "", "`ID` of the key to end")
	roots := f.StringArray("root", nil, "`NAME=FILE`: a root and its key; may be repeated")
	threshold := f.Uint64("threshold", 1, "`N`umber of roots that must sign a change")
	grant := f.String("grant", "", "`DIGEST` of the grant")
	delegator := f.String("delegator", "", "`CALLER` who granted")
	why := f.String("why", "", "`TEXT` for those who read the log")
	origin := f.String("origin", "", "the log's `NAME`")
	version := f.Uint64("version", 0, "`VERSION` of the trust state after the event")
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		e := contracts.TrustEvent{Type: args[0], Origin: *origin, Version: *version, Why: *why}
		var provers []crypto.Signer
		switch e.Type {
		case "key":
			e.Role, e.Name, e.Roles = *role, *name, *roles
			if *key == "" || *role == "" || *name == "" {
				return usageError{fmt.Errorf("an event key needs --key, --role and --name")}
			}
			k, err := a.key(*key)
			if err != nil {
				return err
			}
			if *role == string(registry.Log) {
				k = crypto.DeriveLogKey(k)
			}
			provers = append(provers, k)
		case "revoke":
			d, err := crypto.ParseDigest(*id)
			if err != nil {
				return usageError{fmt.Errorf("--id: %w", err)}
			}
			e.ID = &d
		case "root":
			if e.Threshold = *threshold; len(*roots) == 0 {
				return usageError{fmt.Errorf("an event root needs --root")}
			} else if e.Threshold < 1 || e.Threshold > uint64(len(*roots)) {
				return usageError{fmt.Errorf("--threshold: 1 to the number of roots")}
			}
			for _, text := range *roots {
				who, file, _ := strings.Cut(text, "=")
				k, err := a.key(file)
				if err != nil {
					return err
				}
				public, err := crypto.PublicOf(k)
				if err != nil {
					return err
				}
				e.Keys, provers = append(e.Keys, contracts.RootKey{Name: who, Public: public}), append(provers, k)
			}
		case "undelegate":
			d, err := crypto.ParseDigest(*grant)
			if err != nil || *delegator == "" {
				return usageError{fmt.Errorf("an event undelegate needs --grant and --delegator")}
			}
			e.Delegation, e.Delegator = &d, *delegator
		case "freeze", "unfreeze":
		default:
			return usageError{fmt.Errorf("%q is no type of event: %s", args[0], strings.Join(eventTypes, ", "))}
		}
		if (e.Type == "revoke" || strings.HasSuffix(e.Type, "freeze")) && *why == "" {
			return usageError{fmt.Errorf("an event %s needs --why", e.Type)}
		}
		if e.Origin == "" || e.Version == 0 {
			conf, err := state.ReadConfig(*config)
			if err != nil {
				return err
			}
			g, err := state.ReadTrust(c.Context(), conf.Dir)
			if err != nil {
				return err
			}
			if e.Origin == "" {
				e.Origin = g.Origin
			}
			if e.Version == 0 {
				e.Version = g.Trust.Version() + 1
			}
		}
		for _, k := range provers {
			if e, err = e.Prove(k); err != nil {
				return err
			}
		}
		t := contracts.TrustRecord{Event: e}
		text := t.Append(nil)
		if _, err := parseEvent(text); err != nil {
			return usageError{err}
		}
		a.out.Write(append(text, '\n'))
		return nil
	}
	return c
}

// unsigned is what an event without signatures ends with, and one is what stands there instead when
// it is read: the library reads none that nobody signed.
var (
	unsigned = []byte(`"signatures":[]}`)
	one      = []byte(`"signatures":[{"keyid":"` + strings.Repeat("0", 64) + `","sig":"` +
		base64.StdEncoding.EncodeToString(make([]byte, 64)) + `"}]}`)
)

// parseEvent reads an event that may have no signature yet.
func parseEvent(b []byte) (*contracts.TrustRecord, error) {
	b = bytes.TrimSuffix(b, []byte("\n"))
	head, bare := bytes.CutSuffix(b, unsigned)
	if bare {
		b = append(head[:len(head):len(head)], one...)
	}
	t, err := contracts.ParseTrust(b)
	if err == nil && bare {
		t.Signatures = nil
	}
	return t, err
}

func signTrust(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "sign FILE --key FILE", Short: "sign a change of who may sign", Args: arguments(cobra.ExactArgs(1)),
		Long: "Sign a change of who may sign, as a root, a freezer or a delegator. It is shown, and its type must\n" +
			"be typed. The event goes to stdout, or to a new file, with the signatures that it had: pass it to\n" +
			"the next root, or to helm trust enter.",
	}
	keyFile := c.Flags().String("key", "", "`FILE` with the key that signs")
	word := c.Flags().String("yes", "", "the `TYPE` of the event, where nobody can type it")
	to := c.Flags().String("to", "", "a new `FILE` for the event")
	c.RunE = func(c *cobra.Command, args []string) error {
		if *keyFile == "" || *keyFile == "-" && args[0] == "-" {
			return usageError{fmt.Errorf("%s needs --key, in another file than the event", c.CommandPath())}
		}
		t, err := readEvent(a, args[0])
		if err != nil {
			return err
		}
		key, err := a.key(*keyFile)
		if err != nil {
			return err
		}
		if err := confirm(a, c, *word, t.Event.Type, describeEvent(t)); err != nil {
			return err
		}
		signed, err := t.Sign(key)
		if err != nil {
			return err
		}
		if *to != "" {
			write := func(w io.Writer) error { _, err := w.Write(append(signed, '\n')); return err }
			if err := create(*to, 0o644, write); err != nil {
				return err
			}
			return a.print(ascii(*to)+"\n", map[string]string{"event": *to})
		}
		a.out.Write(append(signed, '\n'))
		return nil
	}
	return c
}

func readEvent(a *app, name string) (*contracts.TrustRecord, error) {
	b, err := a.read(name)
	if err != nil {
		return nil, err
	}
	t, err := parseEvent(b)
	if err != nil {
		return nil, fmt.Errorf("%s: no trust event: %w", name, err)
	}
	return t, nil
}

// describeEvent returns what is signed, whole.
func describeEvent(t *contracts.TrustRecord) string {
	var b strings.Builder
	var fields map[string]json.RawMessage
	if json.Unmarshal(t.Event.Append(nil), &fields) == nil {
		for _, name := range []string{"type", "origin", "version", "role", "name", "roles", "id", "public",
			"keys", "threshold", "delegation", "delegator", "why"} {
			if v := fields[name]; v != nil {
				fmt.Fprintf(&b, "%-11s %s\n", name, asciiJSON(v))
			}
		}
	}
	fmt.Fprintf(&b, "%-11s %d\n", "signatures", len(t.Signatures))
	return b.String()
}

func enterTrust(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "enter FILE", Short: "put a signed change of who may sign in force", Args: arguments(cobra.ExactArgs(1)),
		Long: "Put a change of who may sign, which enough roots signed, into the log of a state directory. No\n" +
			"process may hold the directory. What is refused says what it needs.",
	}
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		t, err := readEvent(a, args[0])
		if err != nil {
			return err
		}
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		s, err := state.Open(c.Context(), conf, state.Options{})
		if err != nil {
			return err
		}
		err = s.Kernel().Govern(c.Context(), t.Append(nil))
		ended := err == nil && s.Kernel().Err() != nil // it revoked the key of this kernel
		cerr := s.Close(c.Context())
		switch {
		case err != nil:
			return err
		case ended:
			say(a, "it ends the key of this directory: put the next one in key.pem now")
		case cerr != nil:
			return cerr
		}
		g, err := state.ReadTrust(c.Context(), conf.Dir)
		if err != nil {
			return err
		}
		return a.print(fmt.Sprintf("in force: the trust state has version %d\n", g.Trust.Version()),
			map[string]any{"type": t.Event.Type, "version": g.Trust.Version()})
	}
	return c
}
