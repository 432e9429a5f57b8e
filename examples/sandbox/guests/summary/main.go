// Summary is a guest that sums up a table of comma-separated values: of each column how many values
// it has, and of numbers the least, the greatest and the mean.
//
//	GOOS=wasip1 GOARCH=wasm go build -o summary.wasm ./examples/sandbox/guests/summary
package main

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// A column is what is said of one.
type column struct {
	Name     string   `json:"name"`
	Values   int      `json:"values"`
	Distinct int      `json:"distinct"`
	Least    *float64 `json:"least,omitempty"`
	Greatest *float64 `json:"greatest,omitempty"`
	Mean     *float64 `json:"mean,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run reads the arguments of the call from stdin, and writes its output to stdout.
func run() error {
	var args struct{ CSV string }
	if err := json.NewDecoder(os.Stdin).Decode(&args); err != nil {
		return err
	}
	rows, err := csv.NewReader(strings.NewReader(args.CSV)).ReadAll()
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return errors.New("no line with the names of the columns")
	}
	var out struct {
		Rows    int      `json:"rows"`
		Columns []column `json:"columns"`
	}
	out.Rows = len(rows) - 1
	for i, name := range rows[0] {
		var values []string
		for _, row := range rows[1:] {
			if row[i] != "" {
				values = append(values, row[i])
			}
		}
		out.Columns = append(out.Columns, columnOf(name, values))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func columnOf(name string, values []string) column {
	c := column{Name: name, Values: len(values)}
	distinct := map[string]bool{}
	least, greatest, sum, numbers := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, v := range values {
		distinct[v] = true
		if n, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(n) && !math.IsInf(n, 0) {
			least, greatest, sum, numbers = min(least, n), max(greatest, n), sum+n, numbers+1
		}
	}
	if c.Distinct = len(distinct); numbers > 0 && numbers == len(values) {
		mean := sum / float64(numbers)
		c.Least, c.Greatest, c.Mean = &least, &greatest, &mean
	}
	return c
}
