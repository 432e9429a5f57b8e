package view

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"unicode/utf8"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
	reading "github.com/helmkernel/helm/internal/entry"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// MaxEntries is how many entries a page holds, maxBlobs how many bytes of arguments and outputs.
const (
	MaxEntries = 10_000
	maxBlobs   = 64 << 20
)

// ErrTooMuch is the error if a page would hold more than it may: a session or a range of entries
// must be chosen.
var ErrTooMuch = errors.New("view: too much for a page")

// A Source is a log that can be read: a proofgraph.Store, or an evidence.Pack.
type Source interface {
	Size(ctx context.Context) (uint64, error)
	Entries(ctx context.Context, from, to uint64) iter.Seq2[contracts.Entry, error]
	Blob(ctx context.Context, d contracts.Digest) ([]byte, error)
	Checkpoint(ctx context.Context) ([]byte, error)
}

// Options say what is in a page. The zero Options are of the whole log, without arguments, outputs
// and steps.
type Options struct {
	// Report is what the verifier says of the log, which the page repeats with its words; about is
	// a sentence before it.
	Report *evidence.Report
	About  string

	Session  *string // only the entries of this session; nil: of all
	From, To uint64  // only the entries from one index up to, and without, another one; 0: to the end
	Inputs   bool    // arguments and outputs too, as far as the log has them

	// Steps are what was judged in an entry, a line each. Nothing of arguments may be in them.
	Steps func(index uint64) []string
}

// A page is the data of a page. The entries are as they were signed, or their stubs.
type page struct {
	Origin     string                    `json:"origin"`
	Part       string                    `json:"part,omitempty"`
	About      string                    `json:"about,omitempty"`
	Report     string                    `json:"report,omitempty"`
	Checkpoint string                    `json:"checkpoint,omitempty"`
	Trust      string                    `json:"trust,omitempty"` // the last trust state, canonical
	Entries    []entry                   `json:"entries"`
	Steps      *steps                    `json:"steps,omitempty"`
	Blobs      map[contracts.Digest]blob `json:"blobs,omitempty"`

	lines map[string]int
	bytes int
}

type entry struct {
	index uint64
	text  contracts.Entry
}

// MarshalJSON returns [index, text].
func (e entry) MarshalJSON() ([]byte, error) { return json.Marshal([]any{e.index, string(e.text)}) }

// Steps name their lines by number: calls of one tool have the same ones.
type steps struct {
	Lines []string         `json:"lines"`
	Of    map[uint64][]int `json:"of"`
}

type blob struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"` // if it is not UTF-8
}

