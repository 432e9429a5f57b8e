package witness

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/contain"
	"github.com/helmkernel/helm/internal/cosign"
	"github.com/helmkernel/helm/proofgraph"
)

// A Prover returns RFC 6962 consistency proofs of a log, from one size to a larger one. It is
// called from several goroutines at once.
type Prover interface {
	Consistency(ctx context.Context, from, to uint64) ([]contracts.Digest, error)
}

// A Client asks witnesses to cosign checkpoints. The zero Client may be used. It remembers the size
// that each witness cosigned last. It is safe for concurrent use and must not be copied.
type Client struct {
	HTTP *http.Client // nil: http.DefaultClient; redirects are not followed

	mu    sync.Mutex
	sizes map[string]uint64 // by URL and origin
}

// ErrQuorum is the error of a checkpoint that fewer witnesses cosigned than the policy asks for.
var ErrQuorum = errors.New("witness: no quorum")

var errSilent = errors.New("no answer in time")

// answerTime is how long a witness has for all its answers.
const answerTime = 30 * time.Second

// Cosign asks all witnesses of the policy at once to cosign a checkpoint, and returns its note with
// a line of each that did, in the order of the policy. It returns when the quorum is there, and
// then waits for no other. Lines that do not verify are dropped. If the quorum is not reached,
// Cosign returns the note with the lines that there are, and an error that wraps [ErrQuorum] and
// says of each other witness what it answered. Each witness has 30 s.
func (c *Client) Cosign(ctx context.Context, p Prover, cp proofgraph.Checkpoint, policy Policy) ([]byte, error) {
	keys, err := policy.verifiers()
	if err != nil {
		return nil, err
	}
	cp, own, err := proofgraph.ParseCheckpoint(cp.Note)
	if err != nil {
		return nil, err
	}
	if err := signedByOneOf(cp, own, policy.Logs); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	type result struct {
		member int
		line   []byte
		err    error
	}
	results := make(chan result, len(keys))
	for i, m := range policy.Witnesses {
		go func() {
			line, err := c.ask(ctx, p, cp, m, &keys[i])
			results <- result{i, line, err}
		}()
	}
	lines, faults := make([][]byte, len(keys)), make([]error, len(keys))
	for i := range faults {
		faults[i] = errSilent
	}
	good := 0
	for answered := 0; answered < len(keys) && good < policy.Quorum; answered++ {
		select {
		case r := <-results:
			lines[r.member], faults[r.member] = r.line, r.err
			if r.err == nil {
				good++
			}
		case <-ctx.Done():
			answered = len(keys) // a prover may not heed it
		}
	}
	note := append(bytes.Clone(cp.Note), bytes.Join(lines, nil)...)
	if _, _, err := proofgraph.ParseCheckpoint(note); err != nil { // more than 100 lines
		return nil, err
	}
	if good == policy.Quorum {
		return note, nil
	}
	err = fmt.Errorf("%w: %d of %d that are needed", ErrQuorum, good, policy.Quorum)
	for i, fault := range faults {
		if fault != nil {
			err = fmt.Errorf("%w; %s: %w", err, policy.Witnesses[i].Name, fault)
		}
	}
	return note, err
}

// signedByOneOf returns an error unless a log of the policy has signed the checkpoint, if the
// policy has any.
func signedByOneOf(cp proofgraph.Checkpoint, lines []proofgraph.SignatureLine, logs []string) error {
	if len(logs) == 0 {
		return nil
	}
	for i, vkey := range logs {
		k, err := cosign.ParseLogKey(vkey)
		if err != nil {
			return fmt.Errorf("witness: policy: log %d: %w", i+1, err)
		}
		for _, line := range lines {
			if k.Name == cp.Origin && cp.SignedBy(line, k.Public) {
				return nil
			}
		}
	}
	return errors.New("witness: no log of the policy has signed the checkpoint")
}

