//go:build unix

package main

import "time"

const many = 64 // callers of a process

// A row is a log and who writes to it.
type row struct {
	name      string
	processes int
	callers   int // of each process
	shared    bool
	budget    bool
	alone     bool // turns alone: nothing is guessed
}

// The names of the rows.
const (
	filesOne   = "filestore, 1 process × 1 caller"
	filesMany  = "filestore, 1 × 64"
	sharedOne  = "PostgreSQL, 1 × 1"
	sharedMany = "PostgreSQL, 1 × 64"
	turnsAlone = "PostgreSQL, 4 × 64, turns alone"
	fourBudget = "PostgreSQL, 4 × 64, one budget"
	four       = "PostgreSQL, 4 × 64"
)

// rows returns the rows of a run.
func (p plan) rows() []row {
	rows := []row{
		{name: filesOne, processes: 1, callers: 1},
		{name: filesMany, processes: 1, callers: many},
		{name: sharedOne, processes: 1, callers: 1, shared: true},
		{name: sharedMany, processes: 1, callers: many, shared: true},
		{name: fourBudget, processes: 4, callers: many, shared: true, budget: true},
	}
	if p.delay > 0 {
		rows = append(rows, row{name: turnsAlone, processes: 4, callers: many, shared: true, alone: true})
	}
	return append(rows, row{name: four, processes: 4, callers: many, shared: true})
}

// A bound is what a figure of a run has to hold.
type bound struct {
	what  string
	least bool // else at most
	limit float64
	value func(b results) float64
}

// bounds returns the bounds that a run of this plan is held to. The others are of another plan.
func (p plan) bounds() []bound {
	over := func(a, b string, f figure) func(results) float64 {
		return func(r results) float64 { return r[a].median(f) / r[b].median(f) }
	}
	of := func(name string, f figure) func(results) float64 {
		return func(r results) float64 { return r[name].median(f) }
	}
	switch {
	case p.delay > 0:
		return []bound{
			{"calls/s, 4 × 64 over turns alone", true, 2, over(four, turnsAlone, rate)},
			{"round trips of a call, one caller", false, 2.1, of(sharedOne, trips)},
		}
	case p.disk:
		return []bound{{"calls/s, 4 × 64 over filestore's 1 × 64", true, 0.7, over(four, filesMany, rate)}}
	}
	return []bound{
		{"p50, one caller over filestore's", false, 4, over(sharedOne, filesOne, p50)},
		{"calls/s, 4 × 64 over filestore's 1 × 64", true, 0.45, over(four, filesMany, rate)},
		{"calls/s, 4 × 64 with one budget over filestore's 1 × 64", true, 0.3, over(fourBudget, filesMany, rate)},
		{"calls/s, 4 × 64 over PostgreSQL's 1 × 64", true, 1, over(four, sharedMany, rate)},
		{"kernel CPU of a call, 4 × 64 over filestore's 1 × 64", false, 2.2, over(four, filesMany, kernel)},
		{"server CPU µs of a call, 4 × 64", false, 110, of(four, server)},
		{"server CPU µs of a call, 4 × 64 with one budget", false, 130, of(fourBudget, server)},
		{"table bytes of a call, 4 × 64", false, 5500, of(four, tables)},
		{"log bytes of a call, 4 × 64", false, 6500, of(four, wal)},
	}
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
