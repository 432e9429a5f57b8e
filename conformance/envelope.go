package conformance

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The signed form is that of FORMATS.md: a DSSE envelope of an in-toto statement, of a kind of its
// own.
const (
	kind          = "conformance"
	statementType = "https://in-toto.io/Statement/v1"
	predicateType = "https://github.com/helmkernel/helm/" + kind + "/v1"
	maxReport     = 4 << 20 // bytes
)

// statement returns the canonical statement that the key of that ID signs.
func (r *Report) statement(id contracts.Digest) []byte {
	b := []byte(`{"_type":"` + statementType + `","predicate":`)
	b = r.append(b, &id)
	b = append(b, `,"predicateType":"`+predicateType+`","subject":[{"digest":{"sha256":"`...)
	b = append(b, crypto.Sum(r.append(nil, nil)).String()...)
	return append(b, `"},"name":"`+kind+`"}]}`...)
}

// append appends the canonical predicate. The subject of the statement is computed without key.
func (r *Report) append(b []byte, key *contracts.Digest) []byte {
	b = append(b, `{"gates":[`...)
	for i := range r.Gates {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.Gates[i].append(b)
	}
	b = appendMember(b, `],"implementation":{"digest":`, r.Implementation.Digest.String())
	b = appendMember(b, `,"name":`, r.Implementation.Name)
	b = appendMember(b, `,"version":`, r.Implementation.Version)
	b = append(b, '}')
	if key != nil {
		b = appendMember(b, `,"key":`, key.String())
	}
	if r.Level != "" {
		b = appendMember(b, `,"level":`, string(r.Level))
	}
	b = appendMember(b, `,"time":`, r.Time.String())
	b = appendMember(b, `,"vectors":`, r.Vectors.String())
	return append(b, '}')
}

func (g *Gate) append(b []byte) []byte {
	failed := make([]string, len(g.Failed))
	for i, f := range g.Failed {
		failed[i] = f.Case
	}
	b = appendTexts(append(b, `{"cases":`...), g.Cases)
	b = appendTexts(append(b, `,"failed":`...), failed)
	b = appendMember(b, `,"gate":`, g.Name)
	b = appendMember(b, `,"result":`, string(g.Result))
	if g.Why != "" {
		b = appendMember(b, `,"why":`, g.Why)
	}
	return append(b, '}')
}

// appendMember appends what is before a text, and the text.
func appendMember(b []byte, before, text string) []byte {
	return crypto.AppendString(append(b, before...), text)
}

func appendTexts(b []byte, list []string) []byte {
	b = append(b, '[')
	for i, text := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = crypto.AppendString(b, text)
	}
	return append(b, ']')
}

// Open reads a signed report. One of keys must have signed it: the caller knows whose runs they
// believe. A report that the gates contradict is refused, also if its signature is good.
func Open(e contracts.Envelope, keys ...crypto.PublicKey) (Report, error) {
	r, err := open(e, keys)
	if err != nil {
		return Report{}, fmt.Errorf("conformance: %w", err)
	}
	return r, nil
}

func open(e contracts.Envelope, keys []crypto.PublicKey) (r Report, err error) {
	if len(keys) == 0 {
		return r, errors.New("no key was given: name the keys whose reports you believe")
	}
	var envelope, payload crypto.Tree
	if err = envelope.Parse(e, crypto.Limits{Bytes: maxReport, Depth: crypto.MaxDepth, Object: true}); err != nil {
		return r, fmt.Errorf("envelope: %w", err)
	}
	root := envelope.Root()
	text, err := crypto.DecodeBase64(nil, []byte(root.Get("payload").Text()))
	if err != nil {
		return r, fmt.Errorf("envelope: payload: %w", err)
	}
	signature := root.Get("signatures").At(0)
	sig, err := crypto.DecodeBase64(nil, []byte(signature.Get("sig").Text()))
	if err != nil {
		return r, fmt.Errorf("envelope: signature: %w", err)
	}
	id, err := crypto.ParseDigest(signature.Get("keyid").Text())
	if err != nil {
		return r, fmt.Errorf("envelope: key: %w", err)
	}
	if !bytes.Equal(e, crypto.AppendEnvelope(nil, contracts.PayloadType, text, id, sig)) {
		return r, errors.New("envelope: not the canonical form of a statement with one signature")
	}
	if err = verify(text, id, sig, keys); err != nil {
		return r, err
	}
	if err = payload.Parse(text, crypto.Limits{Bytes: maxReport, Depth: crypto.MaxDepth, Object: true}); err != nil {
		return r, fmt.Errorf("statement: %w", err)
	}
	if r, err = read(payload.Root().Get("predicate")); err != nil {
		return Report{}, fmt.Errorf("report: %w", err)
	}
	if !bytes.Equal(text, r.statement(id)) {
		return Report{}, errors.New("statement: not the canonical form of a report that this key signed")
	}
	if err = r.check(); err != nil {
		return Report{}, fmt.Errorf("report: %w", err)
	}
	r.Envelope = bytes.Clone(e)
	return r, nil
}

// verify returns an error unless one of the keys has that ID and signed the payload.
func verify(payload []byte, id contracts.Digest, sig []byte, keys []crypto.PublicKey) error {
	for _, key := range keys {
		if crypto.CheckPublicKey(key) != nil || crypto.KeyID(key) != id {
			continue
		}
		if crypto.Verify(key, crypto.AppendPAE(nil, contracts.PayloadType, payload), sig) {
			return nil
		}
		return fmt.Errorf("signature: not by key %s", id)
	}
	return fmt.Errorf("signature: key %s is none of those that were given", id)
}

// read reads a predicate. What it does not notice is found when the statement is written again.
func read(v crypto.Value) (r Report, err error) {
	for g := range v.Get("gates").Elements() {
		gate := Gate{Name: g.Get("gate").Text(), Result: Result(g.Get("result").Text()), Why: g.Get("why").Text()}
		for c := range g.Get("cases").Elements() {
			gate.Cases = append(gate.Cases, c.Text())
		}
		for c := range g.Get("failed").Elements() {
			gate.Failed = append(gate.Failed, Failure{Case: c.Text()})
		}
		r.Gates = append(r.Gates, gate)
	}
	i := v.Get("implementation")
	r.Implementation.Name, r.Implementation.Version = i.Get("name").Text(), i.Get("version").Text()
	if r.Implementation.Digest, err = crypto.ParseDigest(i.Get("digest").Text()); err != nil {
		return r, fmt.Errorf("implementation.digest: %w", err)
	}
	r.Level = Level(v.Get("level").Text())
	if r.Time, err = contracts.ParseTime(v.Get("time").Text()); err != nil {
		return r, fmt.Errorf("time: %w", err)
	}
	if r.Vectors, err = crypto.ParseDigest(v.Get("vectors").Text()); err != nil {
		return r, fmt.Errorf("vectors: %w", err)
	}
	return r, nil
}
