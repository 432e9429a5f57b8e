package evidence

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A pack is written in waves: while the caller goes over what became of some entries or blobs, in their order, other goroutines parse or fetch
// the next ones, and then it helps them. Where there is one processor it does all of that by itself.

const (
	waveItems  = 256
	waveBytes  = 1 << 20 // where lengths are known; one thing alone may be longer
	maxHelpers = 4       // each may have a blob of 64 MiB in hand
)

// A wave is some things: do is called for each, by several goroutines, and then in their order turn, by the caller.
type wave struct {
	n    int
	do   func(i int) error
	turn func(i int) error

	ends  []error // what became of each
	taken atomic.Int64
	ended atomic.Bool // nothing more is taken
	wait  sync.WaitGroup
}

// waves are worked on one by one. Their end must be deferred.
type waves struct{ at *wave }

// give has others begin with a wave, when that before is done, and goes over that meanwhile. The last one is nil.
func (x *waves) give(w *wave) error {
	old := x.at
	if old != nil {
		old.work()
		old.wait.Wait()
	}
	if x.at = w; w != nil {
		w.ends = make([]error, w.n)
		for range min(runtime.GOMAXPROCS(0), maxHelpers, w.n) - 1 {
			w.wait.Go(w.work)
		}
	}
	if old == nil {
		return nil
	}
	return old.turns()
}

// end returns when no other goroutine works any more.
func (x *waves) end() {
	if x.at != nil {
		x.at.ended.Store(true)
		x.at.wait.Wait()
	}
}

// work takes things in their order, so all that come before one that failed are done.
func (w *wave) work() {
	for !w.ended.Load() {
		i := int(w.taken.Add(1)) - 1
		if i >= w.n {
			return
		}
		w.one(i)
	}
}

func (w *wave) one(i int) {
	w.ends[i] = &panicked{}
	defer func() {
		if p, ok := w.ends[i].(*panicked); ok {
			p.with = recover()
		}
		if w.ends[i] != nil {
			w.ended.Store(true)
		}
	}()
	w.ends[i] = w.do(i)
}

// A panicked is what a store panicked with, which is for the caller, in its turn; nil: it ended the goroutine, and so it does the caller's.
type panicked struct{ with any }

func (*panicked) Error() string { return "panicked" }

// turns goes over them up to the first that failed.
func (w *wave) turns() error {
	for i, err := range w.ends {
		if p, ok := err.(*panicked); ok {
			if p.with == nil {
				runtime.Goexit()
			}
			panic(p.with)
		}
		if err == nil {
			err = w.turn(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
