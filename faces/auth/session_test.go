package auth

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

var (
	nobody = helm.Caller{}
	ann    = helm.Caller{ID: "ann", Tenant: "t"}
	bob    = helm.Caller{ID: "bob", Tenant: "t"}
)

// TestSessionName: names are legal, the same each time, and never those of another caller.
func TestSessionName(t *testing.T) {
	t.Parallel()
	anns := owner(ann)
	assert.Len(t, anns, 13)
	// SHA-256 of {"id":"ann","tenant":"t"}, and of the names, by sha256sum.
	assert.Equal(t, "74055a60475f/", anns)
	for name, want := range map[string]string{
		"chat-1":                    anns + "chat-1",
		anns + "chat-1":             anns + "chat-1",
		owner(bob) + "chat-1":       anns + owner(bob) + "chat-1",
		"anonymous/chat-1":          anns + "anonymous/chat-1",
		"":                          anns + "h-e3b0c44298fc1c149afbf4c8996fb924",
		anns:                        anns + "h-e3b0c44298fc1c149afbf4c8996fb924",
		"a b":                       anns + "h-c8687a08aa5d6ed2044328fa6a697ab8",
		"main":                      anns + "main",
		strings.Repeat("x", 128):    anns + "h-24da1b81d0b16df6428eee73c69fcb2a",
		strings.Repeat("x", 128-13): anns + strings.Repeat("x", 128-13),
		"@helm":                     anns + "@helm",
		"é":                         anns + "h-4a99557e4033c3539de2eb65472017ca",
	} {
		got := SessionName(ann, name)
		assert.Equal(t, want, got, "%q", name)
		assert.True(t, contracts.IsSession(got), got)
		assert.Equal(t, got, SessionName(ann, got), "a name that was given back")
		assert.NotEqual(t, got, SessionName(bob, got))
		assert.NotEqual(t, got, SessionName(nobody, name))
	}
	assert.Equal(t, "anonymous/a", SessionName(nobody, "a"))
	assert.Equal(t, "anonymous/a", SessionName(nobody, "anonymous/a"))
	assert.NotEqual(t, owner(helm.Caller{ID: "a", Tenant: "b"}), owner(helm.Caller{ID: "b", Tenant: "a"}))
	assert.NotEqual(t, owner(helm.Caller{Tenant: "t"}), owner(nobody), "of a tenant, but nobody")
	assert.Equal(t, owner(ann), owner(helm.Caller{ID: "ann", Tenant: "t", Roles: []string{"boss"}}))
}

func FuzzSessionName(f *testing.F) {
	f.Add("ann", "t", "bob", "t", "chat-1")
	f.Add("", "", "ann", "", "anonymous/x")
	f.Add("a", "b", "b", "a", "@")
	f.Fuzz(func(t *testing.T, id, tenant, id2, tenant2, name string) {
		c, d := helm.Caller{ID: id, Tenant: tenant}, helm.Caller{ID: id2, Tenant: tenant2}
		mine := SessionName(c, name)
		if !contracts.IsSession(mine) || SessionName(c, mine) != mine {
			t.Fatalf("%q of %+v", mine, c)
		}
		if owner(c) != owner(d) && (strings.HasPrefix(mine, owner(d)) || SessionName(d, mine) == mine) {
			t.Fatalf("%+v joins %+v by %q", d, c, name)
		}
	})
}

// TestSession: a header or the body names the session, and two that differ are refused.
func TestSession(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		a, err := New(Options{SessionRequired: required})
		require.NoError(t, err)
		for _, x := range []struct {
			given   string
			headers []string
			want    string
			err     error
			always  bool
		}{
			{given: "", headers: []string{"Helm-Session", "a"}, want: "a"},
			{given: "a", headers: []string{"Helm-Session", "a"}, want: "a"},
			{given: owner(ann) + "a", headers: []string{"Helm-Session", "a"}, want: "a"},
			{given: "b", headers: []string{"Helm-Session", "a"}, err: ErrTwoSessions},
			{given: "b", want: "b"},
			{headers: []string{"session_id", "c", "X-Claude-Code-Session-Id", "d"}, want: "d"},
			{headers: []string{"session-id", "c", "Session_id", "d"}, want: "c"},
			{headers: []string{"X-Session", "c"}, err: ErrNoSession},
			{headers: []string{"Helm-Session", ""}, err: ErrNoSession, always: true},
			{headers: []string{"Helm-Session", "", "session-id", "c"}, err: ErrNoSession, always: true},
		} {
			r := httptest.NewRequest("POST", "/", nil)
			set(x.headers...)(r)
			r = r.WithContext(context.WithValue(r.Context(), key{}, Identity{Caller: ann}))
			got, err := a.Session(r, x.given)
			switch {
			case x.err == ErrNoSession && !required && !x.always:
				require.NoError(t, err)
				again, _ := a.Session(r, x.given)
				assert.Regexp(t, "^"+owner(ann)+"p-[a-z2-7]{26}$", got)
				assert.NotEqual(t, again, got)
			case x.err != nil:
				assert.ErrorIs(t, err, x.err)
				assert.Empty(t, got)
			default:
				assert.Equal(t, owner(ann)+x.want, got, "%+v", x)
			}
		}
	}
}
