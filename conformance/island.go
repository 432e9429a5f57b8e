package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/evidence"
)

// Gate 11: all of it works without a network. A case starts the program that runs once more, in a
// user and a network namespace of its own, and the case's work is done there.

// Variables of the environment of a program on an island.
const (
	islandCase = "HELM_CONFORMANCE_ISLAND" // the case to run
	islandDial = "HELM_CONFORMANCE_DIAL"   // an address at which the program outside listens
)

// init runs one case of island mode and ends the program, if [Run] started it for that. Before main
// is the one place that every program has which calls Run.
func init() {
	name := os.Getenv(islandCase)
	if name == "" {
		return
	}
	for _, c := range islandWork() {
		if c.name != name {
			continue
		}
		if what := c.run(context.Background(), newSubject()); what != "" {
			fmt.Fprintln(os.Stderr, what)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fmt.Fprintln(os.Stderr, "no such case")
	os.Exit(1)
}

// islandWork is what is done on an island.
func islandWork() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	add("no interface is up, and no dial succeeds", func(t *trial) {
		interfaces, err := net.Interfaces()
		t.must(err, "the interfaces")
		for _, i := range interfaces {
			t.check(i.Flags&net.FlagLoopback != 0, "an interface that is no loopback")
			t.check(i.Flags&net.FlagUp == 0, "the loopback is up")
		}
		outside := os.Getenv(islandDial)
		t.check(outside != "", "nobody listens outside")
		for _, network := range []string{"tcp", "udp"} {
			for _, address := range []string{outside, "[::1]:9", "192.0.2.1:9"} {
				c, err := net.DialTimeout(network, address, time.Second)
				if err == nil {
					c.Close()
				}
				t.check(err != nil, "a %s dial succeeds", network)
			}
		}
	})
	for _, s := range storages {
		add("allowed and denied calls, a pack, and its verification with replay, "+s.name, func(t *trial) {
			w := everyReason(t, s.at)
			report := w.verified()
			t.check(report.Replay.Replayed > 0, "nothing was replayed")
			o := evidence.Options{Kernel: publicOf("kernel"), Origin: origin}
			report, err := w.verify(w.pack(), o)
			t.must(err, "the pack, with the kernel's key")
			t.check(report.Success(evidence.Intact), "the pack is %s", report.Level)
		})
	}
	add("a restart, an approval and a trust event, on files", func(t *trial) {
		w := bank(t, onFiles)
		yes := approve(w, asks(w, rent()), "ann")
		w.reopen()
		w.wantRun(rent(yes))
		id := keyID("bob")
		govern(w, next(w, contracts.TrustEvent{Type: "revoke", ID: &id, Why: "a case"}), "root")
		w.verified()
	})
	return list
}

// islandCases are the gate of island mode. It is not run if the system has no namespaces.
func islandCases(o Options) ([]gateCase, string) {
	if why := noIsland(); why != "" {
		return nil, why
	}
	var list []gateCase
	for _, c := range islandWork() {
		list = append(list, gateCase{c.name, func(t *trial) {
			program, err := os.Executable()
			t.must(err, "the program that runs")
			l, err := net.Listen("tcp", "127.0.0.1:0")
			t.must(err, "listening outside")
			t.after(func() { l.Close() })
			outside, err := net.DialTimeout("tcp", l.Addr().String(), time.Second)
			t.must(err, "dialing outside, or failing on the island would show nothing")
			outside.Close()
			onIsland(t, program, islandCase+"="+c.name, islandDial+"="+l.Addr().String())
		}})
	}
	for _, program := range o.Programs {
		list = append(list, gateCase{"the program " + filepath.Base(program), func(t *trial) { onIsland(t, program) }})
	}
	return list, ""
}

// islandTime is how long a program may take on an island.
const islandTime = time.Minute

// onIsland runs a program in namespaces of its own. It must end well.
func onIsland(t *trial, program string, environment ...string) {
	ctx, cancel := context.WithTimeout(t.ctx, islandTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "conformance")
	t.must(err, "a folder for the program")
	t.after(func() { os.RemoveAll(dir) })
	program, err = filepath.Abs(program)
	t.must(err, "the program")
	c := exec.CommandContext(ctx, program)
	c.Dir, c.Env = dir, append(os.Environ(), environment...)
	var said bytes.Buffer
	c.Stderr = &said
	isolate(c)
	err = c.Run()
	var ended *exec.ExitError
	if len(environment) > 0 && errors.As(err, &ended) { // our own words, not a program's
		t.fail("%s", bytes.TrimSpace(said.Bytes()))
	}
	t.must(err, "the program")
}

// noIsland returns why no program can be run on an island, or "".
func noIsland() string {
	if !isolates {
		return "network namespaces are of Linux"
	}
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), islandCase+"=none")
	isolate(c)
	if err := c.Start(); err != nil {
		return "the system permits no user and network namespaces"
	}
	_ = c.Wait() // it ends with an error: there is no such case
	return ""
}
