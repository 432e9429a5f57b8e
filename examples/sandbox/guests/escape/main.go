//go:build wasip1

// Escape is a guest that tries to get out, in the way that it is told. What it prints begins with
// "stopped" or with "ESCAPED".
//
//	GOOS=wasip1 GOARCH=wasm go build -o escape.wasm ./examples/sandbox/guests/escape
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Guest paths: a directory of the host that may be read, one that may be written, and what the host
// keeps above them.
const (
	in     = "/in"
	out    = "/out"
	secret = "secret.txt"
)

// A way returns what it got hold of, or why it did not.
type way func() (string, error)

var ways = map[string]way{
	"read an absolute path":            read("/etc/passwd"),
	"read above the directory":         func() (string, error) { return open(inFD, "../"+secret) },
	"read by way of ..":                func() (string, error) { return open(inFD, "sub/../../"+secret) },
	"read a link to a file":            read(in + "/file"),
	"read through a link to a folder":  read(in + "/up/" + secret),
	"read through a link to /proc":     read(in + "/proc/self/environ"),
	"list through a link to a folder":  func() (string, error) { return list(in + "/up") },
	"make an absolute link":            func() (string, error) { return done(os.Symlink("/etc", out+"/etc")) },
	"make a relative link":             func() (string, error) { return done(os.Symlink("..", out+"/above")) },
	"make a hard link to a link":       func() (string, error) { return done(os.Link(out+"/file", out+"/hard")) },
	"rename out":                       func() (string, error) { return rename(outFD, "own.txt", "../own.txt") },
	"make a folder outside":            func() (string, error) { return mkdir(outFD, "../made") },
	"write through a link":             write(out + "/file"),
	"remove through a link":            func() (string, error) { return done(os.Remove(out + "/up/" + secret)) },
	"write what may be read":           write(in + "/own.txt"),
	"make a file where it may be read": write(in + "/new.txt"),
	"truncate what may be read":        func() (string, error) { return done(os.Truncate(in+"/own.txt", 0)) },
	"open a FIFO":                      read(in + "/fifo"),
	"renumber and close descriptors":   preopens,
	"open 10,000 files":                descriptors,
	"read the environment":             environment,
	"read the arguments of the host":   arguments,
	"read the clock of the host":       clock,
	"open a socket":                    socket,
	"sleep for a year":                 sleep,
	"exit with success, and nothing":   func() (string, error) { os.Exit(0); return "", nil },
	"exit with 3":                      func() (string, error) { os.Exit(3); return "", nil },
	"loop for ever": func() (string, error) {
		for {
			turns++
		}
	},
	"recurse for ever":      func() (string, error) { return fmt.Sprint(recurse(0)), nil },
	"allocate for ever":     allocate,
	"print 1 GiB":           func() (string, error) { return flood(os.Stdout) },
	"print 1 GiB of errors": func() (string, error) { return flood(os.Stderr) },
}

func main() {
	var args struct{ Way string }
	if err := json.NewDecoder(os.Stdin).Decode(&args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	try := ways[args.Way]
	if try == nil {
		fmt.Fprintln(os.Stderr, "no such way")
		os.Exit(1)
	}
	if got, err := try(); err != nil {
		fmt.Println("stopped:", err)
	} else {
		fmt.Println("ESCAPED:", got)
	}
}

func done(err error) (string, error) { return "it is done", err }

func read(name string) way {
	return func() (string, error) {
		b, err := os.ReadFile(name)
		return string(b), err
	}
}

func write(name string) way {
	return func() (string, error) { return done(os.WriteFile(name, []byte("was here"), 0o600)) }
}

func list(name string) (string, error) {
	entries, err := os.ReadDir(name)
	return fmt.Sprint(entries), err
}

// descriptors opens one file until it may not.
func descriptors() (string, error) {
	var files []*os.File
	for range 10_000 {
		f, err := os.Open(in + "/own.txt")
		if err != nil {
			return "", fmt.Errorf("after %d: %w", len(files), err)
		}
		files = append(files, f)
	}
	return fmt.Sprint(len(files), " files"), nil
}

func environment() (string, error) {
	if all := os.Environ(); len(all) > 0 {
		return strings.Join(all, " "), nil
	}
	return "", fmt.Errorf("it is empty")
}

func arguments() (string, error) {
	if len(os.Args) > 1 {
		return strings.Join(os.Args, " "), nil
	}
	return "", fmt.Errorf("there is only the name of the tool, %s", os.Args[0])
}

// clock looks for a time that goes on by itself. That of a decision does not.
func clock() (string, error) {
	now := time.Now().UTC()
	if now.Year() > 2001 {
		return now.String(), nil
	}
	return "", fmt.Errorf("it is the time of the decision, in %d", now.Year())
}

func sleep() (string, error) {
	time.Sleep(365 * 24 * time.Hour)
	return "a year", nil
}

var turns, kept = 0, [][]byte(nil)

func recurse(n int) int { return recurse(n+1) + turns }

func allocate() (string, error) {
	for {
		b := make([]byte, 1<<20)
		b[0] = 1
		kept = append(kept, b)
	}
}

func flood(f *os.File) (string, error) {
	b := []byte(strings.Repeat("x", 1<<16))
	for range 1 << 14 {
		if _, err := f.Write(b); err != nil {
			return "", err
		}
	}
	return "1 GiB", nil
}