// Write writes a page with its data. It verifies nothing: o.Report says what was verified.
func Write(ctx context.Context, w io.Writer, log Source, o Options) error {
	p, err := collect(ctx, log, &o)
	if err != nil {
		return err
	}
	data, err := json.Marshal(p) // with <, > and & escaped, so that no text ends the element
	if err != nil {
		return err
	}
	before, after, _ := pageOf("offline", "")
	const begin, end = `<script id="data" type="application/json">`, "</script>\n"
	for _, part := range []string{before, begin, string(data), end, after} {
		if _, err := io.WriteString(w, part); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the data of a page.
func collect(ctx context.Context, log Source, o *Options) (*page, error) {
	size, err := log.Size(ctx)
	if err != nil {
		return nil, err
	}
	to := o.To
	if to == 0 || to > size {
		to = size
	}
	if o.From > to || o.From == to && size > 0 {
		return nil, fmt.Errorf("view: there are no entries from %d to %d: the log has %d", o.From, to, size)
	}
	if o.Session == nil && to-o.From > MaxEntries {
		return nil, tooMany(to - o.From)
	}
	p := &page{About: o.About, Entries: []entry{}, Blobs: map[contracts.Digest]blob{}, lines: map[string]int{}}
	if o.Report != nil {
		p.Report = o.Report.String()
	}
	note, err := log.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	p.Checkpoint = string(note)
	if err := p.walk(ctx, log, o, size, to); err != nil {
		return nil, err
	}
	switch {
	case o.Session != nil:
		p.Part = "of one session"
	case o.From > 0 || to < size:
		p.Part = fmt.Sprintf("of %d", size)
	}
	if len(p.Entries) == 0 && o.Session != nil {
		return nil, fmt.Errorf("view: no entries of the session %q", *o.Session)
	}
	return p, nil
}

func tooMany(n uint64) error {
	return fmt.Errorf("%w: %d entries, and it holds %d: choose a session or a range", ErrTooMuch, n, MaxEntries)
}

// walk reads the whole log: for the trust state at its end, and for the entries of the page.
func (p *page) walk(ctx context.Context, log Source, o *Options, size, to uint64) error {
	var r contracts.Reader
	var state *registry.State
	i := uint64(0)
	for e, err := range log.Entries(ctx, 0, size) {
		if err != nil {
			return err
		}
		l, err := reading.Read(&r, e)
		if err != nil {
			return fmt.Errorf("view: entry %d: %w", i, err)
		}
		switch st := l.Entry; {
		case st == nil:
		case st.Genesis != nil && i == 0:
			p.Origin = st.Genesis.Origin
			state, err = initial(ctx, log, st.Genesis.Trust)
		case st.Trust != nil:
			state, err = state.Apply(st.Trust, p.Origin, i)
		}
		if err != nil {
			return fmt.Errorf("view: entry %d: %w", i, err)
		}
		session, _, _ := l.Place()
		if i >= o.From && i < to && (o.Session == nil || *o.Session == session) {
			if err := p.add(ctx, log, o, i, e, l.Entry); err != nil {
				return err
			}
		}
		i++
	}
	p.Trust = string(state.Canonical())
	return nil
}

func initial(ctx context.Context, log Source, d contracts.Digest) (*registry.State, error) {
	b, err := log.Blob(ctx, d)
	if err != nil {
		return nil, err
	}
	return registry.ParseState(b)
}

// add adds an entry to a page: st is nil if only its stub is left.
func (p *page) add(
	ctx context.Context, log Source, o *Options, i uint64, e contracts.Entry, st *contracts.Statement,
) error {
	if len(p.Entries) == MaxEntries {
		return tooMany(MaxEntries + 1)
	}
	p.Entries = append(p.Entries, entry{i, slices.Clone(e)})
	if st == nil {
		return nil
	}
	d := st.Judgement()
	if d != nil && o.Steps != nil {
		p.step(i, o.Steps(i))
	}
	if !o.Inputs {
		return nil
	}
	if d != nil {
		return p.keep(ctx, log, d.InputsHash)
	}
	if x := st.Receipt; x != nil && x.OutputHash != nil && x.Verdict == contracts.Allow {
		return p.keep(ctx, log, *x.OutputHash)
	}
	return nil
}

// step adds what was judged in an entry.
func (p *page) step(i uint64, lines []string) {
	if len(lines) == 0 {
		return
	}
	if p.Steps == nil {
		p.Steps = &steps{Of: map[uint64][]int{}}
	}
	for _, line := range lines {
		n, ok := p.lines[line]
		if !ok {
			n = len(p.Steps.Lines)
			p.lines[line] = n
			p.Steps.Lines = append(p.Steps.Lines, line)
		}
		p.Steps.Of[i] = append(p.Steps.Of[i], n)
	}
}

// keep adds a blob, if the log has it.
func (p *page) keep(ctx context.Context, log Source, d contracts.Digest) error {
	if _, ok := p.Blobs[d]; ok {
		return nil
	}
	b, err := log.Blob(ctx, d)
	if errors.Is(err, proofgraph.ErrNoBlob) {
		return nil
	} else if err != nil {
		return err
	}
	if p.bytes += len(b); p.bytes > maxBlobs {
		return fmt.Errorf("%w: over %d bytes of arguments and outputs: choose a session or a range",
			ErrTooMuch, maxBlobs)
	}
	text := string(b)
	if utf8.Valid(b) {
		p.Blobs[d] = blob{Text: &text}
		return nil
	}
	text = base64.StdEncoding.EncodeToString(b)
	p.Blobs[d] = blob{Base64: &text}
	return nil
}
