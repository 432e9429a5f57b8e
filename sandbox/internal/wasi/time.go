package wasi

import (
	"encoding/binary"
	"math"

	"github.com/helmkernel/helm/sandbox/internal/files"
)

// Clocks. There are no others.
const (
	clockReal      = 0
	clockMonotonic = 1
)

// now returns false if there is no such clock.
func (w *World) now(clock uint64) (uint64, bool) {
	switch uint32(clock) {
	case clockReal:
		return w.host.Wall(), true
	case clockMonotonic:
		return w.host.Monotonic(), true
	}
	return 0, false
}

func (w *World) clockResolution(m memory, a []uint64) files.Errno {
	if uint32(a[0]) > clockMonotonic {
		return files.Invalid
	}
	return m.put64(a[1], 1)
}

func (w *World) clockTime(m memory, a []uint64) files.Errno {
	if _, ok := m.bytes(a[2], 8); !ok {
		return files.Fault
	}
	t, ok := w.now(a[0])
	if !ok {
		return files.Invalid
	}
	return m.put64(a[2], t)
}

const (
	subscription = 48
	event        = 32
)

// pollOneoff waits for the first of several things. Descriptors are always ready; clocks are waited
// for only if there is nothing else.
func (w *World) pollOneoff(m memory, a []uint64) files.Errno {
	n := uint64(uint32(a[2]))
	in, ok := m.bytes(a[0], n*subscription)
	out, fits := m.bytes(a[1], n*event)
	_, counts := m.bytes(a[3], 4)
	switch {
	case n == 0:
		return files.Invalid
	case !ok || !fits || !counts:
		return files.Fault
	}
	first, wait, ready := uint64(0), uint64(math.MaxUint64), false
	for i := range n {
		if i%chunk == 0 {
			w.host.Check()
		}
		switch s := in[i*subscription:][:subscription]; s[8] {
		case 0:
			left, errno := w.left(s)
			if left < wait {
				first, wait = i, left
			}
			ready = ready || errno != files.OK
		case 1, 2:
			ready = true
		default:
			return files.Invalid
		}
	}
	if ready {
		first, wait = n, 0
	} else if wait > 0 {
		w.host.Sleep(wait)
	}
	events := uint32(0)
	for i := range n {
		if i%chunk == 0 {
			w.host.Check()
		}
		// The guest may have its events written over its subscriptions.
		if e, happened := w.event([subscription]byte(in[i*subscription:]), wait); happened || i == first {
			copy(out[uint64(events)*event:], e[:])
			events++
		}
	}
	return m.put32(a[3], events)
}

// left returns how long it is until the time that a subscription to a clock names.
func (w *World) left(s []byte) (uint64, files.Errno) {
	until := binary.LittleEndian.Uint64(s[24:])
	now, ok := w.now(uint64(binary.LittleEndian.Uint32(s[16:])))
	switch flags := binary.LittleEndian.Uint16(s[40:]); {
	case !ok || flags > 1:
		return math.MaxUint64, files.Invalid
	case flags == 0: // from now on
		return until, files.OK
	}
	return until - min(now, until), files.OK
}

// event returns the event for a subscription, and whether it has happened after waiting so long.
func (w *World) event(s [subscription]byte, waited uint64) (e [event]byte, happened bool) {
	copy(e[:8], s[:8])
	e[10] = s[8]
	errno := files.OK
	switch s[8] {
	case 0:
		var left uint64
		left, errno = w.left(s[:])
		absolute := s[40] == 1
		happened = errno != files.OK || left == 0 || !absolute && left <= waited
	case 1, 2:
		happened = true
		var size uint64
		size, errno = w.available(binary.LittleEndian.Uint32(s[16:]), s[8] == 2)
		binary.LittleEndian.PutUint64(e[16:], size)
	}
	binary.LittleEndian.PutUint16(e[8:], uint16(errno))
	return e, happened
}

// available returns how much can be read, or for a descriptor to write to, 0.
func (w *World) available(fd uint32, write bool) (uint64, files.Errno) {
	d := w.open[fd]
	switch {
	case d == nil || d.dir || write && !d.write || !write && !d.read:
		return 0, files.BadFile
	case write:
		return 0, files.OK
	case d.file == nil:
		return uint64(len(w.stdin)) - min(d.offset, uint64(len(w.stdin))), files.OK
	}
	s, errno := d.file.Stat()
	return s.Size - min(d.offset, s.Size), errno
}
