// Package interop compares HELM with other implementations of the same standards, in tests alone.
// Its packs are opened with archive/tar, its checkpoints with the tooling of transparency.dev for
// C2SP tlog-checkpoint, its trees and proofs are computed again by their RFC 6962, its entries
// verified by the DSSE of secure-systems-lab and read as statements by in-toto's own types, and its
// JSON canonicalised by two other implementations of RFC 8785. The packs come from kernels that
// ran: see [newOffice] in office_test.go. Its witness cosigns a log of Tessera, and a witness made
// of the parts of transparency.dev cosigns a log of HELM.
//
// Each tool must also refuse the same bytes with a flipped bit or in another spelling. If one
// accepts a spelling that HELM refuses, the test says which, and that it means the same. It is a
// module of its own, so that users of HELM do not get these modules into their build list:
//
//	cd interop && GOWORK=off go test ./...
package interop
