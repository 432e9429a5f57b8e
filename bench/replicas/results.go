//go:build unix

package main

import (
	"slices"
	"time"
)

// A turn is one measurement of a row.
type turn struct {
	took           []time.Duration // of each call, sorted
	wall           time.Duration   // of the process that took longest
	kernel, server time.Duration   // processor time
	tables, wal    int64           // bytes
	trips          int64           // round trips, if there is a delay
	appends        appends
}

// A figure is one of a turn.
type figure func(t *turn) float64

func rate(t *turn) float64   { return float64(len(t.took)) / t.wall.Seconds() }
func p50(t *turn) float64    { return micros(t.took[len(t.took)/2]) }
func p99(t *turn) float64    { return micros(t.took[len(t.took)*99/100]) }
func kernel(t *turn) float64 { return micros(t.kernel) / float64(len(t.took)) }
func server(t *turn) float64 { return micros(t.server) / float64(len(t.took)) }
func tables(t *turn) float64 { return float64(t.tables) / float64(len(t.took)) }
func wal(t *turn) float64    { return float64(t.wal) / float64(len(t.took)) }
func trips(t *turn) float64  { return float64(t.trips) / float64(len(t.took)) }

// entries returns how many entries an append had.
func entries(t *turn) float64 { return float64(t.appends.Entries) / float64(t.appends.all()) }

// turns returns how many of 100 appends were turns.
func turns(t *turn) float64 { return 100 * float64(t.appends.Turns) / float64(t.appends.all()) }

// A result is the measurements of a row.
type result []*turn

// results are those of a run, by the names of rows.
type results map[string]result

func (r result) sorted(f figure) []float64 {
	list := make([]float64, 0, len(r))
	for _, t := range r {
		list = append(list, f(t))
	}
	slices.Sort(list)
	return list
}

func (r result) median(f figure) float64 {
	list := r.sorted(f)
	return list[len(list)/2]
}

// spread returns the least and the greatest.
func (r result) spread(f figure) (least, greatest float64) {
	list := r.sorted(f)
	return list[0], list[len(list)-1]
}
