//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// What another program writes: so much that a sync takes some ten times as long as on a quiet disk.
// With less, the rows over the database wait for the processors.
const (
	fileSize  = 64 << 20
	writeSize = 1 << 20
	writers   = 4
)

// disk writes to files and syncs each write, until there is an order or no more input. Then it
// reports how many writes were synced.
func (j *job) disk(in *json.Decoder, out *json.Encoder) error {
	var syncs atomic.Int64
	var stop atomic.Bool
	failed := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			name := filepath.Join(j.Disk, fmt.Sprint(i))
			for failed[i] == nil && !stop.Load() {
				failed[i] = rewrite(name, &stop, &syncs)
			}
		})
	}
	err := out.Encode(report{})
	in.More()
	stop.Store(true)
	all.Wait()
	return errors.Join(err, errors.Join(failed...), out.Encode(report{Syncs: int(syncs.Load())}))
}

// rewrite writes a file from its beginning, in place of what was there.
func rewrite(name string, stop *atomic.Bool, syncs *atomic.Int64) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, writeSize)
	for n := 0; n < fileSize && !stop.Load(); n += len(b) {
		if _, err := f.Write(b); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		syncs.Add(1)
	}
	return nil
}
