package helm

import (
	"bytes"
	"testing"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
)

// policyOf compiles one bundle.
func policyOf(t testing.TB, text string) *guardian.Policy {
	t.Helper()
	var tree crypto.Tree
	if err := tree.Parse([]byte(text), crypto.Limits{Bytes: 1 << 20, Depth: 64}); err != nil {
		t.Fatal(err)
	}
	p, err := guardian.Compile(contracts.Document{Canonical: tree.Root().Append(nil)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func keyOf(t testing.TB, seed byte) crypto.PrivateKey {
	t.Helper()
	k, err := crypto.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}
