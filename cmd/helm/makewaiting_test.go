package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/faces/state"
)

// makeWaiting opens the state directory of helm.yaml and makes a call of pay with the arguments of
// the command line, as a face does: with the answers that there are. It prints the nonce of the
// request that waits, or the reason. With hold for arguments it makes a file held, and holds the
// directory until there is a file free.
func makeWaiting() {
	if err := makeCall(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// await waits until there is a file.
func await(name string) error {
	for range 6000 {
		if exists(name) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no file %s came", name)
}

// awaitFile FILE waits until there is that file.
func awaitFile(ts *testscript.TestScript, _ bool, args []string) { ts.Check(await(ts.MkAbs(args[0]))) }

// setNonce FILE sets NONCE to what the file has.
func setNonce(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("NONCE", strings.TrimSpace(ts.ReadFile(args[0])))
}

type paid struct{}

func (paid) Run(context.Context, contracts.Call) (executor.Result, error) {
	return executor.Result{Output: []byte(`"paid"`)}, nil
}

func makeCall(ctx context.Context, args string) error {
	c, err := state.ReadConfig("helm.yaml")
	if err != nil {
		return err
	}
	s, err := state.Open(ctx, c, state.Options{Drivers: map[string]helm.Driver{"pay": paid{}}})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	if args == "hold" {
		if err := os.WriteFile("held", nil, 0o600); err != nil {
			return err
		}
		return await("free")
	}
	k, who := s.Kernel(), helm.Caller{ID: "ann"}
	list := s.Approvals().For(ctx, who, "s", "pay", []byte(args), k.Policy().Hash())
	d, _ := k.Guard(ctx, helm.Intent{Tool: "pay", Args: []byte(args), Caller: who, Session: "s", Approvals: list})
	if d.Pending == nil {
		fmt.Println(d.Verdict, d.Reason)
		return nil
	}
	nonce, err := s.Approvals().Ask(d.Pending, d.Args)
	fmt.Println(nonce)
	return err
}
