package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/proofgraph"
)

// A kernel is what the cases use of [helm.Kernel].
type kernel interface {
	Guard(ctx context.Context, in helm.Intent) (helm.Decision, helm.Receipt)
	UserMessage(ctx context.Context, session, text string) error
	Govern(ctx context.Context, event contracts.Envelope) error
	Swap(ctx context.Context, p *guardian.Policy) error
	CloseSession(ctx context.Context, name string) error
	Checkpoint(ctx context.Context) (proofgraph.Checkpoint, error)
	Close() error
	Err() error
}

// A subject is the implementation that the cases are about. The tests of this package replace parts
// of it by parts with one fault.
type subject struct {
	open        func(o helm.Options) (kernel, error)
	closed      func() []kernel                  // kernels that were never opened
	canonical   func(src []byte) ([]byte, error) // of any JSON text
	arguments   func(src []byte) ([]byte, error) // of arguments, whose limits are closer
	number      func(f float64) string           // of a double
	write       func(w io.Writer, s proofgraph.Store, key crypto.Signer) error
	verifyStore func(s proofgraph.Store, o evidence.Options) (evidence.Report, error)
	verify      func(pack []byte, o evidence.Options) (evidence.Report, error)
}

// newSubject is the implementation of this module.
func newSubject() *subject {
	return &subject{
		open: func(o helm.Options) (kernel, error) {
			k, err := helm.New(o)
			if err != nil {
				return nil, err // no kernel in the interface
			}
			return k, nil
		},
		closed: func() []kernel { return []kernel{(*helm.Kernel)(nil), new(helm.Kernel)} },
		canonical: func(src []byte) ([]byte, error) {
			var t crypto.Tree
			if err := t.Parse(src, crypto.Limits{Bytes: contracts.MaxInputs, Depth: crypto.MaxDepth}); err != nil {
				return nil, err
			}
			return t.Root().Append(nil), nil
		},
		arguments: func(src []byte) ([]byte, error) {
			var t crypto.Tree
			return t.ParseArgs(nil, src)
		},
		number: func(f float64) string { return string(crypto.AppendFloat(nil, f)) },
		write: func(w io.Writer, s proofgraph.Store, key crypto.Signer) error {
			return evidence.Write(context.Background(), w, s, key)
		},
		verifyStore: func(s proofgraph.Store, o evidence.Options) (evidence.Report, error) {
			return evidence.VerifyStore(context.Background(), s, o)
		},
		verify: func(pack []byte, o evidence.Options) (evidence.Report, error) {
			return evidence.Verify(context.Background(), bytes.NewReader(pack), int64(len(pack)), o)
		},
	}
}

// A gateCase is one case of a gate. It holds unless it says otherwise.
type gateCase struct {
	name string
	do   func(t *trial)
}

// A trial is the run of one case. Its methods stop the case at the first thing that does not hold:
// what comes after would be about something else.
type trial struct {
	*subject
	ctx  context.Context
	ends []func() // from the last to the first, after the case
}

// A stop is what a trial panics with to end the case.
type stop struct{ what string }

// run runs the case and returns what did not hold, "" if it held.
func (c gateCase) run(ctx context.Context, s *subject) (what string) {
	t := &trial{subject: s, ctx: ctx}
	defer func() {
		for i := len(t.ends) - 1; i >= 0; i-- {
			t.ends[i]()
		}
	}()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case stop:
			what = p.what
		default:
			what = "the implementation panicked" // the text may be a tool's
		}
	}()
	c.do(t)
	return ""
}

// after has something done at the end of the case, however it ends.
func (t *trial) after(f func()) { t.ends = append(t.ends, f) }

func (t *trial) fail(format string, args ...any) { panic(stop{fmt.Sprintf(format, args...)}) }

// check stops the case unless something holds.
func (t *trial) check(holds bool, format string, args ...any) {
	if !holds {
		t.fail(format, args...)
	}
}

// must stops the case if there is an error.
func (t *trial) must(err error, what string) {
	if err != nil {
		t.fail("%s: %v", what, err)
	}
}
