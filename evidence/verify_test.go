package evidence

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
)

func verifyBytes(t testing.TB, pack []byte, o Options) (Report, error) {
	t.Helper()
	return Verify(t.Context(), bytes.NewReader(pack), int64(len(pack)), o)
}

// mustRefuse wants that check, and nothing that the pack says to be handed out.
func mustRefuse(t *testing.T, r Report, err error, want error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Check != want || !errors.Is(err, want) {
		t.Errorf("%s, %v; want %v", r.Level, err, want)
		return
	}
	bare := Report{Asked: r.Asked, Fault: e, Replay: Replay{Differing: r.Replay.Differing},
		Rerun: Rerun{Differing: r.Rerun.Differing}}
	assert.True(t, reflect.DeepEqual(r, bare) && ((want == ErrReplay) == (r.Replay.Differing > 0) ||
		want != ErrReplay) && (want == ErrRerun) == (r.Rerun.Differing > 0) && !r.Success(Invalid), "an INVALID report says more than what is wrong: %+v", r)
}
