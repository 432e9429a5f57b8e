package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

//go:embed *.yaml
var policies embed.FS

const (
	origin  = "example.org/injection" // the log's name
	session = "chat-1"
)

// A stack is the files of a policy.
type stack struct {
	name  string
	files []string
}

// play has a kernel judge all calls of a conversation, and verifies the log of it.
func (s stack) play(ctx context.Context, c conversation) ([]helm.Decision, evidence.Report, error) {
	judge, err := policy.LoadFS(policies, s.files...)
	if err != nil {
		return nil, evidence.Report{}, err
	}
	keys := make([]crypto.PrivateKey, 2) // the kernel's, and the owner's, who is not asked here
	for i := range keys {
		if keys[i], err = crypto.GenerateKey(); err != nil {
			return nil, evidence.Report{}, err
		}
	}
	owner, err := crypto.PublicOf(keys[1])
	if err != nil {
		return nil, evidence.Report{}, err
	}
	trust, err := registry.New(0, registry.Key{Name: "bob", Public: owner, Role: registry.Approver,
		Roles: []string{"owner"}})
	if err != nil {
		return nil, evidence.Report{}, err
	}
	store := proofgraph.NewMemory()
	k, err := helm.New(helm.Options{Policy: judge, Key: keys[0], Store: store, Origin: origin, Trust: trust})
	if err != nil {
		return nil, evidence.Report{}, err
	}
	defer k.Close()

	// The host hands in what the user wrote, and nothing else.
	if err := k.UserMessage(ctx, session, c.user); err != nil {
		return nil, evidence.Report{}, err
	}
	var decisions []helm.Decision
	tools := newOffice().tools()
	for _, call := range c.calls {
		d, _ := k.Guard(ctx, helm.Intent{Tool: call.tool, Args: json.RawMessage(call.args), Session: session,
			Driver: tools[call.tool]})
		decisions = append(decisions, d)
	}
	report, err := audit(ctx, k, store, keys[0])
	return decisions, report, err
}

// audit verifies a pack of the log as someone does who was not there: every verdict is judged
// again.
func audit(ctx context.Context, k *helm.Kernel, store proofgraph.Store, key crypto.Signer) (evidence.Report, error) {
	if _, err := k.Checkpoint(ctx); err != nil {
		return evidence.Report{}, err
	}
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, store, key); err != nil {
		return evidence.Report{}, err
	}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()),
		evidence.Options{Trust: k.Trust(), Origin: origin})
	if err == nil && (!report.Success(evidence.Logged) || report.Replay.Replayed != report.Allows+report.Denials) {
		err = fmt.Errorf("the pack proves too little: %v", report)
	}
	return report, err
}
