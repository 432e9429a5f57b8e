package conformance

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/executor"
)

// Options are what [Run] needs from its caller. The zero Options run every gate that needs nothing.
type Options struct {
	// Sandbox makes a driver that runs a WASI module under grants, as Runtime.Load of package
	// sandbox does, and Rerun runs one again. The gate of the sandbox is not run without them.
	Sandbox func(wasm []byte, name string, g contracts.Sandbox) (executor.Driver, error)
	Rerun   contracts.Rerun

	Programs []string      // executables that island mode runs as well
	Key      crypto.Signer // signs the report; nil: it is not signed
}

// unbuilt are the gates that this version does not have.
const unbuilt = "this version has no cases for it"

// A gate lists its cases. A gate that returns a reason is not run.
type gate func(o Options) (cases []gateCase, why string)

// always is a gate that needs nothing.
func always(list func() []gateCase) gate {
	return func(Options) ([]gateCase, string) { return list(), "" }
}

// gates are all gates, in order; nil: not built.
func gates() [len(gateNames)]gate {
	return [len(gateNames)]gate{
		0:  always(withVectors(1, canonicalCases)),
		1:  always(boundaryCases),
		2:  sandboxCases,
		3:  always(approvalCases),
		4:  always(withVectors(5, graphCases)),
		5:  always(withVectors(6, trustCases)),
		6:  always(withVectors(7, packCases)),
		7:  always(withVectors(8, replayCases)),
		8:  always(driftCases),
		9:  always(idempotencyCases),
		10: islandCases,
	}
}

// withVectors adds the vectors of a gate to its cases.
func withVectors(number int, list func() []gateCase) func() []gateCase {
	return func() []gateCase {
		return append(list(), vectorsOf(number, func(_ *trial, v fs.FS, name string) ([]byte, error) {
			return answerVector(v, name)
		})...)
	}
}

// Run runs all gates against the kernel of this module, and returns their results. The error is
// about the run, such as a context that ended: a gate that failed is none.
func Run(ctx context.Context, o Options) (Report, error) {
	return run(ctx, o, newSubject(), gates())
}

func run(ctx context.Context, o Options, s *subject, list [len(gateNames)]gate) (Report, error) {
	r := Report{Time: contracts.TimeOf(time.Now())}
	var err error
	if r.Implementation, err = running(); err != nil {
		return Report{}, fmt.Errorf("conformance: %w", err)
	}
	if r.Vectors, err = vectorsDigest(Vectors()); err != nil {
		return Report{}, err
	}
	for i, g := range list {
		if g == nil {
			r.Gates = append(r.Gates, notRun(gateNames[i], unbuilt))
			continue
		}
		cases, why := g(o)
		if why != "" {
			r.Gates = append(r.Gates, notRun(gateNames[i], why))
			continue
		}
		r.Gates = append(r.Gates, runGate(ctx, s, gateNames[i], cases))
		if err = ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("conformance: gate %d: %w", i+1, err)
		}
	}
	r.setLevel()
	if o.Key == nil {
		return r, nil
	}
	return r.Sign(o.Key)
}

// atOnce is how many cases run at the same time: most of their time is spent waiting for a disk.
const atOnce = 8

// runGate runs the cases of one gate. They share nothing.
func runGate(ctx context.Context, s *subject, name string, cases []gateCase) Gate {
	names, whats := make([]string, len(cases)), make([]string, len(cases))
	slots := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, c := range cases {
		slots <- struct{}{}
		wg.Go(func() {
			names[i], whats[i] = c.name, c.run(ctx, s)
			<-slots
		})
	}
	wg.Wait()
	var failed []Failure
	for i, what := range whats {
		if what != "" {
			failed = append(failed, Failure{names[i], what})
		}
	}
	return newGate(name, names, failed)
}

// running is the program that runs.
func running() (Implementation, error) {
	const module = "github.com/helmkernel/helm"
	i := Implementation{Name: module, Version: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module && m.Version != "" {
				i.Version = m.Version
			}
		}
	}
	program, err := os.Executable()
	if err != nil {
		return i, fmt.Errorf("the program that runs: %w", err)
	}
	f, err := os.Open(program)
	if err != nil {
		return i, fmt.Errorf("the program that runs: %w", err)
	}
	defer f.Close()
	sum := crypto.NewSum()
	if _, err = io.Copy(sum, f); err != nil {
		return i, fmt.Errorf("the program that runs: %w", err)
	}
	i.Digest = contracts.Digest(sum.Sum(nil))
	return i, nil
}
