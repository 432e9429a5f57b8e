// Package forge makes logs and packs for the tests of evidence, and falsifies them.
//
// A [Maker] writes a log from fixed keys, nonces and a fixed clock, through the packages that a
// kernel is made of. The forger, a [Model], is a pack in pieces: it knows the formats by their JSON
// alone, and imports nothing of the code under test, so it can change one thing in a pack and make
// all else right again.
//
// The tests of this package run the tamper catalogue, the claims of docs/THREAT_MODEL.md, the
// properties and the second implementation of the formats against package evidence, through its
// exported API.
package forge
