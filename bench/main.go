// Bench compares the cost of keeping signed receipts in a plain file, in bbolt, in SQLite, and in
// HELM. It prints tables in Markdown.
//
//	GOWORK=off go run . [-dir D] [-for 10s]
//
// There are three works, on real entries of a kernel with arguments of about 900 bytes. "receipt"
// stores one entry that is signed already. "DENY" is the record of a denied call: one entry, signed
// as it is written, and its inputs. "ALLOW" is the record of an allowed call: decision and inputs,
// durable, then the receipt, durable; two signatures. All rows of a work write the same bytes to
// the same disk, in slices of 0.2 s by turns.
//
// Peers get the bytes and, in DENY and ALLOW, make each entry as the kernel does: one Ed25519
// signature, envelope, base64. They judge nothing and run nothing. HELM's rows are whole calls of
// Kernel.Guard: arguments read, schema, rules, hashes, the tool run (it answers at once), chains,
// Merkle tree, signatures, store. After the measuring each store is opened again, and everything
// that was acknowledged must be there, byte for byte, once, and nothing else; of HELM's rows the
// chains too, and the signatures of one in 50. A table is printed only if all of that holds.
//
//	append + fsync        one growing file; each put is one write at its end and one fsync
//	write + fdatasync     one file, zeros written 1 MiB ahead, as filestore does;
//	                      with one caller this is "raw"
//	bbolt, Update         v1.5.0, default options; one put of number → entry and inputs
//	                      in one Update each
//	bbolt, Batch          the same by DB.Batch with its defaults: at most 1,000 calls or 10 ms
//	SQLite                modernc.org/sqlite v1.60.1, WAL, synchronous FULL; one connection,
//	                      one prepared INSERT and one transaction each
//	filestore, Append     HELM's store by itself, one Append each
//	Guard                 HELM
//	…, grouped            one write, transaction or Append for the puts that many callers make
//	                      while a put is under way, as a HELM log does it
//
// Raw is the median of the raw row, signatures included; sign is the median of one crypto/ed25519
// signature of 256 bytes. CPU is user and system time of this process, garbage collection included.
// Disk bytes are blocks of the files at the end, with the space that is written ahead. The tables
// of the default take about two minutes and 2 GB; a run that is interrupted leaves its directory,
// helm-bench-….
//
// The cost of deciding, and the answers of other policy engines, are compared by ./policies.
package main

import (
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"time"
)

func main() {
	dir := flag.String("dir", "",
		"directory on the disk to measure; a new one below it is used and removed (default: that of temporary files)")
	each := flag.Duration("for", 2*time.Second, "how long each row is measured")
	flag.Parse()
	const slice = 200 * time.Millisecond
	if err := run(os.Stdout, *dir, plan{max(1, int(*each/slice)), slice, math.MaxInt}); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run prints a table for each work.
func run(w io.Writer, dir string, p plan) error {
	h, err := newHost()
	if err != nil {
		return err
	}
	works, err := h.works()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w, "%s, %s/%s, %d cores; %d slices of %v a row\n", runtime.Version(), runtime.GOOS,
		runtime.GOARCH, runtime.GOMAXPROCS(0), p.slices, p.slice); err != nil {
		return err
	}
	for _, work := range works {
		if err := compare(w, dir, h, work, p); err != nil {
			return fmt.Errorf("%s: %w", work.name, err)
		}
	}
	return nil
}

func compare(w io.Writer, dir string, h *host, work work, p plan) error {
	dir, err := os.MkdirTemp(dir, "helm-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	results, err := measure(dir, rowsOf(h, work), p)
	if err != nil {
		return err
	}
	return table(w, work, results)
}
