package helmtest

import (
	"context"
	"os"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/policytest"
)

// Transcript judges the calls of a recorded conversation, in order, for the caller and in the
// session of a World, and returns what became of each. The forms are those of
// [policytest.Transcript]. No tool runs, nor what [World.Tool] says: each call gets the result that
// was recorded. No text of the transcript counts as the user's words; [World.User] records these.
//
// The table is logged, so go test -v prints it, then with arguments. It is an error if the file
// cannot be read; that a call is denied is none.
func Transcript(t *testing.T, w *World, file string) *policytest.Verdicts {
	t.Helper()
	v, err := w.transcript(file, testing.Verbose())
	if err != nil {
		t.Fatalf("helmtest: %v", err)
	}
	t.Logf("%s\n%s", file, v)
	return v
}

func (w *World) transcript(file string, values bool) (*policytest.Verdicts, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	turns, err := policytest.Transcript(f)
	if err != nil {
		return nil, err
	}
	r := policytest.Replay{
		Policy: w.policy, Caller: w.caller, Session: w.session, Values: values,
		Guard: func(_ context.Context, in helm.Intent) (helm.Decision, helm.Receipt) {
			r := w.guard(in)
			return r.decision, r.receipt
		},
	}
	return r.Run(context.Background(), turns)
}
