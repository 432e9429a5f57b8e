// Package source holds what the sources of one session supplied, and finds values in it. A source
// is the user, with their own words, or a fact that a tool declares, with its values.
//
// Two values are equal if their canonical forms are: same type, same text. Nothing is folded or
// normalised. A value is found in a text by the rules of [Texts.Has]: byte for byte, where both
// sides are free.
//
// A source has an allowance. What would exceed it, and everything later, is no source: a value that
// only that has is not found, which is always the stricter answer.
package source
