package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/receipts"
	"github.com/helmkernel/helm/sandbox"
	"github.com/helmkernel/helm/trust/registry"
)

// work makes a summary and a letter, has an auditor run them again, and falsifies a receipt.
func (h *host) work(ctx context.Context) error {
	summary, err := h.runtime.Load(ctx, h.guests["summary"], "summary", contracts.Sandbox{}, sandbox.Host{})
	if err != nil {
		return err
	}
	tree, err := sandbox.TreeDigest(templates)
	if err != nil {
		return err
	}
	letter, err := h.runtime.Load(ctx, h.guests["letter"], "letters",
		contracts.Sandbox{Files: map[string]string{"/templates": tree}},
		sandbox.Host{Trees: map[string]fs.FS{"/templates": templates}})
	if err != nil {
		return err
	}
	store := &gate{Memory: proofgraph.NewMemory(), batches: 1 << 30}
	k, err := h.kernel(store, map[string]executor.Driver{"csv.summary": summary, "letter.write": letter})
	if err != nil {
		return err
	}
	defer k.Close()

	fmt.Fprintln(h.out, "Two tools in closed sandboxes:")
	ask := call("csv.summary", map[string]string{"csv": prices})
	d, honest := k.Guard(ctx, ask)
	h.show(d, honest)
	d, r := k.Guard(ctx, call("letter.write", map[string]any{"template": "reminder",
		"fields": map[string]string{"name": "Ann", "invoice": "4711", "due": "1 March"}}))
	h.show(d, r)
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	fmt.Fprintln(h.out, "\nAn auditor, who has the templates, runs them again:")
	if err := h.audit(ctx, store, k.Trust(), true); err != nil {
		return err
	}

	// The same call once more. The store fails before there is a receipt, so its holder of the key
	// can write one.
	store.batches = 1
	if d, _ = k.Guard(ctx, ask); d.Reason != contracts.ReasonReceiptNotStored {
		return fmt.Errorf("a call without a receipt is %s", d.Reason)
	}
	if err := h.falsify(ctx, store.Memory, &d.Record, honest); err != nil {
		return err
	}
	fmt.Fprintln(h.out, "\nThe holder of the kernel's key changes one byte of an output. Without running it again:")
	if err := h.audit(ctx, store, k.Trust(), false); err != nil {
		return err
	}
	fmt.Fprintln(h.out, "With it:")
	return h.audit(ctx, store, k.Trust(), true)
}

func call(tool string, args any) helm.Intent {
	return helm.Intent{Tool: tool, Args: marshal(args), Session: "chat"}
}

// show prints a call with its receipt.
func (h *host) show(d helm.Decision, r helm.Receipt) {
	fmt.Fprintf(h.out, "  %s: %v %s\n    %s\n", d.Record.Tool, d.Verdict, d.Reason, strings.TrimSpace(string(r.Output)))
	if s := r.Record.Sandbox; s != nil {
		fmt.Fprintf(h.out, "    receipt %s: gas %d, module %.8s, profile %s\n", r.Record.Outcome, s.Gas, s.Module,
			s.Profile)
	}
}

// audit writes a pack and verifies it, as an auditor does who has the trust state and the tree.
func (h *host) audit(ctx context.Context, store proofgraph.Store, trust *registry.State, again bool) error {
	var pack bytes.Buffer
	if err := evidence.Write(ctx, &pack, store, h.key); err != nil {
		return err
	}
	o := evidence.Options{Trust: trust, Origin: origin}
	if again {
		o.Rerun = h.runtime.Rerun(nil, templates)
	}
	report, err := evidence.Verify(ctx, bytes.NewReader(pack.Bytes()), int64(pack.Len()), o)
	if report.Fault == nil && err != nil {
		return err
	}
	answer, _, _ := strings.Cut(report.String(), "\n")
	fmt.Fprintln(h.out, " ", answer)
	if x := report.Rerun; again && err == nil {
		fmt.Fprintf(h.out, "  run again: %d the same; of these, %d of a module that no policy lists\n", x.Same,
			x.Unpinned)
	}
	return nil
}

// A gate is a store that fails after so many batches.
type gate struct {
	*proofgraph.Memory
	batches int
}

// Append fails without storing anything.
func (g *gate) Append(ctx context.Context, b proofgraph.Batch) error {
	if g.batches == 0 {
		return fmt.Errorf("the disk is full")
	}
	g.batches--
	return g.Memory.Append(ctx, b)
}

// falsify writes the receipt of the last call of a log, with the output that it has but for a byte.
// Every signature is right, and so is every hash.
func (h *host) falsify(
	ctx context.Context, store *proofgraph.Memory, d *contracts.DecisionRecord, honest helm.Receipt,
) error {
	log, err := proofgraph.Open(ctx, store,
		proofgraph.Options{Origin: origin, Key: h.key, LogKey: crypto.DeriveLogKey(h.key)}, nil)
	if err != nil {
		return err
	}
	chain := log.Chain("chat")
	// A module of Go uses random numbers, and they follow from the decision: so does its gas.
	used := *honest.Record.Sandbox
	run, err := h.runtime.Rerun([][]byte{h.guests["summary"]})(ctx, contracts.Rerunnable{Module: used.Module, Meter: 1,
		Tool: d.Tool, Args: marshal(map[string]string{"csv": prices}), Decision: chain.Last(), Time: chain.Time()})
	if err != nil {
		return err
	}
	used.Gas = run.Gas
	output := bytes.Replace(honest.Output, []byte(`"rows":3`), []byte(`"rows":4`), 1)
	receipt, err := receipts.Build(d, chain.Last(), receipts.Result{Reason: contracts.ReasonAllow, Output: output,
		Form: "jcs", Sandbox: &used})
	if err != nil {
		return err
	}
	slot, err := log.Place(proofgraph.Draft{
		Chain: chain,
		Time:  chain.Time(),
		Write: func(at proofgraph.Place) (*contracts.Statement, error) {
			at.Keep(output)
			return &contracts.Statement{Receipt: receipt}, nil
		},
	})
	if err != nil {
		return err
	}
	if err := slot.Wait(); err != nil {
		return err
	}
	_, err = log.Checkpoint(ctx)
	return err
}
