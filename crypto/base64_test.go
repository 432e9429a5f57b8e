package crypto

import (
	"bytes"
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/internal/table"
)

func TestBase64(t *testing.T) { // RFC 4648, section 10
	for plain, text := range map[string]string{"": "", "f": "Zg==", "fo": "Zm8=", "foo": "Zm9v", "foob": "Zm9vYg==",
		"fooba": "Zm9vYmE=", "foobar": "Zm9vYmFy", "\xfb\xff": "+/8="} {
		if got := AppendBase64([]byte("x"), []byte(plain)); string(got) != "x"+text {
			t.Errorf("%q is %q", plain, got)
		}
		got, err := DecodeBase64([]byte("x"), []byte(text))
		assert.True(t, err == nil && string(got) == "x"+plain, "%q is %q, %v", text, got, err)
	}
}

// AppendBase64 writes the same as the standard library, at every length and with every twelve bits.
func TestBase64AgainstStandard(t *testing.T) {
	t.Parallel()
	all := make([]byte, 0, 3<<11)
	for i := 0; i < 1<<12; i += 2 {
		all = append(all, byte(i>>4), byte(i<<4|(i+1)>>8), byte(i+1))
	}
	for _, b := range [][]byte{all, all[1:], all[2:], all[3:], all[4:], all[5:]} {
		if got, want := AppendBase64(nil, b), base64.StdEncoding.EncodeToString(b); string(got) != want {
			t.Fatalf("%d bytes differ", len(b))
		}
	}
	for n := range 300 {
		b := all[len(all)-n:]
		if got, want := AppendBase64([]byte("before"), b),
			"before"+base64.StdEncoding.EncodeToString(b); string(got) != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func TestBadBase64(t *testing.T) {
	t.Parallel()
	for name, text := range table.Map[string, string](t, "bad_base64", 16) {
		got, err := DecodeBase64([]byte("x"), []byte(text))
		assert.True(t, err != nil && string(got) == "x", "%s: %q, %v", name, got, err)
	}
}

// TestBase64OneSpelling tries every text of four characters from a small alphabet: a text that
// decodes is the one that is written.
func TestBase64OneSpelling(t *testing.T) {
	t.Parallel()
	const alphabet = "AQghw/+9=\n\r -"
	decoded := 0
	for i := range len(alphabet) * len(alphabet) * len(alphabet) * len(alphabet) {
		text := make([]byte, 4)
		for j := range text {
			text[j] = alphabet[i%len(alphabet)]
			i /= len(alphabet)
		}
		b, err := DecodeBase64(nil, text)
		if err == nil {
			decoded++
			assert.True(t, bytes.Equal(AppendBase64(nil, b), text), "%q is a second spelling", text)
		} else if b, err := base64.StdEncoding.Strict().DecodeString(string(text)); err == nil && len(b) == 3 &&
			!bytes.ContainsAny(text, "\r\n") {
			t.Errorf("%q is refused", text)
		}
	}
	assert.True(t, decoded >= 1000, "%d texts decoded", decoded)
}

func TestBase64DoesNotAllocate(t *testing.T) {
	b := make([]byte, 3000)
	text, back := make([]byte, 0, 4000), make([]byte, 0, 3000)
	if n := testing.AllocsPerRun(20, func() {
		text = AppendBase64(text[:0], b)
		var err error
		if back, err = DecodeBase64(back[:0], text); err != nil || len(back) != len(b) {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
