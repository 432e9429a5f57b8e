package crypto

import (
	"bytes"
	"errors"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadRandom(t *testing.T) {
	var a, b [16]byte
	for _, to := range [][]byte{a[:], b[:]} {
		require.NoError(t, ReadRandom(nil, to))
	}
	if a == b || a == [16]byte{} {
		t.Errorf("%x and %x are not random", a, b)
	}
	if err := ReadRandom(iotest.OneByteReader(strings.NewReader("0123456789abcdefg")), a[:]); err != nil || string(a[:]) != "0123456789abcdef" {
		t.Errorf("%q, %v", a, err)
	}
	cause := errors.New("no entropy")
	assert.ErrorIs(t, ReadRandom(iotest.ErrReader(cause), a[:]), cause)
	assert.ErrorIs(t, ReadRandom(bytes.NewReader(make([]byte, 15)), a[:]), io.ErrUnexpectedEOF, "too little:")
	if err := ReadRandom(panicReader{}, a[:]); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error("a panic:", err)
	}
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("a secret") }
