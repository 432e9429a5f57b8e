package helm_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/policy"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// A tool vendor publishes bundles, and signs each version. The host opens them by the publisher's
// key before it puts them into force. An edited one is refused, and so is an old one.
func ExampleKernel_OpenBundle() {
	key, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	vendor, err := crypto.GenerateKey()
	if err != nil {
		log.Fatal(err)
	}
	public, err := crypto.PublicOf(vendor)
	if err != nil {
		log.Fatal(err)
	}
	trust, err := registry.New(0, registry.Key{Name: "mail vendor", Public: public, Role: registry.Publisher})
	if err != nil {
		log.Fatal(err)
	}

	// The vendor signs the document's digest, with the bundle's name and version.
	publish := func(version uint64) (contracts.Document, contracts.Envelope) {
		doc, err := policy.Parse("mail.yaml",
			[]byte(strings.Replace(mailPolicy, "version: 1", fmt.Sprint("version: ", version), 1)))
		if err != nil {
			log.Fatal(err)
		}
		signed, err := contracts.Bundle{Name: "mail", Version: version, Digest: crypto.Sum(doc.Canonical)}.Sign(vendor)
		if err != nil {
			log.Fatal(err)
		}
		return doc, signed
	}

	doc, _ := publish(1)
	pol, err := guardian.Compile(doc) // the one that came with the program
	if err != nil {
		log.Fatal(err)
	}
	k, err := helm.New(helm.Options{Policy: pol, Key: key, Store: proofgraph.NewMemory(), Trust: trust})
	if err != nil {
		log.Fatal(err)
	}
	defer k.Close()
	receive := func(signed contracts.Envelope, doc contracts.Document) error {
		opened, err := k.OpenBundle(signed, doc)
		if err != nil {
			return err
		}
		next, err := guardian.Compile(opened)
		if err != nil {
			return err
		}
		return k.Swap(context.Background(), next)
	}
	second, signed := publish(2)
	fmt.Println(receive(signed, second))
	edited := second
	edited.Canonical = []byte(strings.Replace(string(second.Canonical), "corp.example", "evil.example", 1))
	err = receive(signed, edited)
	fmt.Println(strings.Replace(err.Error(), "of it: ", "of it:\n", 1))
	first, signed := publish(1)
	fmt.Println(receive(signed, first))
	// Output:
	// <nil>
	// registry: bundle "mail.yaml": digest: another document was signed, or another edition of it:
	// documents are signed in canonical form
	// helm: swap: policy P1 mail: version 1 goes back: the log has had version 2
}
