package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// A deployment has the processes of the replicas, and the balancer that hands them calls.
type deployment struct {
	config   config
	balancer *balancer
	running  map[string]*process // by name
}

// A process is this program again, as a replica.
type process struct {
	command *exec.Cmd
	errs    bytes.Buffer
}

// start starts a replica with one of the policies, and has it take calls when it is ready.
func (d *deployment) start(ctx context.Context, name, policyName string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	p := &process{command: exec.CommandContext(ctx, program, "replica", name, policyName)}
	p.command.Stderr = &p.errs
	in, err := p.command.StdinPipe()
	if err != nil {
		return err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.command.Start(); err != nil {
		return err
	}
	err = json.NewEncoder(in).Encode(d.config)
	url, unread := bufio.NewReader(out).ReadString('\n')
	if err != nil || unread != nil {
		in.Close()
		return fmt.Errorf("it does not start: %w", p.wait())
	}
	d.running[name] = p
	d.balancer.put(name, strings.TrimSpace(url))
	return nil
}

// stop ends a replica as a deploy does: it gets no more calls, and ends when it has answered those
// that it has.
func (d *deployment) stop(name string) error {
	d.balancer.drain(name)
	p := d.running[name]
	delete(d.running, name)
	return errors.Join(p.command.Process.Signal(syscall.SIGTERM), p.wait())
}

// kill ends a replica at once, as kill -9 does. Nobody tells the balancer.
func (d *deployment) kill(name string) error {
	p := d.running[name]
	delete(d.running, name)
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	p.wait() // which says that it was killed
	return nil
}

// end ends all replicas that run.
func (d *deployment) end() (err error) {
	for name := range d.running {
		err = errors.Join(err, d.stop(name))
	}
	return err
}

// wait waits until the process has ended. Its error has what the process said.
func (p *process) wait() error {
	err := p.command.Wait()
	if said := bytes.TrimSpace(p.errs.Bytes()); len(said) > 0 {
		return errors.New(string(said))
	}
	return err
}
