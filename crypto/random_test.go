package crypto

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadRandom(t *testing.T) {
	var a, b [16]byte
	for _, to := range [][]byte{a[:], b[:]} {
		if err := ReadRandom(nil, to); err != nil {
			t.Fatal(err)
		}
	}
	if a == b || a == [16]byte{} {
		t.Errorf("%x and %x are not random", a, b)
	}
	if err := ReadRandom(iotest.OneByteReader(strings.NewReader("0123456789abcdefg")), a[:]); err != nil || string(a[:]) != "0123456789abcdef" {
		t.Errorf("%q, %v", a, err)
	}
	cause := errors.New("no entropy")
	if err := ReadRandom(iotest.ErrReader(cause), a[:]); !errors.Is(err, cause) {
		t.Error(err)
	}
	if err := ReadRandom(bytes.NewReader(make([]byte, 15)), a[:]); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error("too little:", err)
	}
	if err := ReadRandom(panicReader{}, a[:]); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error("a panic:", err)
	}
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("a secret") }
