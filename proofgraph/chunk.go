package proofgraph

import "bytes"

// A chunk is free memory that many slices are kept in, so that the garbage collector has less to
// scan. The zero chunk is empty.
type chunk []byte

const chunkSize = 64 << 10

// alone reports whether a slice of n bytes is kept by itself.
func alone(n int) bool { return n > chunkSize/8 }

// keep returns a copy of b.
func (c *chunk) keep(b []byte) []byte {
	if alone(len(b)) {
		return bytes.Clone(b)
	}
	if len(b) > cap(*c)-len(*c) {
		*c = make([]byte, 0, chunkSize)
	}
	start := len(*c)
	*c = append(*c, b...)
	return (*c)[start:len(*c):len(*c)]
}
