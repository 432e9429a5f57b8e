package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/sandbox"
)

// Ways by which a guest tries to get out: of two directories of the host, and of a closed sandbox.
var (
	fromFiles = []string{
		"read an absolute path", "read above the directory", "read by way of ..", "read a link to a file",
		"read through a link to a folder", "read through a link to /proc", "list through a link to a folder",
		"make an absolute link", "make a relative link", "make a hard link to a link", "rename out",
		"make a folder outside", "write through a link", "remove through a link", "write what may be read",
		"make a file where it may be read", "truncate what may be read", "open a FIFO",
		"renumber and close descriptors", "open 10,000 files",
	}
	fromClosed = []string{
		"read the environment", "read the arguments of the host", "read the clock of the host", "open a socket",
		"sleep for a year", "exit with success, and nothing", "exit with 3", "loop for ever", "recurse for ever",
		"allocate for ever", "print 1 GiB", "print 1 GiB of errors",
	}
)

// escapes has a guest try each way, and prints what became of it.
func (h *host) escapes(ctx context.Context) error {
	y, err := newYard()
	if err != nil {
		return err
	}
	defer os.RemoveAll(y.dir)
	dirs := map[string]*os.Root{}
	for at, name := range map[string]string{"/in": "in", "/out": "out"} {
		if dirs[at], err = os.OpenRoot(filepath.Join(y.dir, name)); err != nil {
			return err
		}
		defer dirs[at].Close()
	}
	files, err := h.runtime.Load(ctx, h.guests["escape"], "yard",
		contracts.Sandbox{Files: map[string]string{"/in": "read", "/out": "write"}}, sandbox.Host{Dirs: dirs})
	if err != nil {
		return err
	}
	closed, err := h.runtime.Load(ctx, h.guests["escape"], contracts.ProfilePure, contracts.Sandbox{}, sandbox.Host{})
	if err != nil {
		return err
	}
	store := proofgraph.NewMemory()
	k, err := h.kernel(store, map[string]executor.Driver{"escape.files": files, "escape": closed})
	if err != nil {
		return err
	}
	defer k.Close()

	fmt.Fprintln(h.out, "\nA module tries to get out:")
	w := tabwriter.NewWriter(h.out, 0, 0, 2, ' ', 0)
	out, tried := 0, 0
	try := func(tool string, ways []string) {
		for _, way := range ways {
			d, r := k.Guard(ctx, call(tool, map[string]string{"way": way}))
			said := strings.TrimSpace(string(r.Output))
			if said == "" {
				said = d.Why
			}
			if tried++; strings.HasPrefix(said, "ESCAPED") {
				out++
			}
			fmt.Fprintf(w, "  %s\t%v\t%s\t%s\n", way, d.Verdict, d.Reason, said)
		}
	}
	try("escape.files", fromFiles)
	try("escape", fromClosed)
	w.Flush()
	fmt.Fprintf(h.out, "%d ways, %d got out. What the host keeps beside the directories: %s\n", tried, out, y.changes())
	if _, err := k.Checkpoint(ctx); err != nil {
		return err
	}
	fmt.Fprintln(h.out, "The auditor runs again what ran in the closed sandbox:")
	return h.audit(ctx, store, k.Trust(), true)
}

// A yard is a directory of the host with two that are granted to a guest. Links in these lead out.
type yard struct{ dir string }

func newYard() (*yard, error) {
	dir, err := os.MkdirTemp("", "helm-yard-")
	if err != nil {
		return nil, err
	}
	y := &yard{dir}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"in/sub", "out"} {
		if err = os.MkdirAll(at(name), 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"secret.txt": "the secret", "in/own.txt": "own", "out/own.txt": "own"} {
		if err = os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	for name, to := range map[string]string{"in/file": "../secret.txt", "in/up": "..", "in/proc": "/proc",
		"out/file": at("secret.txt"), "out/up": ".."} {
		if err = os.Symlink(to, at(name)); err != nil {
			return nil, err
		}
	}
	return y, exec.Command("mkfifo", at("in/fifo")).Run()
}

// changes says what a guest changed outside, and in the directory that it may only read.
func (y *yard) changes() string {
	secret, err := os.ReadFile(filepath.Join(y.dir, "secret.txt"))
	own, ownErr := os.ReadFile(filepath.Join(y.dir, "in/own.txt"))
	entries, _ := os.ReadDir(y.dir)
	in, _ := os.ReadDir(filepath.Join(y.dir, "in"))
	if err != nil || ownErr != nil || string(secret) != "the secret" || string(own) != "own" || len(entries) != 3 ||
		len(in) != 6 {
		return "CHANGED"
	}
	return "unchanged."
}
