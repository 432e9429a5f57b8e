// Package state is the form in which a kernel keeps what it holds of a log's first entries, so that
// the next kernel need not read them. It is this implementation's own, and may change with any
// version.
//
// A state is two lines of canonical JSON (RFC 8785), each with a line end. The first is a DSSE
// envelope of payload type application/vnd.helm.state+json, signed by the kernel's key. Its
// payload:
//
//	body        SHA-256 of the second line without its end, in hex
//	checkpoint  a signed note over the root of the first entries: see proofgraph.ParseCheckpoint
//	engine      rules and threat: the versions of what judges
//	last        the hash of the last of these entries, in hex
//	nodes       the roots of the complete subtrees, from left to right, in hex
//	origin      the name of the log
//	version     1
//
// The second line is what the kernel's folds hold. It is not in the payload, because signers that
// are not in memory take no messages of that size. There is no argument, no output, no text and no
// fact in it. There are names of sessions, tools and callers, hashes, times and nonces: all of it
// is in entries of the log too.
//
// Both lines are read as they are written: other bytes that say the same are no state.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// Version is the version of the form.
const Version = 1

// MaxSize is the most bytes that a state may have. A fold that is larger is read again by New.
const MaxSize = 1 << 29

const (
	payloadType = "application/vnd.helm.state+json"
	maxHead     = 1 << 20 // bytes of the first line
)

// A Head is the payload of the envelope.
type Head struct {
	Body       contracts.Digest   `json:"body"`
	Checkpoint string             `json:"checkpoint"`
	Engine     Engine             `json:"engine"`
	Last       contracts.Digest   `json:"last"`
	Nodes      []contracts.Digest `json:"nodes"`
	Origin     string             `json:"origin"`
	Version    int                `json:"version"`
}

// An Engine is a [contracts.Engine].
type Engine struct {
	Rules  uint64 `json:"rules"`
	Threat uint64 `json:"threat"`
}

// Seal returns the state with that head and that body, signed by the key. It sets Body and Version.
func Seal(h Head, body []byte, key crypto.Signer) ([]byte, error) {
	h.Body, h.Version = crypto.Sum(body), Version
	payload, err := Marshal(h)
	if err != nil {
		return nil, err
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return nil, err
	}
	sig, err := crypto.Sign(key, crypto.AppendPAE(nil, payloadType, payload))
	if err != nil {
		return nil, err
	}
	b := crypto.AppendEnvelope(nil, payloadType, payload, crypto.KeyID(public), sig)
	b = append(append(append(b, '\n'), body...), '\n')
	if len(b) > MaxSize {
		return nil, fmt.Errorf("%d bytes, and the most are %d", len(b), MaxSize)
	}
	return b, nil
}

// An envelope is the one of the first line.
type envelope struct {
	Payload    string `json:"payload"`
	Signatures []struct {
		KeyID contracts.Digest `json:"keyid"`
		Sig   string           `json:"sig"`
	} `json:"signatures"`
}

// Open reads a state and verifies that it was signed by that key. It says nothing of the log.
func Open(b []byte, public crypto.PublicKey) (h Head, body []byte, err error) {
	if len(b) > MaxSize {
		return Head{}, nil, fmt.Errorf("%d bytes, and the most are %d", len(b), MaxSize)
	}
	first, rest, _ := bytes.Cut(b, []byte("\n"))
	body, ended := bytes.CutSuffix(rest, []byte("\n"))
	if len(first) > maxHead || !ended {
		return Head{}, nil, errors.New("not two lines")
	}
	payload, err := open(first, public)
	if err != nil {
		return Head{}, nil, err
	}
	if err := Unmarshal(payload, &h); err != nil {
		return Head{}, nil, err
	}
	switch {
	case h.Version != Version:
		return Head{}, nil, fmt.Errorf("version %d, and this is %d", h.Version, Version)
	case h.Body != crypto.Sum(body):
		return Head{}, nil, errors.New("the second line is not the one that was signed")
	}
	return h, body, nil
}

// open returns the payload of an envelope.
func open(line []byte, public crypto.PublicKey) ([]byte, error) {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil || len(e.Signatures) != 1 {
		return nil, errors.New("not an envelope with one signature")
	}
	payload, err := crypto.DecodeBase64(nil, []byte(e.Payload))
	if err != nil {
		return nil, errors.New("not an envelope with one signature")
	}
	sig, err := crypto.DecodeBase64(nil, []byte(e.Signatures[0].Sig))
	if err != nil {
		return nil, errors.New("not an envelope with one signature")
	}
	id := crypto.KeyID(public)
	switch {
	case e.Signatures[0].KeyID != id:
		return nil, errors.New("signed by another key than this kernel's")
	case !bytes.Equal(crypto.AppendEnvelope(nil, payloadType, payload, id, sig), line):
		return nil, errors.New("not the one form of an envelope of a state")
	case !crypto.Verify(public, crypto.AppendPAE(nil, payloadType, payload), sig):
		return nil, errors.New("the signature does not verify")
	}
	return payload, nil
}

// Marshal returns the canonical JSON of a value.
func Marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var tree crypto.Tree
	if err := tree.Parse(b, limits); err != nil {
		return nil, err
	}
	return tree.Root().Append(nil), nil
}

// limits are those of what this package writes.
var limits = crypto.Limits{Bytes: MaxSize, Depth: 16}

// Unmarshal reads canonical JSON into *v. What v does not hold is not refused if its own
// UnmarshalJSON accepts it: marshal v again, and compare.
func Unmarshal(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return errors.New("not the form of a state")
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("not the form of a state")
	}
	again, err := Marshal(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, b) {
		return errors.New("not the one form of a state")
	}
	return nil
}
