package witness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// A forgetful state ends with its process, as no witness's may: see integrations/witness.
type forgetful struct {
	mu    sync.Mutex
	notes map[string][]byte
}

func (f *forgetful) Latest(_ context.Context, origin string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notes[origin], nil
}

func (f *forgetful) Swap(_ context.Context, origin string, was, now []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !bytes.Equal(f.notes[origin], was) {
		return witness.ErrChanged
	}
	f.notes[origin] = bytes.Clone(now)
	return nil
}

func Example() {
	const origin = "example.com/log"
	ctx := context.Background()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}

	// A log, with genesis alone in it.
	logKey, err := crypto.GenerateKey()
	must(err)
	log, err := proofgraph.Open(ctx, proofgraph.NewMemory(), proofgraph.Options{Origin: origin, Key: logKey,
		LogKey: logKey, Trust: []byte(`{}`)}, nil)
	must(err)
	checkpoint, err := log.Checkpoint(ctx)
	must(err)
	public, err := crypto.PublicOf(logKey)
	must(err)

	// A witness, elsewhere, that has been told of the log and of its key.
	key, err := crypto.GenerateKey()
	must(err)
	known := map[string][]string{origin: {proofgraph.VerifierKey(origin, public)}}
	w := &witness.Witness{
		Name:  "witness.example.com/w1",
		Key:   key,
		Logs:  func(origin string) []string { return known[origin] },
		State: &forgetful{notes: map[string][]byte{}},
	}
	line, err := w.Add(ctx, 0, nil, checkpoint.Note)
	must(err)
	fmt.Printf("%.24s…\n", line)

	// The log shows another history, as long as the first.
	other := checkpoint
	other.Root = contracts.Digest{1}
	body := fmt.Appendf(nil, "%s\n%d\n%s\n", origin, other.Size, crypto.AppendBase64(nil, other.Root[:]))
	sig, err := crypto.Sign(logKey, body)
	must(err)
	_, lines, err := proofgraph.ParseCheckpoint(checkpoint.Note)
	must(err)
	hash := lines[0].KeyHash
	raw := append([]byte{byte(hash >> 24), byte(hash >> 16), byte(hash >> 8), byte(hash)}, sig...)
	note := fmt.Appendf(body, "\n— %s %s\n", origin, crypto.AppendBase64(nil, raw))
	_, err = w.Add(ctx, 1, nil, note)
	fmt.Println(errors.Is(err, witness.ErrUnprocessable), err)

	// A client who does not know how far the witness is is told so.
	_, err = w.Add(ctx, 0, nil, note)
	var conflict *witness.Conflict
	fmt.Println(errors.As(err, &conflict), conflict.Size)
	// Output:
	// — witness.example.com/w1…
	// true witness: the checkpoint does not extend the latest one
	// true 1
}
