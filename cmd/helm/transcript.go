package main

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/policytest"
	"github.com/helmkernel/helm/proofgraph"
)

// A transcript is what policy test is told of a conversation.
type transcript struct {
	file, caller string
	words        bool
}

func (t *transcript) flags(c *cobra.Command) {
	c.Flags().StringVar(&t.file, "transcript", "",
		"`FILE` of messages as OpenAI or Anthropic have them, - is stdin; the documents of a stack are named then")
	c.Flags().StringVar(&t.caller, "caller", "", "`JSON` {id, tenant, roles} of who makes the calls of the transcript")
	c.Flags().BoolVar(&t.words, "words", false, "take what the role user says in the transcript for the user's words")
}

// run judges the calls of the transcript.
func (t *transcript) run(a *app, c *cobra.Command, files []string, values bool) error {
	if len(files) == 0 {
		return wrongly(c, errors.New("--transcript needs the documents of a stack: name their files"))
	}
	var caller struct {
		ID     string   `json:"id"`
		Tenant string   `json:"tenant"`
		Roles  []string `json:"roles"`
	}
	if t.caller != "" {
		if err := strict([]byte(t.caller), &caller); err != nil {
			return wrongly(c, fmt.Errorf("--caller: %w", err))
		}
	}
	b, err := a.read(t.file)
	if err != nil {
		return err
	}
	turns, err := policytest.Transcript(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("%s: %w", t.file, err)
	}
	p, err := a.load(files)
	if err != nil {
		return err
	}
	k, err := kernelFor(p, proofgraph.NewMemory(), nil)
	if err != nil {
		return err
	}
	defer k.Close()
	r := policytest.Replay{
		Guard: k.Guard, Policy: p, Session: "transcript", Values: values,
		Caller:  helm.Caller{ID: caller.ID, Tenant: caller.Tenant, Roles: caller.Roles},
		Sandbox: &contracts.SandboxInfo{Profile: contracts.ProfilePure, Meter: 1, Grants: &contracts.Sandbox{}},
	}
	if t.words {
		r.Words = k.UserMessage
	}
	v, err := r.Run(c.Context(), turns)
	if err != nil {
		return err
	}
	if v.Calls == nil {
		v.Calls = []policytest.CallVerdict{}
	}
	if err := a.print(v.String(), v); err != nil {
		return err
	}
	if v.First > 0 {
		return errNo
	}
	return nil
}
