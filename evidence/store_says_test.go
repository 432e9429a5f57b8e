package evidence

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/helmkernel/helm/contracts"
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

// TestPanicIsNotShown: whatever a store panics with may be what it keeps, and stands in no error. The runtime's own may.
func TestPanicIsNotShown(t *testing.T) {
	m := newMaker(t)
	m.use(testPolicy(1))
	m.allowed(ask{session: "main", tool: "fs.read", args: `{"path":"/srv/private"}`, who: reader})
	m.checkpoint()
	r, err := VerifyStore(t.Context(), wild{m.store, func(b []byte) {
		if strings.Contains(string(b), "private") {
			panic(string(b))
		}
	}}, Options{Trust: m.trust})
	mustRefuse(t, r, err, ErrStore)
	if !strings.Contains(err.Error(), "panicked") || strings.Contains(err.Error(), "private") {
		t.Error(err)
	}
	var none []byte
	r, err = VerifyStore(t.Context(), wild{m.store, func([]byte) { none[0]++ }}, Options{Trust: m.trust})
	mustRefuse(t, r, err, ErrStore)
	if !strings.Contains(err.Error(), "index out of range") {
		t.Error(err)
	}
}

// TestGoroutineEndsInAStore: where a store ends the goroutine that asks it, nobody is told of a success, and nothing of the verification is left.
func TestGoroutineEndsInAStore(t *testing.T) {
	m := deskLog(t)
	before := runtime.NumGoroutine()
	answered := false
	done := make(chan struct{})
	n := 0
	go func() {
		defer close(done)
		VerifyStore(context.Background(), wild{m.store, func([]byte) {
			if n++; n > 5 {
				runtime.Goexit()
			}
		}}, Options{Trust: m.trust})
		answered = true
	}()
	<-done
	for began := time.Now(); runtime.NumGoroutine() > before && time.Since(began) < 10*time.Second; { // those that end may take a moment
		runtime.Gosched()
	}
	if now := runtime.NumGoroutine(); answered || n == 0 || now > before {
		t.Errorf("answered: %v; %d goroutines before and %d after", answered, before, now)
	}
}
