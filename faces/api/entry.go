package api

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/faces/auth"
	"github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
)

// A whole entry is all that is told of one.
type whole struct {
	*item
	Statement json.RawMessage `json:"statement,omitempty"` // that was signed, unless a stub is left of it

	// Of those who may read arguments and outputs, as far as the store has them.
	Arguments *string `json:"arguments,omitempty"` // that were judged, canonical
	Output    *string `json:"output,omitempty"`    // that was released
	Encoding  string  `json:"encoding,omitempty"`  // of the output: base64 if it is not UTF-8
}

// entry answers with one entry.
func (a *reading) entry(w http.ResponseWriter, r *http.Request) {
	if !r.Form.Has("name") {
		bad(w, r, "name is missing: an index, a hash or session/seq")
		return
	}
	s, ok := a.look(w, r)
	if !ok {
		return
	}
	i, ok := a.named(w, r, s, r.Form.Get("name"))
	if !ok {
		return
	}
	x, err := a.whole(r.Context(), s, i, auth.From(r.Context()).May(auth.Inputs))
	if err != nil {
		unavailable(w, r, unreadable)
		return
	}
	auth.Answer(w, x)
}

func (a *reading) whole(ctx context.Context, s *sight, i uint64, inputs bool) (*whole, error) {
	items, err := a.log.items(ctx, s, []uint64{i}, true)
	if err != nil {
		return nil, err
	}
	x := &whole{item: items[0]}
	err = a.log.each(ctx, []uint64{i}, func(_ uint64, e contracts.Entry, l *entry.Line) error {
		if l.Stub != nil {
			return nil
		}
		var reader contracts.Reader
		sealed, err := reader.Open(e)
		if err != nil {
			return err
		}
		x.Statement = json.RawMessage(sealed.Payload)
		if !inputs || l.Entry.Receipt == nil {
			return nil
		}
		return a.output(ctx, x, l.Entry.Receipt)
	})
	if err == nil && inputs && x.Decision != nil {
		err = a.arguments(ctx, x)
	}
	return x, err
}

// arguments adds the arguments of the call, if they were kept.
func (a *reading) arguments(ctx context.Context, x *whole) error {
	at := []uint64{x.Decision.Index}
	return a.log.each(ctx, at, func(_ uint64, _ contracts.Entry, l *entry.Line) error {
		d := l.Judgement()
		if d == nil {
			return nil // the log let go of it, and of its inputs
		}
		b, err := a.blob(ctx, d.InputsHash)
		if b == nil {
			return err
		}
		in, err := contracts.ParseInputs(b)
		if err != nil || in.ArgsForm == "raw" {
			return err
		}
		text := string(in.Args.Append(nil))
		x.Arguments = &text
		return nil
	})
}

// output adds the output of a call, if it was released and kept.
func (a *reading) output(ctx context.Context, x *whole, r *contracts.Receipt) error {
	released := r.Verdict == contracts.Allow && (r.Outcome == contracts.Executed || r.Outcome == contracts.Failed)
	if !released || r.OutputHash == nil {
		return nil
	}
	b, err := a.blob(ctx, *r.OutputHash)
	if b == nil {
		return err
	}
	text := string(b)
	if !utf8.Valid(b) {
		text, x.Encoding = base64.StdEncoding.EncodeToString(b), "base64"
	}
	x.Output = &text
	return nil
}

// blob returns a blob, or nil if it was erased or never kept.
func (a *reading) blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	b, err := a.store.Blob(ctx, d)
	switch {
	case errors.Is(err, proofgraph.ErrNoBlob):
		return nil, nil
	case err == nil && b == nil:
		b = []byte{}
	}
	return b, err
}
