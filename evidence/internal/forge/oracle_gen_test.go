package forge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/evidence/internal/entry"
	"github.com/helmkernel/helm/internal/race"
)

// genPack is what the second implementation generates, with its inputs, but for what this version
// refuses by name: the message, facts, and what inputs say of sources, labels and taint. Its
// policies are another engine's, so no verdict is made again, and all else is compared.
func genPack(o *oracle) (*Model, []byte) {
	o.Helper()
	whole := filepath.Join(o.dir, "gen.tar")
	if said, status := o.run("gen", whole); status != 0 {
		o.Fatal(said)
	}
	pack, err := os.ReadFile(whole)
	require.NoError(o, err)
	m := TakeApart(o.T, pack)
	m.origin, m.logBy = m.Nodes[0].Text("origin"), seedGL
	for _, n := range m.Nodes {
		if n.Kind() == "message" {
			delete(m.Blobs, n.Text("textHash"))
			m.remove(n)
			break
		}
	}
	var found string
	for _, n := range m.Nodes {
		if facts := n.Text("factsHash"); facts != "" {
			delete(m.Blobs, facts)
			delete(n.P(), "factsHash")
			m.Build()
			found = n.hash
		}
	}
	read := 0
	for _, n := range m.Nodes {
		if box, ok := n.P()["sandbox"].(Object); ok { // which the driver must have declared
			m.inputs(n.decision,
				func(in Object) { in["sandbox"] = Object{"module": box["module"], "profile": box["profile"]} })
		}
		if n.D() == nil {
			continue
		}
		if n.D()["approvals"] != nil {
			approved(m, n)
		}
		m.inputs(n, func(in Object) {
			s := in["state"].(Object)
			for _, k := range []string{"from", "labels", "tainted"} {
				delete(s, k)
			}
			if list := listOf(s, "receipts"); list != nil {
				delete(list[0], "facts")
				list[0]["entry"] = found
			}
			read += len(listOf(s, "receipts")) + len(listOf(s, "calls"))
		})
	}
	if read < 4 {
		o.Fatalf("%d things were read of the past", read)
	}
	m.retrust() // an entry less, and keys are there since another index
	return m, m.Build()
}

// approved puts whole approvals in the place of those that have but a nonce.
func approved(m *Model, n *Node) {
	digest, err := crypto.ParseDigest([]byte(n.D()["argsHash"].(string)))
	require.NoError(m, err)
	r := contracts.ApprovalRequest{ArgsHash: digest, Caller: Reader, Expires: Start, Nonce: strings.Repeat("0d", 16),
		Quorum: 2, Roles: []string{"lead"}, Session: n.Text("session"), Tool: "mail.send"}
	var list []any
	names := map[string]bool{}
	for _, seed := range []byte{SeedA, seedA2} {
		e, err := r.Approve(Key(m, seed))
		require.NoError(m, err)
		list, names[crypto.Sum(e).String()] = append(list, parseObject(m, e)), true
	}
	n.D()["approvals"] = sortedAny(names)
	m.inputs(n, func(in Object) { in["envelopes"].(Object)["approvals"] = list })
}

// TestOracleGen: both implementations find the same in that pack, and refuse it with the same check
// whatever the second one spoils.
func TestOracleGen(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if testing.Short() {
		t.Skip("-short: the oracle's mutations take ten seconds; without it they run")
	}
	o := newOracle(t, "packs which it makes (TestTamper has its own)")
	m, pack := genPack(o)
	pin := fmt.Sprintf("%x", Public(t, seedG1))
	theirs := o.verify(pack, "-key", pin)
	options := evidence.Options{Kernel: Public(t, seedG1), Origin: m.origin}
	r, err := verifyBytes(t, pack, options)
	if err != nil || !r.Success(0) || !theirs.Success || theirs.MerkleRoot != r.MerkleRoot.String() ||
		theirs.ProofGraphHash != r.ProofGraphHash.String() || len(r.Replay.Engines) != 1 {
		t.Fatalf("ours   %+v, %v\ntheirs %+v", r, err, theirs)
	}
	// Documents of another engine are not read: what tools declare in them is unknown here.
	unread := strings.Fields("effect-missing-though-declared effect-though-not-declared effect-other-than-declared " +
		"risk-other-than-declared")
	// Of what was taken out there is nothing to spoil.
	idle := strings.Fields(`message-in-the-kernel-chain message-in-refused message-text-hash-alone
		message-text-hash facts-hash facts-dropped
		inputs-labels-order inputs-source-order inputs-source-of-facts inputs-source-of-the-user condense-a-message`)
	refused, later := 0, 0
	var passed, nothing []string
	for x := range o.spoil(pack, nil, seedG1, seedG2) {
		if x.pack == nil {
			nothing = append(nothing, x.name)
			continue
		}
		_, err := verifyBytes(t, x.pack, options)
		var e *evidence.Error
		switch {
		case err == nil:
			passed = append(passed, x.name)
		case errors.As(err, &e) && e.Check.Error() == x.check:
			refused++
		case strings.HasSuffix(err.Error(), entry.Unsupported): // gaps and condense entries
			later++
		default:
			t.Errorf("%s: %v; want %s", x.name, err, x.check)
		}
	}
	t.Logf("%d mutations refused, %d more by name", refused, later)
	assert.True(t, slices.Equal(passed, unread), "the mutations that pass: %v", passed)
	assert.True(t, slices.Equal(nothing, idle), "the mutations that find nothing: %v", nothing)
	if refused < 380 || later > 35 {
		t.Errorf("only %d mutations were refused, and %d by name", refused, later)
	}
}
