//go:build unix

package interop

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	fmtlog "github.com/transparency-dev/formats/log"
	fmtnote "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// A leafLog is a log by package tlog, of so many numbered entries.
type leafLog []tlog.Hash

func leaves(t *testing.T, n int) leafLog {
	t.Helper()
	var l leafLog
	for i := range n {
		more, err := tlog.StoredHashes(int64(i), fmt.Append(nil, "entry ", i), l)
		require.NoError(t, err)
		l = append(l, more...)
	}
	return l
}

func (l leafLog) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, i := range indexes {
		out = append(out, l[i])
	}
	return out, nil
}

func (l leafLog) Consistency(_ context.Context, from, to uint64) (ds []contracts.Digest, err error) {
	hashes, err := tlog.ProveTree(int64(to), int64(from), l)
	for _, h := range hashes {
		ds = append(ds, contracts.Digest(h))
	}
	return ds, err
}

func (l leafLog) note(t *testing.T, n int, key crypto.PrivateKey) []byte {
	t.Helper()
	root, err := tlog.TreeHash(int64(n), l)
	require.NoError(t, err)
	pub, err := crypto.PublicOf(key)
	require.NoError(t, err)
	v, err := note.NewVerifier(proofgraph.VerifierKey(origin, pub))
	require.NoError(t, err)
	b, err := note.Sign(&note.Note{Text: fmt.Sprintf("%s\n%d\n%s\n", origin, n, root)}, keySigner{v, key})
	require.NoError(t, err)
	return b
}

type keySigner struct {
	note.Verifier
	key crypto.PrivateKey
}

func (s keySigner) Sign(msg []byte) ([]byte, error) { return crypto.Sign(s.key, msg) }

// A theirs is a witness that is built of the parts of transparency.dev: checkpoint parser,
// consistency proof, cosigner.
type theirs struct {
	log    note.Verifier
	signer *fmtnote.Signer

	mu   sync.Mutex
	size uint64
	root []byte
}

func (w *theirs) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	head, text, _ := bytes.Cut(b, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	var old uint64
	if _, err := fmt.Sscanf(lines[0], "old %d", &old); err != nil {
		rw.WriteHeader(http.StatusBadRequest)
		return
	}
	c, _, n, err := fmtlog.ParseCheckpoint(text, origin, w.log)
	if err != nil {
		rw.WriteHeader(http.StatusForbidden)
		return
	}
	if old != w.size {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintln(rw, w.size)
		return
	}
	var hashes [][]byte
	for _, l := range lines[1:] {
		h, err := tlog.ParseHash(l)
		if err != nil {
			panic(err)
		}
		hashes = append(hashes, h[:])
	}
	if old > 0 {
		if err := proof.VerifyConsistency(rfc6962.DefaultHasher, old, c.Size, hashes, w.root, c.Hash); err != nil {
			rw.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
	}
	w.size, w.root = c.Size, c.Hash
	n.UnverifiedSigs = nil
	signed, err := note.Sign(n, w.signer)
	if err != nil {
		panic(err)
	}
	_, all, _ := bytes.Cut(signed, []byte("\n\n"))
	for _, l := range strings.SplitAfter(string(all), "\n") {
		if strings.HasPrefix(l, "— "+w.signer.Name()+" ") {
			fmt.Fprint(rw, l)
		}
	}
}

// TestWitnesses: a witness of the parts of transparency.dev and one of ours cosign a log through
// our client, and their tooling verifies the lines of both, each under the key that its witness
// names.
func TestWitnesses(t *testing.T) {
	logKey, err := crypto.GenerateKey()
	require.NoError(t, err)
	pub, err := crypto.PublicOf(logKey)
	require.NoError(t, err)
	logVkey := proofgraph.VerifierKey(origin, pub)
	logVerifier, err := note.NewVerifier(logVkey)
	require.NoError(t, err)

	skey, vkey, err := note.GenerateKey(rand.Reader, "witness.example/theirs")
	require.NoError(t, err)
	signer, err := fmtnote.NewSignerForCosignatureV1(skey)
	require.NoError(t, err)
	theirVkey, err := fmtnote.VKeyToCosignatureV1(vkey)
	require.NoError(t, err)
	theirServer := httptest.NewServer(&theirs{log: logVerifier, signer: signer})
	defer theirServer.Close()

	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	state, err := httpwitness.DirState(t.TempDir())
	require.NoError(t, err)
	w := &witness.Witness{Name: "witness.example/ours", Key: key, State: state,
		Logs: func(string) []string { return []string{logVkey} }}
	ourVkey, err := w.VerifierKey()
	require.NoError(t, err)
	ourServer := httptest.NewServer(httpwitness.Handler(w))
	defer ourServer.Close()

	var verifiers []note.Verifier
	for _, k := range []string{theirVkey, ourVkey} {
		v, err := fmtnote.NewVerifierForCosignatureV1(k)
		require.NoError(t, err)
		verifiers = append(verifiers, v)
	}
	policy, err := httpwitness.ParsePolicy(fmt.Appendf(nil, "log %s\nwitness theirs %s %s\nwitness ours %s %s\n"+
		"group both all theirs ours\nquorum both\n", logVkey, theirVkey, theirServer.URL, ourVkey, ourServer.URL))
	require.NoError(t, err)
	var client httpwitness.Client
	l := leaves(t, 60)
	for _, n := range []int{1, 2, 7, 7, 8, 33, 60} {
		c, _, err := proofgraph.ParseCheckpoint(l.note(t, n, logKey))
		require.NoError(t, err)
		if n == 33 {
			client = httpwitness.Client{} // has forgotten how far the witnesses are
		}
		cosigned, err := client.Cosign(t.Context(), l, c, policy)
		require.NoError(t, err, "%d", n)
		_, _, opened, err := fmtlog.ParseCheckpoint(cosigned, origin, logVerifier, verifiers...)
		require.NoError(t, err)
		require.Len(t, opened.Sigs, 3, "%s", cosigned)
		require.Empty(t, opened.UnverifiedSigs)
		for _, s := range opened.Sigs[1:] {
			at, err := fmtnote.CoSigV1Timestamp(s)
			require.NoError(t, err)
			require.Greater(t, at.Year(), 2024)
		}
	}
}
