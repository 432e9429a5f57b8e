package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// answerVector returns the answer of this module to a case, in canonical JSON. It reads no
// want.json.
func answerVector(v fs.FS, name string) ([]byte, error) {
	folder, _, _ := strings.Cut(name, "/")
	answer, ok := answers[folder]
	if !ok {
		return nil, fmt.Errorf("conformance: vectors: %s: no answer to cases of this folder", name)
	}
	sub, err := fs.Sub(v, name)
	if err != nil {
		return nil, vectorsError(err)
	}
	x, err := answer(sub)
	if err != nil {
		return nil, vectorsError(fmt.Errorf("%s: %w", name, err))
	}
	return canonicalJSON(x)
}

// answers has a function for each folder but meter, which takes a sandbox.
var answers = map[string]func(v fs.FS) (any, error){
	"canonical": answerCanonical, "numbers": answerNumber, "points": answerPoint, "envelopes": answerEnvelope,
	"checkpoints": answerCheckpoint, "proofs": answerProof, "trust": answerTrust, "policies": answerPolicy,
	"verdicts": answerVerdicts, "packs": answerPack,
}

// canonicalJSON returns the canonical form of what package json makes of x.
func canonicalJSON(x any) ([]byte, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth}); err != nil {
		return nil, err
	}
	return tree.Root().Append(nil), nil
}

type okAnswer struct {
	OK bool `json:"ok"`
}

type canonicalAnswer struct {
	Canonical []byte `json:"canonical,omitempty"`
	Error     string `json:"error,omitempty"`
}

// canonicalLimits are those of a case of the folder canonical.
type canonicalLimits struct {
	Bytes     int  `json:"bytes"`     // of the text
	Canonical int  `json:"canonical"` // bytes of the canonical form
	Depth     int  `json:"depth"`
	Fold      bool `json:"fold"`
	Object    bool `json:"object"`
}

// answerCanonical returns the canonical form, or the class of the error.
func answerCanonical(v fs.FS) (any, error) {
	var limits canonicalLimits
	if err := readJSON(v, "limits.json", &limits); err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(v, "input")
	if err != nil {
		return nil, err
	}
	var tree crypto.Tree
	err = tree.Parse(text, crypto.Limits{Bytes: limits.Bytes, Depth: limits.Depth, Object: limits.Object,
		Fold: limits.Fold})
	if err != nil {
		return canonicalAnswer{Error: errorClass(err)}, nil
	}
	b := tree.Root().Append(nil)
	if len(b) > limits.Canonical {
		return canonicalAnswer{Error: "size"}, nil
	}
	return canonicalAnswer{Canonical: b}, nil
}

// classes are those of docs/CONFORMANCE.md, by a part of the error's text.
var classes = []struct{ class, what string }{
	{"size", "longer than its limit"},
	{"root", "not an object"},
	{"depth", "nested too deep"},
	{"key", "duplicate key"},
	{"key", "differs from another only by letter case"},
	{"number", "number that a double cannot hold"},
	{"number", "number out of range"},
	{"utf8", "invalid UTF-8"},
	{"surrogate", "surrogate"},
}

// errorClass returns the class of an error of the parser; all that is no JSON at all is "syntax".
func errorClass(err error) string {
	var e *crypto.SyntaxError
	if errors.As(err, &e) {
		for _, c := range classes {
			if strings.Contains(e.What, c.what) {
				return c.class
			}
		}
	}
	return "syntax"
}

// answerNumber reports whether a text is a number that is accepted.
func answerNumber(v fs.FS) (any, error) {
	text, err := fs.ReadFile(v, "input")
	if err != nil {
		return nil, err
	}
	var tree crypto.Tree
	err = tree.Parse(text, crypto.Limits{Bytes: len(text), Depth: 1})
	return okAnswer{err == nil && tree.Root().Kind() == crypto.Number}, nil
}

// answerPoint reports whether bytes are a public key.
func answerPoint(v fs.FS) (any, error) {
	key, err := fs.ReadFile(v, "input")
	return okAnswer{crypto.CheckPublicKey(key) == nil}, err
}

// signers are the keys of a case.
type signers struct {
	Keys   []crypto.PublicKey `json:"keys"`
	Origin string             `json:"origin"` // of checkpoints and proofs
}

// readSigners reads the file keys.json, whose keys must be keys.
func readSigners(v fs.FS) (s signers, err error) {
	if err := readJSON(v, "keys.json", &s); err != nil {
		return signers{}, err
	}
	for _, k := range s.Keys {
		if err := crypto.CheckPublicKey(k); err != nil {
			return signers{}, err
		}
	}
	return s, nil
}

