//go:build unix

package bench

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/helmkernel/helm/proofgraph"
)

// What benchmarks call with.

// benchKernelOn is a kernel of the policy of benchmarks, with additions, over a store.
func benchKernelOn(b *testing.B, s proofgraph.Store, more ...string) *helm.Kernel {
	b.Helper()
	return benchKernelOf(b, s, benchPolicy+strings.Join(more, ""))
}

// benchKernelOf is a kernel of these documents.
func benchKernelOf(b *testing.B, s proofgraph.Store, docs ...string) *helm.Kernel {
	b.Helper()
	k, err := helm.New(helm.Options{Policy: kerneltest.Compile(b, docs...),
		Key: kerneltest.SeedKey(b, 1), Store: s,
		Drivers: map[string]executor.Driver{"code.run": helm.Func(func(
			context.Context, json.RawMessage,
		) (json.RawMessage, error) {
			return json.RawMessage(`{"exit":0}`), nil
		})}})
	if err != nil {
		b.Fatal(err)
	}
	return k
}

// A caller makes calls, each of which must end as intended.
type caller struct {
	k  *helm.Kernel
	in helm.Intent
}

// newCaller is the ith: its arguments differ from those of others, since equal inputs of two calls
// of one session in one millisecond would be stored once.
func newCaller(b *testing.B, k *helm.Kernel, i int, session string, allow bool) caller {
	args := bytes.Replace(benchArgs(b), []byte(`"line":12`), fmt.Appendf(nil, `"line":%d`, 10+i), 1)
	in := helm.Intent{Tool: "code.run", Args: args, Caller: helm.Caller{ID: "ada", Roles: []string{"dev"}},
		Session: session}
	if !allow {
		in.Tool = "no.such.tool"
	}
	return caller{k, in}
}

func (c *caller) call() (helm.Receipt, error) {
	d, r := c.k.Guard(context.Background(), c.in)
	if allow := c.in.Tool == "code.run"; allow && (d.Err() != nil || r.Record.Outcome != contracts.Executed) ||
		!allow && (d.Reason != contracts.ReasonToolNotFound || r.Record.Outcome != contracts.Denied) {
		return r, fmt.Errorf("%v %s: %w", d.Verdict, d.Reason, d.Err())
	}
	return r, nil
}

// together has callers make n calls in all.
func together(callers []caller, n int) error {
	var next atomic.Int64
	failed := make([]error, len(callers))
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for failed[i] == nil && next.Add(1) <= int64(n) {
				_, failed[i] = callers[i].call()
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// signAll signs n messages of 256 bytes on each core.
func signAll(n int) int {
	cores := runtime.GOMAXPROCS(0)
	var wg sync.WaitGroup
	for range cores {
		wg.Go(func() {
			key, msg := ed25519.NewKeyFromSeed(make([]byte, 32)), make([]byte, 256)
			for range n {
				ed25519.Sign(key, msg)
			}
		})
	}
	wg.Wait()
	return n * cores
}

// cpu is the processor time that this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
