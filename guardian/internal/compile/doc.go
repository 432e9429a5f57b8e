// Package compile makes the program of a policy from its documents.
//
// A document is read in two steps: its head, which says what it is, and then the rest, when the
// tools that it speaks of are known. A reader refuses what it cannot read and leaves it out, so
// that one pass finds the first error of the document, and an error causes no others.
package compile
