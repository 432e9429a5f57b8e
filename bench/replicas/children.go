//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// children are the processes of a row.
type children struct{ list []*running }

// A running process is this program, started with a job.
type running struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	ended   bool
}

// start starts one more.
func (c *children) start(j job) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r := &running{command: exec.Command(program)}
	r.command.Env = append(os.Environ(), childVariable+"=1")
	r.command.Stderr = os.Stderr
	if r.in, err = r.command.StdinPipe(); err != nil {
		return err
	}
	out, err := r.command.StdoutPipe()
	if err != nil {
		return err
	}
	r.out = json.NewDecoder(out)
	if err := r.command.Start(); err != nil {
		return err
	}
	c.list = append(c.list, r)
	return r.send(j)
}

func (r *running) send(x any) error {
	b, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_, err = r.in.Write(append(b, '\n'))
	return err
}

// ready waits until all are ready.
func (c *children) ready() error {
	_, err := c.reports()
	return err
}

// order has all of them do something at the same time, and returns their reports.
func (c *children) order(o order) ([]report, error) {
	for _, r := range c.list {
		if err := r.send(o); err != nil {
			return nil, err
		}
	}
	return c.reports()
}

// reports reads one report of each.
func (c *children) reports() ([]report, error) {
	list, failed := make([]report, len(c.list)), make([]error, len(c.list))
	var all sync.WaitGroup
	for i, r := range c.list {
		all.Go(func() {
			if failed[i] = r.out.Decode(&list[i]); failed[i] != nil {
				failed[i] = fmt.Errorf("process %d has ended: %w", i, failed[i])
			}
		})
	}
	all.Wait()
	return list, errors.Join(failed...)
}

// end waits until all have closed their logs and ended.
func (c *children) end() error {
	var errs []error
	for _, r := range c.list {
		errs = append(errs, r.in.Close())
	}
	for _, r := range c.list {
		errs = append(errs, r.command.Wait())
		r.ended = true
	}
	return errors.Join(errs...)
}

// kill ends those that still run.
func (c *children) kill() {
	if c == nil {
		return
	}
	for _, r := range c.list {
		if !r.ended {
			r.command.Process.Kill()
			r.command.Wait()
		}
	}
}
