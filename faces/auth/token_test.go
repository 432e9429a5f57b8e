package auth

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
)

// TestToken: a new token is of its form, another each time, and not in its entry.
func TestToken(t *testing.T) {
	t.Parallel()
	secret, entry := token(t, "one", "ann", Call, User)
	other, _ := token(t, "one", "ann", Call, User)
	assert.Regexp(t, `^helm_[A-Za-z0-9_-]{43}$`, secret)
	assert.NotEqual(t, secret, other)
	file := FormatTokens([]Token{entry})
	assert.NotContains(t, string(file), secret[5:])
	assert.True(t, IsToken(secret) && IsToken("Bearer "+secret) && IsToken("HELM_x") && !IsToken("helm") && !IsToken("sk-helm_"))
	for name, make := range map[string]func() error{
		"no name":       func() error { _, _, err := NewToken("", ann, []Scope{Call}, time.Time{}); return err },
		"no caller":     func() error { _, _, err := NewToken("a", helm.Caller{}, []Scope{Call}, time.Time{}); return err },
		"no scope":      func() error { _, _, err := NewToken("a", ann, nil, time.Time{}); return err },
		"unknown scope": func() error { _, _, err := NewToken("a", ann, []Scope{"root"}, time.Time{}); return err },
		"scope twice":   func() error { _, _, err := NewToken("a", ann, []Scope{Call, Call}, time.Time{}); return err },
	} {
		assert.Error(t, make(), name)
	}
}

const goodFile = `[{"name":"a","sha256":"` + zeros + `","caller":{"id":"ann"},"scopes":["call"]}]`

const zeros = "0000000000000000000000000000000000000000000000000000000000000000"

// TestParseTokens: a file says exactly who a token stands for, or nothing.
func TestParseTokens(t *testing.T) {
	t.Parallel()
	list, err := ParseTokens([]byte(goodFile))
	require.NoError(t, err)
	assert.Equal(t, "ann", list[0].Caller.ID)
	for name, change := range map[string][2]string{
		"another letter case":    {`"caller"`, `"Caller"`},
		"of a member inside":     {`"id"`, `"ID"`},
		"a name twice":           {`"name":"a"`, `"name":"a","name":"b"`},
		"an unknown member":      {`"name":"a"`, `"name":"a","role":"admin"`},
		"no caller":              {`"caller":{"id":"ann"},`, ``},
		"a caller without an id": {`{"id":"ann"}`, `{}`},
		"null for the caller":    {`{"id":"ann"}`, `null`},
		"a long id":              {`{"id":"ann"}`, `{"id":"` + strings.Repeat("a", 257) + `"}`},
		"a line end in an id":    {`{"id":"ann"}`, `{"id":"a\nb"}`},
		"a role without a name":  {`{"id":"ann"}`, `{"id":"ann","roles":[""]}`},
		"no hash":                {zeros, ""},
		"a short hash":           {zeros, zeros[1:]},
		"a hash in capitals":     {zeros, "A" + zeros[1:]},
		"no scopes":              {`["call"]`, `[]`},
		"a scope that is none":   {`["call"]`, `["all"]`},
		"an end that is none":    {`]}]`, `],"expires":"tomorrow"}]`},
		"the zero time":          {`]}]`, `],"expires":"0001-01-01T00:00:00Z"}]`},
		"a year of five digits":  {`]}]`, `],"expires":"9999-12-31T23:59:59-01:00"}]`},
		"a secret for its hash":  {zeros, "helm_" + strings.Repeat("a", 43)},
		"more behind it":         {`]}]`, `]}] []`},
		"no list":                {goodFile, `{}`},
		"a token twice":          {`]}]`, `]},{"name":"b","sha256":"` + zeros + `","caller":{"id":"bob"},"scopes":["call"]}]`},
		"a token's name twice":   {`]}]`, `]},{"name":"a","sha256":"1` + zeros[1:] + `","caller":{"id":"bob"},"scopes":["call"]}]`},
	} {
		require.Contains(t, goodFile, change[0], name)
		_, err := ParseTokens([]byte(strings.Replace(goodFile, change[0], change[1], 1)))
		assert.Error(t, err, name)
	}
}

func FuzzParseTokens(f *testing.F) {
	f.Add([]byte(goodFile))
	f.Add([]byte(`[]`))
	f.Add([]byte(strings.Replace(goodFile, "]}]", `],"expires":"9999-12-31T23:59:59-01:00"}]`, 1)))
	f.Add([]byte(`[{"name":"a","sha256":"` + zeros + `","caller":{"id":"a","tenant":"t","roles":["r"]},"scopes":["call","user"],"expires":"2027-01-31T00:00:00+01:00"}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ParseTokens(b)
		if err != nil {
			return
		}
		file := FormatTokens(list)
		again, err := ParseTokens(file)
		if err != nil || !bytes.Equal(file, FormatTokens(again)) {
			t.Fatalf("%s\n%s\n%v", b, file, err)
		}
	})
}
