package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// A question goes to an approver: the request, and the arguments whose hash is in it. They are not
// those that the agent sent: the tool's schema has filled a default in.
type question struct {
	Request contracts.ApprovalRequest `json:"request"`
	Args    json.RawMessage           `json:"args"`
}

// ask has the approver's process answer.
func ask(ctx context.Context, keyFile string, q []byte) (contracts.Envelope, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, program, "approve", keyFile)
	c.Stdin, c.Stderr = bytes.NewReader(q), os.Stderr
	answer, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("the approver: %w", err)
	}
	return answer, nil
}

// approve is the approver. They must see the arguments before they sign their hash, so the
// arguments are checked first; then a person looks.
func approve(keyFile string, in io.Reader, out io.Writer) error {
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	key, err := crypto.LoadKey(bytes.NewReader(text))
	if err != nil {
		return err
	}
	var q question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return err
	}
	if err := q.Request.About(q.Args); err != nil {
		return err
	}
	sign := q.Request.Approve // or Refuse, which ends this request
	answer, err := sign(key)
	if err != nil {
		return err
	}
	_, err = out.Write(answer)
	return err
}
