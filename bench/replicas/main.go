//go:build unix

// Replicas compares the cost of a log that several processes write to, in PostgreSQL, with the
// cost of a log in files that one process writes to. It prints tables in Markdown.
//
//	GOWORK=off go run ./replicas [-turns 5] [-for 5s] [-delay 1ms] [-disk] [-short]
//
// It starts a PostgreSQL server of its own, and needs the server's programs: see package pgtest.
// The logs and the database are below the directory of temporary files, so TMPDIR names the disk
// that is measured. A run takes about five minutes and 3 GB.
//
// A row is a log of its own and the processes that write to it, each with a kernel and its callers.
// Every call is a whole call of Kernel.Guard that is allowed, with arguments of about 900 bytes:
// judged, recorded, run (the tool answers at once), recorded; durable after both. Each caller has a
// session of its own. The outcome of each call is checked as it returns. In the row with one budget
// every call of every process is charged to the same balance, which does not run out.
//
// The processes of a row run for the time of -for, all from one moment on, and then wait while
// those of the other rows run; that happens as often as -turns says, and once before for warming.
// A figure is the median of its turns, and in brackets are the least and the greatest.
//
// Kernel is user and system time of a row's processes, garbage collection included. Server is that
// of the server's first process, of its children that have ended, and of those that run: also
// what it does in the background meanwhile. Table bytes are what the tables grew by, with indexes
// and what is free in them; log bytes are what the write-ahead log grew by. An append is a batch
// that the store took; a turn is one that was not guessed, or of which the guess was wrong (see
// package proofgraph).
//
// Before the rows the server writes more than max_wal_size, so that it goes on in files of its log
// that are there, as a server does that has run for a while. A new one makes each in an append.
//
// With -delay a proxy between processes and server holds back what each side sends, for that long,
// and lets any amount of it through at the same time. It counts round trips: how often a client
// sends after the server has answered. There is one row more then, of writers whose guesses are
// all refused, before they are sent: each append takes a turn, in which it reads, signs and writes.
//
// With -disk another program writes to four files on the same disk, a mebibyte at a time, and syncs
// each, from the first row to the last.
//
// After the measuring, each log must have the entries of every call that was made, and no other
// calls; Store.Check must hold of each log in the database, and a pack of one of them must verify,
// with every verdict the same. Otherwise there is no table.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if isChild() {
		os.Exit(child())
	}
	p := plan{most: 1_000_000, aged: true}
	flag.IntVar(&p.turns, "turns", 5, "how often each row is measured")
	flag.DurationVar(&p.each, "for", 5*time.Second, "how long each time")
	flag.DurationVar(&p.delay, "delay", 0, "what is sent to the server, and from it, comes that much later")
	flag.BoolVar(&p.disk, "disk", false, "another program writes to the disk meanwhile, and syncs")
	flag.StringVar(&p.profile, "profile", "", "a file for the processor profile of one process of the last row")
	short := flag.Bool("short", false, "one turn of a few calls, to see that it runs; its figures say nothing")
	flag.Parse()
	if *short {
		p.turns, p.most, p.aged = 1, 4, false
	}
	if err := p.run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "replicas:", err)
		os.Exit(1)
	}
}

// A plan is what is measured.
type plan struct {
	turns   int           // of each row, besides the one that warms it
	each    time.Duration // of a turn
	most    int           // calls of a caller in a turn
	aged    bool          // the server has written before
	delay   time.Duration
	disk    bool
	profile string
}

// run measures, and prints the tables.
func (p plan) run(w io.Writer) (err error) {
	if p.turns < 1 || p.each <= 0 || p.delay < 0 {
		return errors.New("-turns and -for are more than 0, and -delay is not less")
	}
	b, err := newBench(p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	before := load()
	if err := b.measure(); err != nil {
		return err
	}
	after := load()
	if err := b.check(); err != nil {
		return err
	}
	return b.print(w, before, after)
}
