package crypto

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestReadRandom(t *testing.T) {
	t.Parallel()
	var a, b [16]byte
	for _, to := range [][]byte{a[:], b[:]} {
		require.NoError(t, ReadRandom(nil, to))
	}
	assert.True(t, a != b && a != [16]byte{}, "%x and %x are not random", a, b)
	err := ReadRandom(iotest.OneByteReader(strings.NewReader("0123456789abcdefg")), a[:])
	assert.True(t, err == nil && string(a[:]) == "0123456789abcdef", "%q, %v", a, err)
	cause := errors.New("no entropy")
	assert.ErrorIs(t, ReadRandom(iotest.ErrReader(cause), a[:]), cause)
	assert.ErrorIs(t, ReadRandom(bytes.NewReader(make([]byte, 15)), a[:]), io.ErrUnexpectedEOF, "too little")
	err = ReadRandom(panicReader{}, a[:])
	assert.True(t, err != nil && !strings.Contains(err.Error(), "secret"), "a panic: %v", err)
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("a secret") }
