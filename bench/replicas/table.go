//go:build unix

package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"
)

// print prints the tables of a run.
func (b *bench) print(w io.Writer, before, after string) error {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, %s/%s, %d cores, %s; %d turns a row, each of %v or %d calls of a caller\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), b.version, b.turns, b.each, b.most)
	fmt.Fprintf(&s, "Load average: before %s; after %s. sign %.1f µs; write + fdatasync of 4 KB %.0f µs; "+
		"round trip to the server %.0f µs.\n", before, after,
		micros(middle(b.bare.signs)), micros(middle(b.bare.syncs)), micros(middle(b.bare.rounds)))
	if b.disk != nil {
		fmt.Fprintf(&s, "Another program wrote to the disk: %.0f writes of %d KB a second, each synced.\n",
			float64(b.synced)/b.took.Seconds(), writeSize>>10)
	}
	if b.proxy != nil {
		fmt.Fprintf(&s, "What is sent comes %v later, each way. One caller's median is %.2f round trips.\n", b.delay,
			b.results[sharedOne].median(p50)/micros(middle(b.bare.rounds)))
	}
	calls := 0
	for _, l := range b.logs {
		calls += l.calls
	}
	fmt.Fprintf(&s, "The logs have every one of %d calls, with those of warming; a pack of one log has verified.\n",
		calls)
	b.rowsTable(&s)
	b.boundsTable(&s)
	_, err := io.WriteString(w, s.String())
	return err
}

func (b *bench) rowsTable(s *strings.Builder) {
	columns := []struct {
		name   string
		format string
		of     figure
		shared bool // it is nothing of a log in files
		spread bool
	}{
		{"calls/s", "%.0f", rate, false, true},
		{"p50 µs", "%.0f", p50, false, true},
		{"p99 µs", "%.0f", p99, false, true},
		{"kernel CPU µs a call", "%.0f", kernel, false, true},
		{"server CPU µs a call", "%.0f", server, true, true},
		{"table bytes a call", "%.0f", tables, true, false},
		{"log bytes a call", "%.0f", wal, true, false},
		{"entries an append", "%.1f", entries, false, false},
		{"turns of 100 appends", "%.0f", turns, true, false},
		{"round trips a call", "%.2f", trips, true, false},
	}
	if b.proxy == nil {
		columns = columns[:len(columns)-1]
	}
	fmt.Fprint(s, "\n| row |")
	for _, c := range columns {
		fmt.Fprintf(s, " %s |", c.name)
	}
	fmt.Fprintf(s, "\n|---|%s\n", strings.Repeat("--:|", len(columns)))
	for _, l := range b.logs {
		fmt.Fprintf(s, "| %s |", l.name)
		for _, c := range columns {
			if c.shared && !l.shared {
				fmt.Fprint(s, " – |")
				continue
			}
			r := b.results[l.name]
			fmt.Fprintf(s, " "+c.format, r.median(c.of))
			if c.spread {
				least, greatest := r.spread(c.of)
				fmt.Fprintf(s, " ("+c.format+"–"+c.format+")", least, greatest)
			}
			fmt.Fprint(s, " |")
		}
		fmt.Fprintln(s)
	}
}

func (b *bench) boundsTable(s *strings.Builder) {
	fmt.Fprint(s, "\n| figure | bound | here | |\n|---|--:|--:|---|\n")
	for _, x := range b.bounds() {
		sign, here := "≤", x.value(b.results)
		ok := here <= x.limit
		if x.least {
			sign, ok = "≥", here >= x.limit
		}
		says := map[bool]string{true: "ok", false: "NOT MET"}[ok]
		format := "%.2f"
		if x.limit >= 100 {
			format = "%.0f"
		}
		fmt.Fprintf(s, "| %s | %s %g | "+format+" | %s |\n", x.what, sign, x.limit, here, says)
	}
}
