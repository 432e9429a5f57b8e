// Command helm works on the policies, logs and packs of HELM, from a shell.
//
// Results are on stdout, all else is on stderr. It exits with
//
//	0  if the answer is yes
//	1  if the answer is no: a policy that does not load, a case that fails, a pack that is INVALID
//	2  if it was called wrongly
//	3  if there is no answer: a file that cannot be read, an interrupt
//
// With --json results are JSON, one document, and errors are {"error": …} on stderr. Every command
// works without a network, but for reaching an MCP server at a URL. Commands that serve export
// spans and metrics if OTEL_EXPORTER_OTLP_ENDPOINT is set, and nothing else does.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGPIPE) // a closed stdout is an error of its write, and no silent end
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
