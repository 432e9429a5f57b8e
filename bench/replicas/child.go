//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/bench/internal/calls"
	"github.com/helmkernel/helm/bench/internal/cpu"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/integrations/postgres"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/filestore"
)

// What a process of a row does. It reads a job, says that it is ready, and answers each order with
// a report, until there are no more.

const childVariable = "HELM_BENCH_CHILD"

func isChild() bool { return os.Getenv(childVariable) != "" }

// A job is what a process is.
type job struct {
	Seed    []byte // of the kernels' key
	Process int    // of its row
	Callers int    // of each process
	Budget  bool
	Files   string // the directory of a log in files; else the log is in the database
	URL     string
	Schema  string
	Alone   bool
	Profile string
	Disk    string // a directory to write to: nothing else is done
}

// An order is how long to make calls, and of at most how many a caller.
type order struct {
	For  time.Duration
	Most int
}

// A report is what came of an order. The one that says that a process is ready has nothing.
type report struct {
	Took      []time.Duration
	Wall, CPU time.Duration
	Appends   appends
	Syncs     int // of the program that writes to the disk
}

// child runs a process, and returns its exit code.
func child() int {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	var j job
	err := in.Decode(&j)
	if err == nil && j.Disk != "" {
		err = j.disk(in, out)
	} else if err == nil {
		err = j.calls(in, out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "replicas: a process:", err)
		return 1
	}
	return 0
}

// calls makes calls by the orders that it reads.
func (j *job) calls(in *json.Decoder, out *json.Encoder) (err error) {
	p := &process{job: j}
	if err := p.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.kernel.Close(), p.store.Close()) }()
	if j.Profile != "" {
		f, err := os.Create(j.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if err := out.Encode(report{}); err != nil {
		return err
	}
	for in.More() {
		var o order
		if err := in.Decode(&o); err != nil {
			return err
		}
		r, err := p.run(o)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// A process has a kernel.
type process struct {
	*job
	host   *calls.Host
	kernel *helm.Kernel
	store  interface {
		proofgraph.Store
		Close() error
	}
	count appends
}

func (p *process) open() error {
	key, err := crypto.NewKeyFromSeed(p.Seed)
	if err != nil {
		return err
	}
	if p.host, err = calls.New(key, (p.Process+1)*p.Callers, p.Budget); err != nil {
		return err
	}
	if p.Files != "" {
		s, err := filestore.Open(p.Files, filestore.Options{})
		if err != nil {
			return err
		}
		p.store = files{s, &p.count}
	} else {
		s, err := postgres.Open(context.Background(), p.URL, postgres.Options{Schema: p.Schema})
		if err != nil {
			return err
		}
		p.store = database{s, &p.count, p.Alone}
	}
	p.kernel, err = p.host.Kernel(p.store)
	return err
}

// run has every caller make calls, one after the other.
func (p *process) run(o order) (report, error) {
	runtime.GC() // of what came before
	p.count = appends{}
	took, failed := make([][]time.Duration, p.Callers), make([]error, p.Callers)
	used, start := cpu.Time(), time.Now()
	var all sync.WaitGroup
	for c := range p.Callers {
		all.Go(func() {
			caller := p.Process*p.Callers + c
			session := fmt.Sprint("bench-", caller)
			for n, t0 := 0, time.Now(); n < o.Most && (n == 0 || t0.Sub(start) < o.For); n++ {
				if _, failed[c] = p.host.Guard(p.kernel, caller, session, true); failed[c] != nil {
					return
				}
				t1 := time.Now()
				took[c] = append(took[c], t1.Sub(t0))
				t0 = t1
			}
		})
	}
	all.Wait()
	r := report{Wall: time.Since(start), CPU: cpu.Time() - used, Appends: p.count}
	for _, t := range took {
		r.Took = append(r.Took, t...)
	}
	return r, errors.Join(failed...)
}
