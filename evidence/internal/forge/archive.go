package forge

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The archive as the forger knows it: blocks of 512 bytes, and three members before the blobs.
const (
	TarBlock     = 512
	ManifestAt   = 0
	CheckpointAt = 1
	EntriesAt    = 2
)

// A Member is one of the archive.
type Member struct {
	Name string
	Body []byte
	Head func(h []byte) // changes the header; its checksum follows
	Late func(h []byte) // changes it after that
	Pad  byte
}

// Untar splits an archive that is right.
func Untar(t testing.TB, b []byte) (out []Member) {
	t.Helper()
	for b[0] != 0 {
		name, _, _ := strings.Cut(string(b[:100]), "\x00")
		size, err := strconv.ParseInt(string(b[124:135]), 8, 64)
		require.NoError(t, err, "the pack to be falsified is no archive")
		out = append(out, Member{Name: name, Body: bytes.Clone(b[TarBlock : TarBlock+size])})
		b = b[TarBlock+(size+TarBlock-1)/TarBlock*TarBlock:]
	}
	return out
}

// TarOf writes an archive by hand.
func TarOf(ms []Member) []byte {
	var out []byte
	for _, x := range ms {
		h := make([]byte, TarBlock)
		copy(h, x.Name)
		copy(h[100:], "0000644\x000000000\x000000000\x00")
		copy(h[124:], fmt.Sprintf("%011o\x0000000000000\x00", len(x.Body)))
		h[156] = '0'
		copy(h[257:], "ustar\x0000")
		copy(h[329:], "0000000\x000000000\x00")
		if x.Head != nil {
			x.Head(h)
		}
		copy(h[148:], "        ")
		sum := 0
		for _, c := range h {
			sum += int(c)
		}
		copy(h[148:], fmt.Sprintf("%06o\x00 ", sum))
		if x.Late != nil {
			x.Late(h)
		}
		out = append(append(out, h...), x.Body...)
		for len(out)%TarBlock != 0 {
			out = append(out, x.Pad)
		}
	}
	return append(out, make([]byte, 2*TarBlock)...)
}
