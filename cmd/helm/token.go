package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/faces/state"
)

func tokens(a *app) *cobra.Command {
	c := group("token", "say who may ask over HTTP")
	c.AddCommand(newToken(a), listTokens(a), revokeToken(a))
	return c
}

func newToken(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "new NAME --caller ID", Short: "make a token, and print it once", Args: arguments(cobra.ExactArgs(1)),
		Long: "Make a token, and print it: it is in no file, and is never shown again. Who holds it asks as that\n" +
			"caller. A process that runs takes it within 10 seconds. With the first token nobody is anonymous\n" +
			"any more.\n\n" +
			"Scopes: call, user (say what the user's own words are), read (what is of the own tenant), read:all,\n" +
			"inputs (arguments and outputs), approve, admin.",
	}
	caller := c.Flags().String("caller", "", "`ID` of the caller")
	tenant := c.Flags().String("tenant", "", "`TENANT` of the caller")
	roles := c.Flags().StringArray("role", nil, "a `ROLE` of the caller; may be repeated")
	scopes := c.Flags().StringSlice("scope", []string{"call"}, "`SCOPES`, with commas")
	lives := c.Flags().Duration("expires", 0, "`TIME` after which it ends, such as 720h; 0: it does not")
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		if *caller == "" {
			return usageError{fmt.Errorf("%s needs --caller", c.CommandPath())}
		}
		var expires time.Time
		if *lives < 0 {
			return usageError{fmt.Errorf("--expires: a time to come")}
		} else if *lives > 0 {
			expires = time.Now().Add(*lives).Truncate(time.Second)
		}
		var list []auth.Scope
		for _, s := range *scopes {
			list = append(list, auth.Scope(s))
		}
		who := contracts.Caller{ID: *caller, Tenant: *tenant, Roles: *roles}
		secret, t, err := auth.NewToken(args[0], who, list, expires)
		if err != nil {
			return usageError{err}
		}
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		err = state.EditTokens(conf.Dir, func(all []auth.Token) ([]auth.Token, error) {
			if slices.ContainsFunc(all, func(x auth.Token) bool { return x.Name == t.Name }) {
				return nil, fmt.Errorf("there is a token %s already: revoke it first, or choose another name", t.Name)
			}
			return append(all, t), show(a, secret, t) // what stdout did not take is no token
		})
		return err
	}
	return c
}

// show prints a token, now.
func show(a *app, secret string, t auth.Token) error {
	v := described(t)
	v.Token = secret
	say(a, "this token is shown once:")
	if err := a.print(secret+"\n", v); err != nil {
		return err
	}
	return now(a)
}

// A shown token is what is printed of one.
type shownToken struct {
	Name    string       `json:"name"`
	Token   string       `json:"token,omitempty"`
	Caller  string       `json:"caller"`
	Tenant  string       `json:"tenant,omitempty"`
	Roles   []string     `json:"roles,omitempty"`
	Scopes  []auth.Scope `json:"scopes"`
	Expires *time.Time   `json:"expires,omitempty"`
}

func described(t auth.Token) shownToken {
	v := shownToken{Name: t.Name, Caller: t.Caller.ID, Tenant: t.Caller.Tenant, Roles: t.Caller.Roles, Scopes: t.Scopes}
	if !t.Expires.IsZero() {
		utc := t.Expires.UTC()
		v.Expires = &utc
	}
	return v
}

func listTokens(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list the tokens, without their secrets", Args: arguments(cobra.NoArgs),
		Long: "List who may ask over HTTP, and for what. The tokens themselves are in no file.",
	}
	config := configFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		all, err := state.ReadTokens(conf.Dir)
		if err != nil {
			return err
		}
		list := make([]shownToken, len(all))
		var b strings.Builder
		for i, t := range all {
			list[i] = described(t)
			ends := "never ends"
			if !t.Expires.IsZero() {
				ends = "ends " + t.Expires.UTC().Format(time.RFC3339)
				if !time.Now().Before(t.Expires) {
					ends = "ended " + t.Expires.UTC().Format(time.RFC3339)
				}
			}
			scopes := make([]string, len(t.Scopes))
			for k, s := range t.Scopes {
				scopes[k] = string(s)
			}
			fmt.Fprintf(&b, "%-20s caller %s tenant %q roles %q scopes %s, %s\n",
				t.Name, ascii(t.Caller.ID), ascii(t.Caller.Tenant), ascii(strings.Join(t.Caller.Roles, ",")),
				strings.Join(scopes, ","), ends)
		}
		return a.print(b.String(), list)
	}
	return c
}

func revokeToken(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "revoke NAME", Short: "end a token", Args: arguments(cobra.ExactArgs(1)),
		Long: "End a token. A process that runs refuses it within 10 seconds, and ends the requests that it made.\n" +
			"After the last one nobody is let in: the file of tokens stays.",
	}
	config := configFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		conf, err := state.ReadConfig(*config)
		if err != nil {
			return err
		}
		ended := false
		err = state.EditTokens(conf.Dir, func(all []auth.Token) ([]auth.Token, error) {
			n := len(all)
			all = slices.DeleteFunc(all, func(t auth.Token) bool { return t.Name == args[0] })
			if ended = len(all) < n; !ended {
				return nil, errNo
			}
			return all, nil
		})
		if errors.Is(err, errNo) {
			text := fmt.Sprintf("there is no token %s\n", ascii(args[0]))
			return errors.Join(a.print(text, map[string]any{"name": args[0], "revoked": false}), errNo)
		}
		if err != nil {
			return err
		}
		return a.print(fmt.Sprintf("%s is ended\n", args[0]), map[string]any{"name": args[0], "revoked": true})
	}
	return c
}
