package main

import (
	"fmt"
	"io"
	"time"
)

// table prints a work's results as Markdown.
func table(w io.Writer, work work, results []*result) error {
	sign, all, raw := find(results, signName, 1), results[1], find(results, rawName, 1)
	if sign == nil || raw == nil || all.name != signName {
		return fmt.Errorf("%s: the rows that others are compared with are not there", work.name)
	}
	signed := "signed before"
	if work.signs {
		signed = "each record signed as it is written"
	}
	_, err := fmt.Fprintf(w, `
### %s: %d bytes in %d durable write(s), %s

sign is %.1f µs; all cores sign %.0f/s. raw is %.0f µs.

%s
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|
`, work.name, work.size(), len(work.calls[0]), signed,
		micros(sign.median()), all.rate(), micros(raw.median()),
		"| row | callers | median µs | p99 µs | calls/s | calls/s × cores' signs | median × raw | median × sign "+
			"| CPU µs a call | CPU × sign | disk bytes a call |")
	for _, r := range results {
		n := len(r.latencies)
		if err != nil || r.name == signName {
			continue
		}
		cpu := r.cpu / time.Duration(n)
		_, err = fmt.Fprintf(w, "| %s | %d | %.0f | %.0f | %.0f | %.3f | %.2f | %.1f | %s | %s | %s |\n", r.name,
			r.callers,
			micros(r.median()), micros(r.latencies[n*99/100]), r.rate(), r.rate()/all.rate(),
			over(r.median(), raw.median()), over(r.median(), sign.median()),
			known(cpu > 0, "%.0f", micros(cpu)), known(cpu > 0, "%.1f", over(cpu, sign.median())),
			known(r.disk > 0, "%.0f", float64(r.disk)/float64(r.all)))
	}
	return err
}

func find(results []*result, name string, callers int) *result {
	for _, r := range results {
		if r.name == name && r.callers == callers {
			return r
		}
	}
	return nil
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }

func over(a, b time.Duration) float64 { return float64(a) / float64(b) }

func known(is bool, format string, x float64) string {
	if !is {
		return "–"
	}
	return fmt.Sprintf(format, x)
}
