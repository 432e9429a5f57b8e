package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// makeLog makes a log in the directory log, by the key in key.pem and the policy in pay.yaml: one
// call that is allowed and one that is denied. It writes the trust state to trust.json and the
// public key to public.hex, and to cosigned the checkpoint with the line of a witness, w.example.
func makeLog() {
	if err := writeLog(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func writeLog() error {
	f, err := os.Open("key.pem")
	if err != nil {
		return err
	}
	defer f.Close()
	key, err := crypto.LoadKey(f)
	if err != nil {
		return err
	}
	p, err := policy.Load("pay.yaml")
	if err != nil {
		return err
	}
	store, err := filestore.Open("log", filestore.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	day := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	pay := func(context.Context, json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`"paid"`), nil }
	k, err := helm.New(helm.Options{Policy: p, Key: key, Origin: "example.org/pay", Store: store,
		Keep: helm.Keep{Outputs: true}, Now: func() time.Time { return day },
		Drivers: map[string]helm.Driver{"pay": helm.Func(pay)}})
	if err != nil {
		return err
	}
	defer k.Close()
	for _, sum := range []string{"5", "5000"} {
		k.Guard(context.Background(), helm.Intent{Tool: "pay", Args: []byte(`{"sum":` + sum + `}`), Session: "s",
			Caller: helm.Caller{ID: "ann"}})
	}
	note, err := k.Checkpoint(context.Background())
	if err != nil {
		return err
	}
	public, err := crypto.PublicOf(key)
	if err != nil {
		return err
	}
	for name, b := range map[string][]byte{"trust.json": k.Trust().Canonical(), "checkpoint": note.Note,
		"public.hex": fmt.Appendf(nil, "%x", public), "cosigned": cosigned(note.Note, "w.example")} {
		if err := os.WriteFile(name, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// cosigned returns the checkpoint with the line of a witness (C2SP tlog-cosignature), whose key
// follows from its name, and with no line of the log.
func cosigned(mark []byte, name string) []byte {
	text, _, _ := bytes.Cut(mark, []byte("\n\n"))
	seed := sha256.Sum256([]byte(name))
	key := ed25519.NewKeyFromSeed(seed[:])
	hash := sha256.Sum256(append([]byte(name+"\n\x04"), key.Public().(ed25519.PublicKey)...))
	const at = 1790000060
	line := binary.BigEndian.AppendUint64(hash[:4:4], at)
	line = append(line, ed25519.Sign(key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, text))...)
	return fmt.Appendf(nil, "%s\n\n\u2014 %s %s\n", text, name, base64.StdEncoding.EncodeToString(line))
}

// makeRequest writes a request for an approval to request.json, as hosts hand it over, and to
// other.json with other arguments, and to spelt.json with a member that there is not.
func makeRequest() {
	for name, x := range map[string]struct {
		args string
		more any
	}{"request.json": {`{"sum":5000}`, nil}, "other.json": {`{"sum":5001}`, nil}, "spelt.json": {`{"sum":5000}`, 1}} {
		f, err := os.Create(name)
		check(err)
		check(writeRequest(f, x.args, x.more))
		check(f.Close())
	}
}

// writeRequest writes a request for {"sum":5000}, and arguments.
func writeRequest(w io.Writer, args string, more any) error {
	r := contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte(`{"sum":5000}`)), Caller: contracts.Caller{ID: "ann"},
		Expires: 1 << 42, Nonce: strings.Repeat("0a", 16), Quorum: 1, Roles: []string{"owner"},
		Session: "s", Tool: "pay"}
	return json.NewEncoder(w).Encode(struct {
		Request contracts.ApprovalRequest `json:"request"`
		Args    json.RawMessage           `json:"args"`
		More    any                       `json:"more,omitempty"`
	}{r, json.RawMessage(args), more})
}

// kernelOver returns what makes a denied call in a session, by a kernel over a log in a directory,
// and what closes it.
func kernelOver(t *testing.T, dir string, key crypto.PrivateKey) (call func(session string), end func()) {
	t.Helper()
	p, err := policy.Parse("none.yaml", []byte("helm: policy/v1\nlayer: P1\nbundle: {name: none, version: 1}\n"+
		"tools: {a: {effect: read, input: {type: object, properties: {}, additionalProperties: false}}}\nrules: []\n"))
	require.NoError(t, err)
	none, err := guardian.Compile(p)
	require.NoError(t, err)
	store, err := filestore.Open(dir, filestore.Options{})
	require.NoError(t, err)
	k, err := helm.New(helm.Options{Policy: none, Key: key, Origin: "example.org/none", Store: store})
	require.NoError(t, err)
	return func(session string) {
			for range 2 {
				k.Guard(context.Background(), helm.Intent{Tool: "pay", Args: []byte("{}"), Session: session})
			}
		}, func() {
			assert.NoError(t, k.Close())
			assert.NoError(t, store.Close())
		}
}
