// Package interop holds HELM to what others made for the same standards, in tests alone: its packs
// are opened with archive/tar, its checkpoints with the tooling of transparency.dev for C2SP
// tlog-checkpoint, its trees and proofs computed again by their RFC 6962, its entries verified by
// the DSSE of secure-systems-lab and read as statements by in-toto's own types, and its JSON
// canonicalised by two other implementations of RFC 8785. What is compared comes from kernels that
// ran: see [newOffice] in office_test.go.
//
// Each tool must also refuse: what a flipped bit or another spelling makes of the same bytes. Where
// one takes what HELM does not, the test says what, and that it means the same. It is a module of
// its own, so that nobody who imports HELM gets these into his build list:
//
//	cd interop && GOWORK=off go test ./...
package interop
