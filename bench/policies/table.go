package main

import (
	"fmt"
	"io"
	"strings"
)

// table prints results in full.
func table(w io.Writer, copies int, form string, results []*result) error {
	helm, asked, allowed := 0.0, results[0].mix.asked, 0
	for _, r := range results {
		if r.name == "HELM" {
			helm, _, _ = r.mix.each()
		}
	}
	for _, q := range asked {
		if q.want {
			allowed++
		}
	}
	if _, err := fmt.Fprintf(w, `
### %d tools, arguments %s

%d requests, %d ALLOW and %d DENY; hot is one payment that is allowed.

| engine | hot ns | allocs | bytes | mix ns | allocs | bytes | mix × HELM | load ms |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`, copies*len(tools), form, len(asked), allowed, len(asked)-allowed); err != nil {
		return err
	}
	for _, r := range results {
		ns, allocs, bytes := r.hot.each()
		mixNs, mixAllocs, mixBytes := r.mix.each()
		load := fmt.Sprintf("%.2f", r.load.Seconds()*1e3)
		if r.name == schemaName {
			load = "–"
		}
		if _, err := fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %.2f | %s |\n", r.name, ns,
			allocs, bytes, mixNs, mixAllocs, mixBytes, mixNs/helm, load); err != nil {
			return err
		}
	}
	return nil
}

// A column is a table's results in the summary.
type column struct {
	copies  int
	form    string
	results []*result
}

// summary prints the mix of all tables in one.
func summary(w io.Writer, columns []column) error {
	var b strings.Builder
	b.WriteString("\n### In short: nanoseconds a decision, and allocations, over the mix\n\n| engine |")
	for _, c := range columns {
		fmt.Fprintf(&b, " %d tools, %s | allocs |", c.copies*len(tools), c.form)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", 2*len(columns)) + "\n")
	for i, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, c := range columns {
			ns, allocs, _ := c.results[i].mix.each()
			fmt.Fprintf(&b, " %.0f | %.0f |", ns, allocs)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}
