// Command helm-witness is a witness of logs. It serves C2SP tlog-witness over HTTP, and keeps its
// key and all that it knows in one directory. See docs/witness.md.
//
//	helm-witness -dir DIR -name NAME -new
//	helm-witness -dir DIR -name NAME -logs FILE [-listen ADDRESS]
//
// The first makes the directory with a fresh key in it, and prints the verifier key. The second
// serves until it is interrupted. FILE has the verifier keys of the logs, one a line; empty lines
// and lines that begin with # are passed over. It is read once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph/witness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "helm-witness:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("helm-witness", flag.ContinueOnError)
	dir := flags.String("dir", "", "`directory` of the key and the latest checkpoints")
	name := flags.String("name", "", "`name` of the key in signature lines, such as witness.example.com/w1")
	fresh := flags.Bool("new", false, "make the directory and the key")
	logs := flags.String("logs", "", "`file` with the verifier keys of the logs")
	listen := flags.String("listen", "127.0.0.1:8123", "`address` to listen on")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	switch {
	case *dir == "" || *name == "" || flags.NArg() > 0:
		return errors.New("-dir and -name are needed, and nothing else than flags")
	case *fresh && *logs != "":
		return errors.New("-new or -logs, not both")
	case *fresh:
		return begin(*dir, *name, out)
	case *logs == "":
		return errors.New("-logs is needed, or -new")
	}
	known, err := readLogs(*logs)
	if err != nil {
		return err
	}
	w, err := open(*dir, *name, known)
	if err != nil {
		return err
	}
	return serve(ctx, w, *listen, out)
}

func keyFile(dir string) string { return filepath.Join(dir, "key.pem") }

// begin makes the directory and the key. The directory must not be there: to a key that has signed
// an empty one is never right.
func begin(dir, name string, out io.Writer) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir) // the key has signed nothing
		}
	}()
	key, err := crypto.GenerateKey()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(keyFile(dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(crypto.WriteKey(f, key), f.Sync(), f.Close()); err != nil {
		return err
	}
	w, err := open(dir, name, nil)
	if err != nil {
		return err
	}
	vkey, err := w.VerifierKey()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, vkey)
	return err
}

// readLogs returns the verifier keys in a file by the name of their log.
func readLogs(file string) (map[string][]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("-logs: %w", err)
	}
	known := map[string][]string{}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return nil, fmt.Errorf("-logs: line %d: not the verifier key of a log: %w", i+1, err)
		}
		known[v.Name()] = append(known[v.Name()], line)
	}
	if len(known) == 0 {
		return nil, errors.New("-logs: no verifier key")
	}
	return known, nil
}

// open returns the witness whose key and state are in the directory.
func open(dir, name string, known map[string][]string) (*witness.Witness, error) {
	f, err := os.Open(keyFile(dir))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	key, err := crypto.LoadKey(f)
	if err != nil {
		return nil, err
	}
	state, err := httpwitness.DirState(dir)
	if err != nil {
		return nil, err
	}
	return &witness.Witness{
		Name: name, Key: key, State: state, Logs: func(origin string) []string { return known[origin] },
	}, nil
}

// serve serves until the context ends. It prints the line that policies have of the witness.
func serve(ctx context.Context, w *witness.Witness, address string, out io.Writer) error {
	vkey, err := w.VerifierKey()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:        httpwitness.Handler(w),
		ReadTimeout:    10 * time.Second,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 16 << 10,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if _, err := fmt.Fprintf(out, "witness w1 %s http://%s\n", vkey, l.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second) // for requests that run
	defer cancel()
	return server.Shutdown(late)
}
