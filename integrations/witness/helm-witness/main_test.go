//go:build unix

package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
)

// begun is a witness that was made, and a log that it is told of.
type begun struct {
	dir, logs, vkey string
	log             *proofgraph.Log
}

const (
	name   = "witness.example.com/w1"
	origin = "example.com/log"
)

func newBegun(t *testing.T) *begun {
	t.Helper()
	b := &begun{dir: filepath.Join(t.TempDir(), "state"), logs: filepath.Join(t.TempDir(), "logs")}
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-dir", b.dir, "-name", name, "-new"}, &out))
	b.vkey = strings.TrimSuffix(out.String(), "\n")
	require.True(t, strings.HasPrefix(b.vkey, name+"+"), out.String())

	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	public, err := crypto.PublicOf(key)
	require.NoError(t, err)
	b.log, err = proofgraph.Open(t.Context(), proofgraph.NewMemory(), proofgraph.Options{Origin: origin, Key: key,
		LogKey: key, Trust: []byte(`{}`)}, nil)
	require.NoError(t, err)
	vkeys := "# logs\n\n" + proofgraph.VerifierKey(origin, public) + "\n"
	require.NoError(t, os.WriteFile(b.logs, []byte(vkeys), 0o600))
	return b
}

// serving runs the witness until stop is called, and returns the line that it prints.
func (b *begun) serving(t *testing.T) (line string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := run(ctx, []string{"-dir", b.dir, "-name", name, "-logs", b.logs, "-listen", "127.0.0.1:0"}, w)
		w.CloseWithError(io.ErrUnexpectedEOF)
		ended <- err
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	return line, func() { cancel(); require.NoError(t, <-ended) }
}

type noProof struct{ *testing.T }

func (p noProof) Consistency(context.Context, uint64, uint64) ([]contracts.Digest, error) {
	p.Error("a log of one entry needs no proof")
	return nil, nil
}

// TestWitness: the line that it prints stands in a policy by which a log gets its cosignature; and
// when it begins again it has the same key, and knows what it cosigned.
func TestWitness(t *testing.T) {
	t.Parallel()
	b := newBegun(t)
	cp, err := b.log.Checkpoint(t.Context())
	require.NoError(t, err)
	for _, status := range []int{http.StatusOK, http.StatusConflict} {
		line, stop := b.serving(t)
		policy, err := httpwitness.ParsePolicy([]byte(line + "quorum w1\n"))
		require.NoError(t, err)
		require.Equal(t, []string{b.vkey}, policy.Keys())
		r, err := http.Post(policy.Witnesses[0].URL+"/add-checkpoint", "", strings.NewReader("old 0\n\n"+string(cp.Note)))
		require.NoError(t, err)
		r.Body.Close()
		require.Equal(t, status, r.StatusCode)
		note, err := new(httpwitness.Client).Cosign(t.Context(), noProof{t}, cp, policy)
		require.NoError(t, err)
		_, lines, err := proofgraph.ParseCheckpoint(note)
		require.NoError(t, err)
		require.True(t, len(lines) == 2 && lines[1].Name == name, "%s", note)
		r, err = http.Get(policy.Witnesses[0].URL + "/key.pem/checkpoint")
		require.NoError(t, err)
		r.Body.Close()
		require.Equal(t, http.StatusNotFound, r.StatusCode)
		stop()
	}
}

// TestRefused: a key never gets an empty directory, and what is not there is not made.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBegun(t)
	key, err := os.ReadFile(keyFile(b.dir))
	require.NoError(t, err)
	missing := filepath.Join(t.TempDir(), "missing")
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, []byte("# "+origin+"\n"+b.vkey+"\n"), 0o600))
	none := filepath.Join(t.TempDir(), "none")
	require.NoError(t, os.WriteFile(none, []byte("# none\n"), 0o600))
	for what, c := range map[string]struct {
		args []string
		want string
	}{
		"the directory is there": {[]string{"-dir", b.dir, "-name", name, "-new"}, "exists"},
		"a name that is none":    {[]string{"-dir", missing, "-name", "a b", "-new"}, "Name is not the name of a key"},
		"no directory":           {[]string{"-dir", missing, "-name", name, "-logs", b.logs}, "no such file"},
		"no logs":                {[]string{"-dir", b.dir, "-name", name}, "-logs is needed"},
		"both":                   {[]string{"-dir", missing, "-name", name, "-logs", b.logs, "-new"}, "not both"},
		"no log":                 {[]string{"-dir", b.dir, "-name", name, "-logs", none}, "-logs: no verifier key"},
		"a witness as a log":     {[]string{"-dir", b.dir, "-name", name, "-logs", bad}, "-logs: line 2: not the verifier key"},
		"no name":                {[]string{"-dir", b.dir, "-logs", b.logs}, "are needed"},
		"an argument":            {[]string{"-dir", b.dir, "-name", name, "x"}, "nothing else"},
	} {
		require.ErrorContains(t, run(t.Context(), c.args, io.Discard), c.want, what)
	}
	now, err := os.ReadFile(keyFile(b.dir))
	require.NoError(t, err)
	require.Equal(t, string(key), string(now))
	_, err = os.Stat(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.Remove(keyFile(b.dir)))
	require.ErrorIs(t, run(t.Context(), []string{"-dir", b.dir, "-name", name, "-logs", b.logs}, io.Discard),
		os.ErrNotExist)
}