// answerEnvelope reports whether an envelope, of an entry or presented by a caller, is well formed
// and signed by one of the keys.
func answerEnvelope(v fs.FS) (any, error) {
	s, err := readSigners(v)
	if err != nil {
		return nil, err
	}
	e, err := fs.ReadFile(v, "input")
	if err != nil {
		return nil, err
	}
	return okAnswer{envelopeHolds(e, s.Keys)}, nil
}

func envelopeHolds(e []byte, keys []crypto.PublicKey) bool {
	var r contracts.Reader
	sealed, err := r.Open(e)
	if err != nil {
		return false
	}
	if id, ok := sealed.Key(); !ok || id != sealed.KeyID {
		return false
	}
	signed := false
	for _, k := range keys {
		signed = signed || crypto.KeyID(k) == sealed.KeyID &&
			crypto.Verify(k, crypto.AppendPAE(nil, contracts.PayloadType, sealed.Payload), sealed.Sig)
	}
	return signed && predicateHolds(sealed)
}

// predicateHolds is the check RECORD.
func predicateHolds(s *contracts.Sealed) bool {
	var err error
	switch s.Kind {
	case contracts.KindApproval:
		_, err = s.Approval()
	case contracts.KindAttestation:
		_, err = s.Attestation()
	case contracts.KindDelegation:
		_, err = s.Delegation()
	case contracts.KindBundle:
		_, err = s.Bundle()
	case contracts.KindManifest:
		_, err = s.Manifest()
	default:
		_, err = s.Statement()
	}
	return err == nil
}

// answerCheckpoint reports whether a checkpoint is of the origin, and its first line a signature by
// one of the keys.
func answerCheckpoint(v fs.FS) (any, error) {
	s, err := readSigners(v)
	if err != nil {
		return nil, err
	}
	b, err := fs.ReadFile(v, "input")
	if err != nil {
		return nil, err
	}
	_, ok := checkpointBy(b, s)
	return okAnswer{ok}, nil
}

func checkpointBy(b []byte, s signers) (proofgraph.Checkpoint, bool) {
	c, lines, err := proofgraph.ParseCheckpoint(b)
	if err != nil || c.Origin != s.Origin {
		return proofgraph.Checkpoint{}, false
	}
	for _, k := range s.Keys {
		if c.SignedBy(lines[0], k) {
			return c, true
		}
	}
	return proofgraph.Checkpoint{}, false
}

type trustAnswer struct {
	Event *int   `json:"event,omitempty"`
	Check string `json:"check,omitempty"`
	State string `json:"state,omitempty"`
}

// A trustLine is a line of events.jsonl.
type trustLine struct {
	Envelope json.RawMessage `json:"envelope"`
	Index    uint64          `json:"index"`
}

// answerTrust returns the digest of the state after all events, or which event is refused by which
// check.
func answerTrust(v fs.FS) (any, error) {
	var log struct {
		Origin string `json:"origin"`
	}
	if err := readJSON(v, "log.json", &log); err != nil {
		return nil, err
	}
	state, err := readState(v, "state.json")
	if err != nil {
		return nil, err
	}
	lines, err := readLines(v, "events.jsonl")
	if err != nil {
		return nil, err
	}
	for i, line := range lines {
		var g trustLine
		if err := decodeStrict(line, &g); err != nil {
			return nil, err
		}
		event, err := contracts.ParseTrust(contracts.Envelope(g.Envelope))
		if err != nil {
			return trustAnswer{Event: &i, Check: "RECORD"}, nil
		}
		state, err = state.Apply(event, log.Origin, g.Index)
		if err != nil {
			return trustAnswer{Event: &i, Check: "TRUST"}, nil
		}
	}
	return trustAnswer{State: state.Digest().String()}, nil
}

func readState(v fs.FS, name string) (*registry.State, error) {
	b, err := fs.ReadFile(v, name)
	if err != nil {
		return nil, err
	}
	return registry.ParseState(b)
}

// readLines returns the lines of a file without their ends.
func readLines(v fs.FS, name string) (lines [][]byte, err error) {
	b, err := fs.ReadFile(v, name)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		lines = append(lines, bytes.TrimSuffix(line, []byte("\n")))
	}
	return lines, nil
}

type policyAnswer struct {
	Hash    string  `json:"policyHash,omitempty"`
	Pointer *string `json:"pointer,omitempty"`
}