// ask returns the line of one witness, verified.
func (c *Client) ask(
	ctx context.Context, p Prover, cp proofgraph.Checkpoint, m Member, w *cosign.Witness,
) ([]byte, error) {
	if m.URL == "" {
		return nil, errors.New("the policy has no URL of it")
	}
	at := m.URL + "\n" + cp.Origin
	old := c.remembered(at)
	if old > cp.Size { // it may not be true; it will say so
		old = 0
	}
	for first := true; ; first = false {
		body, err := requestOf(ctx, p, cp, old)
		if err != nil {
			return nil, err
		}
		answer, size, err := c.post(ctx, m.URL, body)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			line, err := find(w, cp, answer)
			if err == nil {
				c.remember(at, cp.Size)
			}
			return line, err
		}
		if size > cp.Size {
			return nil, fmt.Errorf("it cosigned size %d, which is larger: was the log put back?", size)
		}
		if !first || size == old {
			return nil, errors.New("it contradicts itself: another size is the latest at each request")
		}
		c.remember(at, size)
		old = size
	}
}

func (c *Client) remembered(at string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sizes[at]
}

func (c *Client) remember(at string, size uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes == nil {
		c.sizes = map[string]uint64{}
	}
	c.sizes[at] = size
}

// requestOf returns the body of a request.
func requestOf(ctx context.Context, p Prover, cp proofgraph.Checkpoint, old uint64) (body []byte, err error) {
	defer contain.Error(&err, "the prover")
	body = fmt.Appendf(nil, "old %d\n", old)
	if old > 0 && old < cp.Size {
		proof, err := p.Consistency(ctx, old, cp.Size)
		if err != nil {
			return nil, fmt.Errorf("the proof: %w", err)
		}
		for _, d := range proof {
			body = append(crypto.AppendBase64(body, d[:]), '\n')
		}
	}
	return append(append(body, '\n'), cp.Note...), nil
}

// post returns the body of a 200, which is not nil, or the size of a 409.
func (c *Client) post(ctx context.Context, prefix string, body []byte) ([]byte, uint64, error) {
	address := strings.TrimSuffix(prefix, "/") + "/add-checkpoint"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, 0, errors.New("its URL is none")
	}
	client := http.Client{}
	if c.HTTP != nil {
		client = *c.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(r)
	if err != nil {
		if e := (*url.Error)(nil); errors.As(err, &e) { // without the URL, which may be secret
			err = e.Err
		}
		return nil, 0, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, 0, err
	}
	switch {
	case len(b) > maxBody:
		return nil, 0, errors.New("an answer of more than 65,536 bytes")
	case res.StatusCode == http.StatusOK:
		return append([]byte{}, b...), 0, nil
	case res.StatusCode == http.StatusConflict && res.Header.Get("Content-Type") == "text/x.tlog.size":
		size, err := strconv.ParseUint(strings.TrimSuffix(string(b), "\n"), 10, 64)
		if err != nil {
			return nil, 0, errors.New("status 409 without a size")
		}
		return nil, size, nil
	default:
		return nil, 0, fmt.Errorf("status %d", res.StatusCode)
	}
}

var errLine = errors.New("no line of its key that verifies")

// find returns the first line of an answer that is a cosignature of the checkpoint by the witness.
func find(w *cosign.Witness, cp proofgraph.Checkpoint, answer []byte) ([]byte, error) {
	body, _, _ := bytes.Cut(cp.Note, []byte("\n\n"))
	note := append(append(bytes.Clone(body), "\n\n"...), answer...)
	_, lines, err := proofgraph.ParseCheckpoint(note)
	if err != nil {
		return nil, errors.New("an answer that is not signature lines")
	}
	for _, line := range lines {
		if _, ok := w.Verify(cp, line); ok {
			raw := append(binary.BigEndian.AppendUint32(nil, line.KeyHash), line.Signature...)
			return fmt.Appendf(nil, "— %s %s\n", line.Name, crypto.AppendBase64(nil, raw)), nil
		}
	}
	return nil, errLine
}
