package registry

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// maxDocument bounds a policy document to the size of a blob.
const maxDocument = 64 << 20

// OpenBundle verifies that a P1 document is the bundle that a publisher signed, with a key of the
// state that is not revoked, and returns a copy of the document. It checks that the document is of
// layer P1 and in canonical form, and that its bundle has the signed name and version.
//
// So an old bundle cannot come back under a new number. The state does not know which versions were
// in force before. The log does: a kernel that has a log refuses a document whose version goes
// back.
func OpenBundle(s *State, e contracts.Envelope, doc contracts.Document) (contracts.Document, error) {
	doc.Canonical, doc.Lines = bytes.Clone(doc.Canonical), maps.Clone(doc.Lines)
	if err := s.bundle(e, doc.Canonical); err != nil {
		return contracts.Document{}, fmt.Errorf("registry: bundle %q: %w", doc.Name, err)
	}
	return doc, nil
}

func (s *State) bundle(e contracts.Envelope, doc []byte) error {
	sealed, _, err := s.open(e, Publisher)
	if err != nil {
		return err
	}
	b, err := sealed.Bundle()
	if err != nil {
		return err
	}
	if crypto.Sum(doc) != b.Digest {
		return errors.New("digest: another document was signed, or another edition of it: documents are signed in " +
			"canonical form")
	}
	var tree crypto.Tree
	err = tree.Parse(doc, crypto.Limits{Bytes: maxDocument, Depth: contracts.MaxRecordDepth, Object: true})
	if err != nil {
		return err
	}
	root := tree.Root()
	name, version := root.Get("bundle").Get("name"), root.Get("bundle").Get("version")
	n, isNumber := version.Uint()
	switch {
	case !tree.Canonical():
		return errors.New("the document is not in canonical form")
	case root.Get("layer").Text() != "P1":
		return errors.New("layer: not P1: only bundles are published; other layers are the host's own")
	case name.Text() != b.Name:
		return errors.New("bundle.name: not the one that was signed")
	case !isNumber || n != b.Version:
		return errors.New("bundle.version: not the one that was signed")
	}
	return nil
}