// answerPolicy returns the hash of a stack, or where its fault is.
func answerPolicy(v fs.FS) (any, error) {
	p, err := readStack(v)
	var fault *guardian.LoadError
	switch {
	case errors.As(err, &fault):
		return policyAnswer{Pointer: &fault.Pointer}, nil
	case err != nil:
		return nil, err
	}
	return policyAnswer{Hash: p.Hash().String()}, nil
}

// readStack compiles the documents of a case: 1.json, 2.json and so on, in the order of the stack.
func readStack(v fs.FS) (*guardian.Policy, error) {
	var docs []contracts.Document
	for n := 1; ; n++ {
		name := fmt.Sprint(n, ".json")
		b, err := fs.ReadFile(v, name)
		if errors.Is(err, fs.ErrNotExist) && n > 1 {
			return guardian.Compile(docs...)
		}
		if err != nil {
			return nil, err
		}
		var tree crypto.Tree
		if err := tree.Parse(b, crypto.Limits{Bytes: len(b), Depth: crypto.MaxDepth, Object: true}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		docs = append(docs, contracts.Document{Name: name, Canonical: tree.Root().Append(nil)})
	}
}

type verdictAnswer struct {
	Condition int                  `json:"condition"`
	Hash      contracts.Digest     `json:"policyDecisionHash"`
	Reason    contracts.ReasonCode `json:"reason"`
	Rule      string               `json:"rule,omitempty"`
	Verdict   string               `json:"verdict"`
}

// answerVerdicts judges every line of inputs.
func answerVerdicts(v fs.FS) (any, error) {
	p, err := readStack(v)
	if err != nil {
		return nil, err
	}
	state, err := readState(v, "trust.json")
	if err != nil {
		return nil, err
	}
	lines, err := readLines(v, "inputs.jsonl")
	if err != nil {
		return nil, err
	}
	list := []verdictAnswer{}
	for i, line := range lines {
		in, err := contracts.ParseInputs(line)
		if err != nil {
			return nil, fmt.Errorf("inputs.jsonl:%d: %w", i+1, err)
		}
		d, _ := p.Judge(*in, state)
		d.Seal(in.Session, 1, crypto.Sum(line)) // the hash of a verdict is not of its place
		list = append(list, verdictAnswer{int(d.Condition), d.PolicyDecisionHash, d.Reason, d.Rule, d.Verdict.String()})
	}
	return list, nil
}

type packAnswer struct {
	Level   string      `json:"level"`
	History string      `json:"history,omitempty"`
	Signer  string      `json:"signer,omitempty"`
	Check   string      `json:"check,omitempty"`
	Entry   *int64      `json:"entry,omitempty"`
	Replay  *packReplay `json:"replay,omitempty"`
}

type packReplay struct {
	KernelsOwn    uint64 `json:"kernelsOwn"`
	NotReplayable uint64 `json:"notReplayable"`
	Replayed      uint64 `json:"replayed"`
	Unseen        uint64 `json:"unseen"`
}

// packOptions are what the verifier of a pack knows.
type packOptions struct {
	Key    crypto.PublicKey `json:"key,omitempty"`    // that signed genesis
	Last   bool             `json:"last,omitempty"`   // the file last is a checkpoint that was seen
	Origin string           `json:"origin,omitempty"` // none: any
	Trust  bool             `json:"trust,omitempty"`  // the file trust.json is the initial state
}

// answerPack verifies a pack with replay. An INVALID pack has no more than the check, and the entry
// if it is of one. A fault of a blob is of no entry here: more than one may name it.
func answerPack(v fs.FS) (any, error) {
	var x packOptions
	if err := readJSON(v, "options.json", &x); err != nil {
		return nil, err
	}
	o := evidence.Options{Kernel: x.Key, Origin: x.Origin}
	var err error
	if x.Trust {
		if o.Trust, err = readState(v, "trust.json"); err != nil {
			return nil, err
		}
	}
	if x.Last {
		if o.Last, err = fs.ReadFile(v, "last"); err != nil {
			return nil, err
		}
	}
	pack, err := fs.ReadFile(v, "pack.tar")
	if err != nil {
		return nil, err
	}
	r, err := evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)), o)
	if f := r.Fault; f != nil {
		a := packAnswer{Level: r.Level.String(), Check: f.Check.Error()}
		if f.Entry >= 0 && !errors.Is(f.Check, evidence.ErrBlob) {
			a.Entry = &f.Entry
		}
		return a, nil
	}
	return packAnswer{
		Level: r.Level.String(), History: r.History.String(), Signer: r.Signer.String(),
		Replay: &packReplay{r.Replay.KernelsOwn, r.Replay.NotReplayable, r.Replay.Replayed, r.Replay.Unseen},
	}, err
}
