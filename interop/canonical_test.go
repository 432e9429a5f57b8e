package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/gowebpki/jcs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
)

var canonicalisers = map[string]func([]byte) ([]byte, error){"gowebpki/jcs": jcs.Transform,
	"cyberphone/json-canonicalization": jsoncanonicalizer.Transform}

// documents are all JSON texts in a pack: the envelopes, their payloads, and blobs.
func documents(t testing.TB, o *office, p pack) (all [][]byte, inputs int) {
	t.Helper()
	v := o.verifier()
	for _, line := range append(slices.Clone(p.entries), p.manifest) {
		payload, _, err := opened(v, line)
		require.NoError(t, err)
		all = append(all, line, payload)
	}
	for name, b := range p.blobs {
		assert.True(t, json.Valid(b), "blob %s is no JSON", name)
		if bytes.Contains(b, []byte(`"drivers":`)) {
			inputs++
		}
		all = append(all, b)
	}
	return all, inputs
}

// TestCanonical: all JSON in a pack is its own canonical form by two other implementations.
func TestCanonical(t *testing.T) {
	o, p := busy(t)
	all, inputs := documents(t, o, p)
	if inputs < 20 || len(all) < 120 {
		t.Errorf("%d documents, %d of them inputs", len(all), inputs)
	}
	for name, transform := range canonicalisers {
		for _, b := range all {
			switch c, err := transform(b); {
			case err != nil:
				t.Errorf("%s: %v: %.300s", name, err, b)
			case !bytes.Equal(b, c):
				t.Errorf("%s: other bytes for %.300s", name, b)
			}
		}
	}
	t.Logf("%d documents, %d of them inputs", len(all), inputs)
}

// spelled returns other spellings of a document that has a member, a string and a number.
func spelled(b []byte) map[string][]byte {
	s := string(b)
	i := strings.IndexByte(s, ':')
	return map[string][]byte{
		"a space":            []byte(s[:i+1] + " " + s[i+1:]),
		"a line feed behind": []byte(s + "\n"),
		// of the first letter of the first name
		"an escape":             fmt.Appendf(nil, `%s\u%04x%s`, s[:2], s[2], s[3:]),
		"a member out of order": []byte(`{"~":0,` + s[1:]),
		"a number":              []byte(`{"":1.0,` + s[1:]),
		"minus 0":               []byte(`{"":-0,` + s[1:]),
	}
}

// TestCanonicalRefused: no other spelling of one is.
func TestCanonicalRefused(t *testing.T) {
	o, p := busy(t)
	all, _ := documents(t, o, p)
	refused := 0
	for _, b := range all {
		if len(b) > 64<<10 || len(b) < 8 || b[0] != '{' || b[1] != '"' || b[2] == '"' {
			continue
		}
		for what, bad := range spelled(b) {
			for name, transform := range canonicalisers {
				if c, err := transform(bad); err == nil && bytes.Equal(bad, c) {
					t.Errorf("%s: %s is canonical: %.300s", name, what, bad)
				}
				refused++
			}
			var tree crypto.Tree
			if err := tree.Parse(bad, crypto.Limits{Bytes: len(bad), Depth: 128}); err == nil && bytes.Equal(bad,
				tree.Root().Append(nil)) {
				t.Errorf("HELM: %s is canonical: %.300s", what, bad)
			}
		}
	}
	if refused < 1000 {
		t.Errorf("%d spellings", refused)
	}
}
