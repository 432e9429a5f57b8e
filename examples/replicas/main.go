// Command replicas runs the tools of an agent in three processes that share one log in PostgreSQL:
// one budget, one use of an approval, one run of an idempotency key. A balancer hands the calls to
// them in turn. One process is killed in the middle of a payment, one is deployed again with a
// later policy, both while calls come in, and a freeze through one stops all. At the end the log is
// verified as one pack, and compared with the book of the bank, which knows nothing of HELM.
//
//	go run ./examples/replicas [-database URL]
//
// It starts a PostgreSQL server of its own if one is installed. With -database it uses one that
// runs: it makes a schema and three roles there, which it drops at the end.
//
// Read replica.go first, then balancer.go and deployment.go: they are what a deployment needs. The
// steps of story.go have a file each. If a call is answered otherwise than it must be, or if log
// and book differ, the example fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/helmkernel/helm/examples/internal/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(start(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// start is main with an exit status. Started as "replica NAME POLICY" it is a replica, which reads
// how it is deployed from its standard input.
func start(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) int {
	if len(args) == 3 && args[0] == "replica" {
		name, policyName := args[1], args[2]
		return command.Plain("replica "+name, nil, errs, func() error { return serve(ctx, name, policyName, in, out) })
	}
	f := flag.NewFlagSet("replicas", flag.ContinueOnError)
	url := f.String("database", "", "the `URL` of a PostgreSQL database, of a user who may make schemas and roles")
	return command.Run(f, args, errs, func() error { return run(ctx, out, *url) })
}

// tooLong is how long the whole of it may take: something hangs then.
const tooLong = 5 * time.Minute

func run(ctx context.Context, out io.Writer, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, tooLong)
	defer cancel()
	db, err := newDatabase(ctx, url)
	if errors.Is(err, errAbsent) {
		_, err := fmt.Fprintf(out, "not run: %v; or name a database with -database\n", err)
		return err
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	s, err := begin(ctx, out, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	return s.play(ctx)
}
