package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// The approver is another process of this program, which is the test binary in tests.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "approve" {
		os.Exit(start(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// One call runs, and every other is denied, for its own reason.
func TestApprovals(t *testing.T) {
	var out, errs bytes.Buffer
	t.Setenv("TMPDIR", t.TempDir())
	if status := start(context.Background(), nil, strings.NewReader(""), &out, &errs); status != 0 {
		t.Fatalf("%d: %s", status, errs.String())
	}
	answer := regexp.MustCompile(`(?m)^(ALLOW|DENY)  (\{|[A-Z_]+).*\nreceipt ([A-Z]+), entry [0-9]+ of the log$`)
	var answers []string
	for _, m := range answer.FindAllStringSubmatch(out.String(), -1) {
		answers = append(answers, m[1]+" "+m[2]+" "+m[3])
	}
	assert.Equal(t, []string{
		"DENY APPROVAL_REQUIRED DENIED", "DENY APPROVAL_INVALID DENIED", "ALLOW { EXECUTED",
		"DENY APPROVAL_INVALID DENIED",
	}, answers, out.String())
	for _, s := range []string{`"roles": [`, `"quorum": 1`, `"amount": 900`, `"from": "current"`,
		`{"paid":{"amount":900,"from":"current","to":"landlord"}}`,
		"level LOGGED, signer TRUSTED: 7 entries, 4 verdicts replayed"} {
		assert.Contains(t, out.String(), s, "nothing says %s\n", s)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	assert.True(t, err == nil && len(left) == 0, "left behind: %v %v", left, err)
}

// Ann signs nothing that she was not shown.
func TestApproverLooks(t *testing.T) {
	_, keyFile, err := hire(t.TempDir())
	require.NoError(t, err)
	shown := func(args string) (string, error) {
		q, err := json.Marshal(question{contracts.ApprovalRequest{ArgsHash: crypto.Sum([]byte(`{"amount":1}`)),
			Nonce: strings.Repeat("0", 32), Quorum: 1, Session: "s", Tool: "t"}, json.RawMessage(args)})
		require.NoError(t, err)
		var out bytes.Buffer
		err = approve(keyFile, bytes.NewReader(q), &out)
		return out.String(), err
	}
	e, err := shown(`{ "amount": 1 }`)
	require.True(t, err == nil && strings.Contains(e, "payload"), "%q %v", e, err)
	for _, args := range []string{`{"amount":2}`, `{}`, `null`, `{"amount":1,"amount":1}`} {
		e, err := shown(args)
		assert.True(t, err != nil && e == "", "%s: signed %q", args, e)
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-x"}, {"approve"}, {"approve", "a", "b"}} {
		var out, errs bytes.Buffer
		if status := start(context.Background(), args, strings.NewReader(""), &out, &errs); status != 2 ||
			!strings.Contains(errs.String(), "Usage") || out.Len() > 0 {
			t.Errorf("%v: %d %s", args, status, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if status := start(context.Background(), []string{"approve", "/nowhere"}, strings.NewReader("{}"), &out,
		&errs); status != 1 || out.Len() > 0 {
		t.Errorf("no key: %d %s", status, errs.String())
	}
}
