package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/integrations/mcp"
)

// remote reads the flags that say how a server is reached.
type remote struct{ command, keyEnv, keyFile *string }

func remoteFlags(c *cobra.Command) remote {
	return remote{
		c.Flags().String("mcp", "", "`CMD|URL` of an MCP server: a program and its arguments, or https://…"),
		c.Flags().String("key-env", "", "`NAME` of the environment variable with the token for the URL"),
		c.Flags().String("key-file", "", "`FILE` with the token for the URL"),
	}
}

// server returns the server that the flags name.
func (r remote) server() (s mcp.Server, err error) {
	s.Name = "server"
	if !strings.HasPrefix(*r.command, "http://") && !strings.HasPrefix(*r.command, "https://") {
		if s.Command = strings.Fields(*r.command); len(s.Command) == 0 {
			return s, usageError{errors.New("--mcp: no program")}
		}
		s.Stderr = os.Stderr
	} else {
		s.URL = *r.command
	}
	secret := state.Secret{Env: *r.keyEnv, File: *r.keyFile}
	switch {
	case secret == (state.Secret{}):
		return s, nil
	case s.URL == "":
		return s, usageError{errors.New("--key-env and --key-file are for a URL")}
	case secret.Env != "" && secret.File != "":
		return s, usageError{errors.New("--key-env and --key-file: name one of them")}
	}
	s.Key, err = keyOf(secret)
	return s, err
}

// list returns the tools of the server.
func (r remote) list(ctx context.Context) ([]byte, error) {
	s, err := r.server()
	if err != nil {
		return nil, err
	}
	return mcp.List(ctx, s)
}

// keyOf returns what reads a secret, which must be there now.
func keyOf(s state.Secret) (func() string, error) {
	if s == (state.Secret{}) {
		return nil, nil
	}
	if _, err := s.Read(); err != nil {
		return nil, err
	}
	return func() string { k, _ := s.Read(); return k }, nil
}

// serversOf returns the servers of a configuration.
func serversOf(c *state.Config) (list []mcp.Server, err error) {
	for _, s := range c.Servers {
		one := mcp.Server{Name: s.Name, Command: s.Command, Env: s.Env, URL: s.URL, Stderr: os.Stderr}
		if one.Key, err = keyOf(s.Key); err != nil {
			return nil, fmt.Errorf("%s: server %s: %w", c.File, s.Name, err)
		}
		list = append(list, one)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: it names no servers: write servers: and, under a name, a command or a url", c.File)
	}
	return list, nil
}

func gateway(a *app) *cobra.Command {
	c := group("mcp", "put the kernel before MCP servers")
	c.AddCommand(wrap(a), serve(a), publishing(a))
	return c
}

// A published is a tool as its server lists it.
type published struct {
	Server     string           `json:"server"`
	Tool       string           `json:"tool"` // as policies name it
	Definition contracts.Digest `json:"definition"`
	Entry      json.RawMessage  `json:"entry"`
}

func publishing(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "list", Short: "list the tools of MCP servers, with their definitions", Args: arguments(cobra.NoArgs),
		Long: "List what the servers of the configuration, or the one of --mcp, publish: the name of each tool\n" +
			"as policies have it, and its definition, the SHA-256 of what the server says of it. No tool is\n" +
			"called. With --json each comes with what the server says.",
	}
	file := configFlag(c)
	one := remoteFlags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		var list []published
		if *one.command != "" {
			s, err := one.server()
			if err != nil {
				return err
			}
			if list, err = publishedBy(c.Context(), []mcp.Server{s}, false); err != nil {
				return err
			}
		} else {
			conf, err := state.ReadConfig(*file)
			if err != nil {
				return err
			}
			if list, err = configured(c.Context(), conf); err != nil {
				return err
			}
		}
		var text strings.Builder
		for _, t := range list {
			fmt.Fprintf(&text, "%s  %s\n", t.Definition, ascii(t.Tool))
		}
		return a.print(text.String(), list)
	}
	return c
}

// configured returns what the servers of a configuration publish.
func configured(ctx context.Context, c *state.Config) ([]published, error) {
	servers, err := serversOf(c)
	if err != nil {
		return nil, err
	}
	return publishedBy(ctx, servers, c.Prefix || len(servers) > 1)
}

func publishedBy(ctx context.Context, servers []mcp.Server, prefix bool) ([]published, error) {
	list := []published{}
	for _, s := range servers {
		b, err := mcp.List(ctx, s)
		if err != nil {
			return nil, err
		}
		var said struct{ Tools []json.RawMessage }
		if err := json.Unmarshal(b, &said); err != nil {
			return nil, err
		}
		for _, entry := range said.Tools {
			d, err := contracts.DefinitionOf(entry)
			if err != nil {
				return nil, fmt.Errorf("server %s: %w", s.Name, err)
			}
			var members map[string]json.RawMessage // so that no other spelling of it is the name
			var name string
			if err := json.Unmarshal(entry, &members); err != nil {
				return nil, err
			}
			if json.Unmarshal(members["name"], &name) != nil || name == "" {
				return nil, fmt.Errorf("server %s: a tool without a name", s.Name)
			}
			if prefix {
				name = s.Name + "__" + name
			}
			list = append(list, published{s.Name, name, d, entry})
		}
	}
	return list, nil
}
