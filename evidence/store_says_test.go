package evidence

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence/internal/forge"
	"github.com/helmkernel/helm/proofgraph"
)

// A wild store panics with what it keeps, or ends the goroutine that asks.
type wild struct {
	proofgraph.Store
	do func(b []byte)
}

func (s wild) Blob(ctx context.Context, d contracts.Digest) ([]byte, error) {
	b, err := s.Store.Blob(ctx, d)
	s.do(b)
	return b, err
}

// TestPanicIsNotShown: whatever a store panics with may be what it keeps, and stands in no error.
// The runtime's own may.
func TestPanicIsNotShown(t *testing.T) {
	m := forge.NewMaker(t)
	m.Use(forge.FilesPolicy(1))
	m.Allowed(forge.Ask{Session: "main", Tool: "fs.read", Args: `{"path":"/srv/private"}`, Who: forge.Reader})
	m.Checkpoint()
	r, err := VerifyStore(t.Context(), wild{m.Store, func(b []byte) {
		if strings.Contains(string(b), "private") {
			panic(string(b))
		}
	}}, Options{Trust: m.Trust})
	mustRefuse(t, r, err, ErrStore)
	if !strings.Contains(err.Error(), "panicked") || strings.Contains(err.Error(), "private") {
		t.Error(err)
	}
	var none []byte
	r, err = VerifyStore(t.Context(), wild{m.Store, func([]byte) { none[0]++ }}, Options{Trust: m.Trust})
	mustRefuse(t, r, err, ErrStore)
	if !strings.Contains(err.Error(), "index out of range") {
		t.Error(err)
	}
}

// TestGoroutineEndsInAStore: if a store ends the calling goroutine, there is no
// success, and nothing of the verification is left.
func TestGoroutineEndsInAStore(t *testing.T) {
	m := forge.FixtureLog(t)
	before := runtime.NumGoroutine()
	answered := false
	done := make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		VerifyStore(context.Background(), wild{m.Store, func([]byte) {
			if n++; n > 5 {
				runtime.Goexit()
			}
		}}, Options{Trust: m.Trust})
		answered = true
	}()
	<-done
	// those that end may take a moment
	for began := time.Now(); runtime.NumGoroutine() > before && time.Since(began) < 10*time.Second; {
		runtime.Gosched()
	}
	if now := runtime.NumGoroutine(); answered || n == 0 || now > before {
		t.Errorf("answered: %v; %d goroutines before and %d after", answered, before, now)
	}
}
