//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// What the system says of processes and of its load: on Linux, in /proc.

// tick is the unit of /proc/PID/stat.
const tick = time.Second / 100

// serverTime returns the processor time of a server so far: of its first process, of its children
// that have ended, and of those that run. It is 0 if the system does not report it.
func serverTime(pid int) (time.Duration, error) {
	list, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(list) == 0 {
		return 0, err
	}
	ticks, found := int64(0), false
	for _, name := range list {
		s, err := readStat(name)
		if err != nil {
			continue // it has ended
		}
		if s.pid == pid {
			found = true
			ticks += s.user + s.system + s.childrenUser + s.childrenSystem
		} else if s.parent == pid {
			ticks += s.user + s.system
		}
	}
	if !found {
		return 0, fmt.Errorf("process %d is not in /proc", pid)
	}
	return time.Duration(ticks) * tick, nil
}

// A stat is what a file /proc/PID/stat says.
type stat struct {
	pid, parent                  int
	user, system                 int64
	childrenUser, childrenSystem int64 // of children that were waited for
}

func readStat(name string) (s stat, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return s, err
	}
	if _, err := fmt.Sscan(string(b), &s.pid); err != nil {
		return s, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:])) // from the third on
	if len(fields) < 15 {
		return s, fmt.Errorf("%s: %d fields", name, len(fields)+2)
	}
	_, err = fmt.Sscan(fields[1]+" "+strings.Join(fields[11:15], " "), &s.parent, &s.user, &s.system, &s.childrenUser,
		&s.childrenSystem)
	return s, err
}

// load returns the load average of the last minute, of the last 5 and of the last 15.
func load() string {
	b, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(b)); err == nil && len(fields) > 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}
