//go:build unix

package acceptance

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// writes are the labels of the statements of a writer.
var writes = []string{"put", "begin", "log", "writer", "sessions", "balances", "write", "commit"}

// nth returns a function that reports whether a message is one after the nth of a writer's
// statements.
func nth(n int) func(*message) bool {
	return func(m *message) bool {
		if m.kind != 0 && isWrite(m.label) {
			n--
		}
		return n < 0
	}
}

func isWrite(label string) bool { return slices.Contains(writes, label) }

// await waits until a hook has done its part, or its process has ended: another one may have found
// it dead.
func (f *fleet) await(p *process, done chan struct{}) {
	f.Helper()
	f.eventually("the fault is made", func() bool {
		select {
		case <-done:
			return true
		default:
			return !p.running()
		}
	})
}

// What one side sends is lost from some message on, and later so is the connection.
func TestPacketsAreLost(t *testing.T) {
	t.Parallel()
	soak(t, server(t), faults(5), func(f *fleet, random *rand.Rand) {
		p := f.slots[random.IntN(slots)]
		wait := time.Duration(random.IntN(30)) * time.Millisecond
		var of *line
		var front bool
		at := nth(random.IntN(60))
		done := make(chan struct{})
		p.proxy.on(func(m *message) (bool, func()) {
			if of == nil && at(m) {
				of, front = m.line, m.front
				time.AfterFunc(wait, func() {
					m.line.client.Close()
					close(done)
				})
			}
			return m.line != of || m.front != front, nil
		})
		f.await(p, done)
		p.proxy.on(nil)
	})
}

// The answer to a commit is lost, and nothing else: the server has made it.
func TestAnswersAreLost(t *testing.T) {
	t.Parallel()
	soak(t, server(t), faults(5), func(f *fleet, random *rand.Rand) {
		p := f.slots[random.IntN(slots)]
		of := []string{"put", "commit"}[random.IntN(2)]
		skip := random.IntN(8)
		var lost *line
		done := make(chan struct{})
		p.proxy.on(func(m *message) (bool, func()) {
			if lost == nil && !m.front && m.label == of {
				if skip--; skip < 0 {
					lost = m.line
				}
			}
			if m.line != lost || m.front {
				return true, nil
			}
			if m.kind == 'Z' { // the commit was made
				return false, func() {
					m.line.client.Close()
					close(done)
				}
			}
			return false, nil
		})
		f.await(p, done)
		p.proxy.on(nil)
	})
}

// A statement is delivered after its client has connected again: at some step of connecting.
func TestStatementsComeLate(t *testing.T) {
	t.Parallel()
	delivered := map[string]int{}
	soak(t, server(t), faults(5), func(f *fleet, random *rand.Rand) {
		p := f.slots[random.IntN(slots)]
		of := []string{"put", "write"}[random.IntN(2)]
		whens := []string{"connect", "settings", "prepare", "lock", "terminate", "lock again", "raise", "put"}
		when := whens[random.IntN(len(whens))]
		var held []byte
		var old *line
		done := make(chan struct{})
		p.proxy.on(func(m *message) (bool, func()) {
			switch {
			case old == nil && m.front && m.label == of && m.kind == 'B':
				old, m.line.keeps = m.line, true
				held = append(held, m.bytes...)
				return false, nil
			case m.line == old && m.front && held != nil:
				held = append(held, m.bytes...)
				if m.kind == 'S' { // the statement is whole
					return false, func() { m.line.client.Close() }
				}
				return false, nil
			case old != nil && m.line != old && m.front && held != nil &&
				(m.label == when || m.label == "raise" && m.kind == 'S' || isWrite(m.label)):
				b := held
				held = nil
				delivered[m.label]++
				return true, func() { // or before: the server has the two on two connections
					old.server.Write(b)
					close(done)
				}
			}
			return true, nil
		})
		f.await(p, done)
		p.proxy.on(nil)
	})
	t.Logf("delivered while the client had come to: %v", delivered)
}
