package main

import (
	"fmt"
	"io"
)

// table prints results as Markdown.
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
### %d tools, %s

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
		if _, err := fmt.Fprintf(w, "| %s | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %.2f | %s |\n", r.name, ns, allocs, bytes, mixNs, mixAllocs, mixBytes, mixNs/helm, load); err != nil {
			return err
		}
	}
	return nil
}
