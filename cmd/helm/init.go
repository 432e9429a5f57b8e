package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/trust/registry"
)

// configFlag adds the flag that names the configuration.
func configFlag(c *cobra.Command) *string {
	return c.Flags().String("config", "helm.yaml", "`FILE` of the configuration")
}

func initialize(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "init DIR", Short: "make a directory to begin with", Args: arguments(cobra.ExactArgs(1)),
		Long: "Make a directory to begin with: helm.yaml, a policy that allows nothing, and a state directory with\n" +
			"the kernel's key and the trust state. Nothing that is there is replaced.\n\n" +
			"Roots sign changes of who may sign. Without --root the key of one is made, root.pem: move it to\n" +
			"another machine. Approvers can be named now, or added later by helm trust.",
	}
	roots := c.Flags().StringArray("root", nil,
		"`NAME=PUBLIC`: a root's public key, as helm keygen prints it; may be repeated")
	threshold := c.Flags().Int("threshold", 1, "`N`umber of roots that must sign a change")
	approvers := c.Flags().StringArray("approver", nil,
		"`NAME=PUBLIC:ROLE,ROLE`: an approver's public key, and the roles to answer for; may be repeated")
	c.RunE = func(c *cobra.Command, args []string) error {
		var o state.CreateOptions
		for _, text := range *roots {
			k, err := publicKey(text, registry.Root)
			if err != nil {
				return usageError{fmt.Errorf("--root: %w", err)}
			}
			o.Keys = append(o.Keys, k)
		}
		for _, text := range *approvers {
			k, err := publicKey(text, registry.Approver)
			if err != nil {
				return usageError{fmt.Errorf("--approver: %w", err)}
			}
			o.Keys = append(o.Keys, k)
		}
		if o.Threshold = *threshold; o.Threshold < 1 || o.Threshold > max(len(*roots), 1) {
			return usageError{fmt.Errorf("--threshold: 1 to the number of roots")}
		}
		if err := state.Create(args[0], o); err != nil {
			return err
		}
		return created(a, args[0])
	}
	return c
}

func created(a *app, dir string) error {
	v := struct {
		Config string `json:"config"`
		Policy string `json:"policy"`
		State  string `json:"state"`
		Root   string `json:"root,omitempty"`
	}{filepath.Join(dir, "helm.yaml"), filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "state"), ""}
	text := fmt.Sprintf("%s  the configuration\n%s  the policy: nothing is allowed\n"+
		"%s  key, trust state, log, tokens, approvals\n",
		ascii(v.Config), ascii(v.Policy), ascii(v.State))
	if root := filepath.Join(dir, "root.pem"); exists(root) {
		v.Root = root
		text += ascii(root) + "  signs changes of who may sign: move it to another machine\n"
	}
	return a.print(text, v)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// publicKey reads NAME=PUBLIC, or NAME=PUBLIC:ROLE,ROLE.
func publicKey(text string, role registry.Role) (k registry.Key, err error) {
	name, public, ok := strings.Cut(text, "=")
	public, roles, more := strings.Cut(public, ":")
	if !ok || name == "" || more != (role == registry.Approver) {
		return k, fmt.Errorf("%q is not of its form", text)
	}
	k = registry.Key{Name: name, Role: role}
	if more {
		k.Roles = strings.Split(roles, ",")
	}
	b, err := hex.DecodeString(public)
	if err == nil {
		k.Public = b
		err = crypto.CheckPublicKey(k.Public)
	}
	if err != nil {
		return k, fmt.Errorf("%s: no public key: 64 hex digits, as helm keygen prints them", name)
	}
	return k, nil
}
