// Package api is the kernel over HTTP, for programs in any language: calls are asked for and
// settled, approvals given, and the log is read.
//
// New returns the handler. Its paths are those of openapi.json, which it serves itself; tests
// compare the document with the table of paths, and each answer of the tests with the document.
//
// A token of scope read reads what concerns calls of its tenant, or of its caller if that has no
// tenant. All else does not exist for it: no list, count, cursor, graph or error differs by it.
// Arguments and outputs are only in the answers to tokens of scope inputs.
//
// A checkpoint names the size of the whole log, and the places of entries in the log have gaps
// where the entries of others are.
package api
