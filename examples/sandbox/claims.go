package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/sandbox"
)

// A wrapper claims the sandbox of a module, and runs something else.
type wrapper struct{ *sandbox.Module }

// Run returns what it likes.
func (wrapper) Run(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{Output: []byte(`{"rows":1000000}`)}, nil
}

// claims binds drivers that are not what the policy demands of the summary.
func (h *host) claims(ctx context.Context) error {
	load := func(guest string, grants contracts.Sandbox) (*sandbox.Module, error) {
		return h.runtime.Load(ctx, h.guests[guest], "summary", grants, sandbox.Host{})
	}
	summary, err := load("summary", contracts.Sandbox{})
	if err != nil {
		return err
	}
	greedy, err := load("summary", contracts.Sandbox{Gas: 2e9})
	if err != nil {
		return err
	}
	other, err := load("letter", contracts.Sandbox{})
	if err != nil {
		return err
	}
	k, err := h.kernel(proofgraph.NewMemory(), nil)
	if err != nil {
		return err
	}
	defer k.Close()
	fmt.Fprintln(h.out, "\nDrivers that claim the sandbox of the summary:")
	for _, x := range []struct {
		name   string
		driver executor.Driver
	}{
		{"the module", summary},
		{"a wrapper around the module", wrapper{summary}},
		{"a function of the host", helm.Func(func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(`{"rows":1000000}`), nil
		})},
		{"the module with more gas", greedy},
		{"another module", other},
	} {
		ask := call("csv.summary", map[string]string{"csv": prices})
		ask.Driver = x.driver
		d, _ := k.Guard(ctx, ask)
		fmt.Fprintf(h.out, "  %-28s%v %s %s\n", x.name, d.Verdict, d.Reason, d.Why)
	}
	return nil
}
