package crypto

import (
	"encoding/binary"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSpecial tries every pair of bytes at every place of a word, among bytes that are plain and
// bytes that borrow: the lowest byte found is the first that is special.
func TestSpecial(t *testing.T) {
	t.Parallel()
	isSpecial := func(c byte) bool { return c == '"' || c == '\\' || c < 0x20 || c >= 0x80 }
	for _, fill := range []byte{'a', ' ', '!', '#', '[', ']', 0x7f} {
		for pair := range 1 << 16 {
			for at := range 7 {
				word := [8]byte{fill, fill, fill, fill, fill, fill, fill, fill}
				word[at], word[at+1] = byte(pair), byte(pair>>8)
				want := 8
				for i := 7; i >= 0; i-- {
					if isSpecial(word[i]) {
						want = i
					}
				}
				got := bits.TrailingZeros64(special(binary.LittleEndian.Uint64(word[:]))) >> 3
				if got != want { // three million times, so without require
					t.Fatalf("%q: found at %d, want %d", word, got, want)
				}
			}
		}
	}
}

// TestSpecialAtEveryOffset puts each byte at each place of strings of each length, so that words
// and the bytes after the last one meet it.
func TestSpecialAtEveryOffset(t *testing.T) {
	t.Parallel()
	var tree Tree
	for size := 1; size < 20; size++ {
		for at := range size {
			for c := range 256 {
				src := []byte(`"abcdefghijklmnopqrst`[:size+1] + `"`)
				src[1+at] = byte(c)
				want := c >= 0x20 && c < 0x80 && c != '"' && c != '\\'
				err := tree.Parse(src, otherLimits)
				if c == '"' && at == size-1 || c == '\\' {
					continue // ends the string, or starts an escape with the next byte
				}
				require.Equal(t, want, err == nil, "%q: %v", src, err)
				if err == nil && string(tree.Root().Bytes()) != string(src[1:len(src)-1]) {
					t.Fatalf("%q: %q", src, tree.Root().Bytes())
				}
			}
		}
	}
}

// TestUpper tries every pair of ASCII bytes, and the zeros that a short key ends with.
func TestUpper(t *testing.T) {
	t.Parallel()
	for pair := range 1 << 14 {
		for _, fill := range []byte{0, 'z', '@', '['} {
			word := [8]byte{fill, fill, byte(pair & 0x7f), byte(pair >> 7), fill, fill, fill, fill}
			var want, low uint64
			for i, c := range word {
				if c >= 'A' && c <= 'Z' {
					want |= 0x80 << (8 * i)
					c |= 0x20
				}
				low |= uint64(c) << (8 * i)
			}
			w := binary.LittleEndian.Uint64(word[:])
			if got := upper(w); got != want {
				t.Fatalf("%q: %016x, want %016x", word, got, want)
			}
			if got := lowered(w); got != low {
				t.Fatalf("%q: %016x, want %016x", word, got, low)
			}
		}
	}
}

func TestHex(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		want := rune(-1)
		switch {
		case c >= '0' && c <= '9':
			want = rune(c - '0')
		case c >= 'a' && c <= 'f':
			want = rune(c - 'a' + 10)
		case c >= 'A' && c <= 'F':
			want = rune(c - 'A' + 10)
		}
		assert.Equal(t, want, unhex(byte(c)), "%q", c)
		for at := range 4 {
			b := []byte("0000")
			b[at] = byte(c)
			four := rune(-1)
			if want >= 0 {
				four = want << (4 * (3 - at))
			}
			if got := hex4(b); got != four {
				t.Errorf("%q: %x", b, got)
			}
		}
	}
	assert.True(t, hex4([]byte("000")) == -1 && hex4([]byte("1234567")) == 0x1234,
		"four digits, no fewer, and no more are looked at")
}
