//go:build unix

package interop

import (
	"bytes"
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
	"github.com/helmkernel/helm/evidence"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

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

// TestWitnesses: a witness of the parts of transparency.dev and one of ours cosign the log of a
// kernel through our client, for which the kernel proves that each checkpoint extends the last one.
// Their tooling verifies the lines of both, each under the key that its witness names. The kernel
// keeps them, and a pack is WITNESSED by both. Another history that was signed with the same key is
// cosigned by neither.
func TestWitnesses(t *testing.T) {
	o := newOffice(t)
	logVkey := proofgraph.VerifierKey(origin, o.public(o.log))

	skey, vkey, err := note.GenerateKey(rand.Reader, "witness.example/theirs")
	require.NoError(t, err)
	signer, err := fmtnote.NewSignerForCosignatureV1(skey)
	require.NoError(t, err)
	theirVkey, err := fmtnote.VKeyToCosignatureV1(vkey)
	require.NoError(t, err)
	theirServer := httptest.NewServer(&theirs{log: o.logVerifier(), signer: signer})
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
	require.NoError(t, o.kernel.Close())
	o.witnesses = policy.Keys()
	o.open()
	client := new(httpwitness.Client)
	for i, calls := range []int{0, 1, 0, 2, 3, 30, 100} {
		for j := range calls {
			o.want(contracts.ReasonToolNotFound, fmt.Sprint("s", j%5), "no.such", `{}`)
		}
		if i == 4 {
			client = new(httpwitness.Client) // does not know how far the witnesses are
		}
		c, err := o.kernel.Checkpoint(t.Context())
		require.NoError(t, err)
		cosigned, err := client.Cosign(t.Context(), o.kernel, c, policy)
		require.NoError(t, err, "%d", c.Size)
		require.NoError(t, o.kernel.Cosigned(t.Context(), cosigned))
		_, _, opened, err := fmtlog.ParseCheckpoint(cosigned, origin, o.logVerifier(), verifiers...)
		require.NoError(t, err)
		require.Len(t, opened.Sigs, 3, "%s", cosigned)
		require.Empty(t, opened.UnverifiedSigs)
		for _, s := range opened.Sigs[1:] {
			at, err := fmtnote.CoSigV1Timestamp(s)
			require.NoError(t, err)
			require.Greater(t, at.Year(), 2024)
		}
	}
	p := o.pack()
	r, err := evidence.Verify(t.Context(), bytes.NewReader(p.raw), int64(len(p.raw)), evidence.Options{
		Kernel: o.public(o.first), Origin: origin, Witnesses: policy.Keys(), Quorum: 2})
	require.NoError(t, err)
	require.True(t, r.Success(evidence.Witnessed) && len(r.Witnesses) == 2, "%s", r)

	fork := newOffice(t)
	for j := range 200 {
		fork.want(contracts.ReasonToolNotFound, "s", "no.such", fmt.Sprint(`{"n":`, j, `}`))
	}
	c, err := fork.kernel.Checkpoint(t.Context())
	require.NoError(t, err)
	for _, client := range []*httpwitness.Client{client, new(httpwitness.Client)} {
		cosigned, err := client.Cosign(t.Context(), fork.kernel, c, policy)
		require.ErrorIs(t, err, httpwitness.ErrQuorum)
		require.ErrorContains(t, err, "0 of 2 that are needed; theirs: status 422; ours: status 422")
		require.Equal(t, string(c.Note), string(cosigned))
	}
}
