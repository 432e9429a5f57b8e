package auth

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/roundtrip"
)

// A Scope is something that the holder of a token may do.
type Scope string

// Scopes. What a token may not read does not exist for it.
const (
	Call    Scope = "call"     // ask for calls of tools
	User    Scope = "user"     // say what the user's own words are
	Read    Scope = "read"     // receipts and graph of the own tenant; without one, of the own caller
	ReadAll Scope = "read:all" // those of everybody, verification and policy
	Inputs  Scope = "inputs"   // arguments, outputs and packs
	Approve Scope = "approve"  // requests for approval of the own tenant
	Admin   Scope = "admin"    // close sessions, govern, checkpoint
)

var scopes = []Scope{Call, User, Read, ReadAll, Inputs, Approve, Admin}

// prefix begins each token, so that one is known when it must not be passed on.
const prefix = "helm_"

// A Token is an entry of a file of tokens. The token itself is in no file.
type Token struct {
	Name    string
	Hash    crypto.Digest // of the whole token, prefix included
	Caller  contracts.Caller
	Scopes  []Scope
	Expires time.Time // zero: never
}

// NewToken returns a new token, to be shown once, and its entry.
func NewToken(name string, c contracts.Caller, s []Scope, expires time.Time) (secret string, t Token, err error) {
	var b [32]byte
	rand.Read(b[:])
	secret = prefix + base64.RawURLEncoding.EncodeToString(b[:])
	t = Token{name, crypto.Sum([]byte(secret)), c, s, expires}
	return secret, t, t.check()
}

// IsToken reports whether a header's value, or a word of it, has the form of a token of HELM. Such
// a value is never passed on.
func IsToken(value string) bool {
	for _, word := range strings.Fields(value) {
		if len(word) >= len(prefix) && strings.EqualFold(word[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

func (t *Token) check() error {
	switch {
	case !contracts.IsID(t.Name):
		return fmt.Errorf("a token's name is 1 to 64 letters, digits, and . _ -: not %q", t.Name)
	case t.Caller.ID == "":
		return fmt.Errorf("token %s: its caller has no id", t.Name)
	case !word(t.Caller.ID, contracts.MaxCallerID) || !word(t.Caller.Tenant, contracts.MaxCallerID):
		return fmt.Errorf("token %s: id and tenant are words of up to %d bytes, without control characters", t.Name,
			contracts.MaxCallerID)
	case len(t.Caller.Roles) > contracts.MaxRoles || slices.ContainsFunc(t.Caller.Roles, notRole):
		return fmt.Errorf("token %s: up to %d roles, each a word of up to %d bytes", t.Name, contracts.MaxRoles,
			contracts.MaxRole)
	case len(t.Scopes) == 0:
		return fmt.Errorf("token %s: no scopes; there are %s", t.Name, join(scopes))
	}
	for i, s := range t.Scopes {
		if !slices.Contains(scopes, s) || slices.Contains(t.Scopes[:i], s) {
			return fmt.Errorf("token %s: scope %q is none, or there twice; there are %s", t.Name, s, join(scopes))
		}
	}
	return nil
}

// word reports whether s can stand in a record: else every call of the caller would be denied.
func word(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func notRole(s string) bool { return s == "" || !word(s, contracts.MaxRole) }

func join(list []Scope) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(s))
	}
	return b.String()
}

// entry is a Token in the file.
type entry struct {
	Name    string  `json:"name"`
	SHA256  string  `json:"sha256"`
	Caller  caller  `json:"caller"`
	Scopes  []Scope `json:"scopes"`
	Expires string  `json:"expires,omitempty"`
}

type caller struct {
	ID     string   `json:"id"`
	Tenant string   `json:"tenant,omitempty"`
	Roles  []string `json:"roles,omitempty"`
}

const maxTokens = 4 << 20 // bytes of a file

var errForm = errors.New(`want [{"name", "sha256", "caller": {"id", "tenant", "roles"}, "scopes": […], "expires"}], ` +
	`where tenant, roles and expires may be left out`)

// ParseTokens reads a file of tokens: strict JSON, in which no name and no token is there twice.
func ParseTokens(b []byte) ([]Token, error) {
	var tree crypto.Tree
	if err := tree.Parse(b, crypto.Limits{Bytes: maxTokens, Depth: 8}); err != nil {
		return nil, err
	}
	var list []entry
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil || !roundtrip.Encodes(list, tree.Root().Append(nil)) {
		return nil, errForm // encoding/json takes a name in other letter case
	}
	tokens := make([]Token, len(list))
	names, hashes := map[string]bool{}, map[crypto.Digest]bool{}
	for i, e := range list {
		c := contracts.Caller{ID: e.Caller.ID, Tenant: e.Caller.Tenant, Roles: e.Caller.Roles}
		t := Token{Name: e.Name, Caller: c, Scopes: e.Scopes}
		var err error
		if t.Hash, err = crypto.ParseDigest(e.SHA256); err != nil {
			return nil, fmt.Errorf("token %d: sha256: %w", i, err)
		}
		if e.Expires != "" {
			t.Expires, err = time.Parse(time.RFC3339, e.Expires)
			if year := t.Expires.UTC().Year(); err != nil || year < 1970 || year > 9998 {
				return nil, fmt.Errorf("token %d: expires: no time such as 2027-01-31T00:00:00Z", i)
			}
		}
		if err := t.check(); err != nil {
			return nil, err
		}
		if names[t.Name] || hashes[t.Hash] {
			return nil, fmt.Errorf("token %s: its name, or the token, is there twice", t.Name)
		}
		names[t.Name], hashes[t.Hash], tokens[i] = true, true, t
	}
	return tokens, nil
}

// FormatTokens returns the file of tokens, which ends in a line end.
func FormatTokens(list []Token) []byte {
	entries := make([]entry, len(list))
	for i, t := range list {
		entries[i] = entry{t.Name, t.Hash.String(), caller{t.Caller.ID, t.Caller.Tenant, t.Caller.Roles}, t.Scopes, ""}
		if !t.Expires.IsZero() {
			entries[i].Expires = t.Expires.UTC().Format(time.RFC3339)
		}
	}
	b, _ := json.MarshalIndent(entries, "", "  ")
	return append(b, '\n')
}
