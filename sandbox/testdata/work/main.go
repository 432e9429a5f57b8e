// Command work does one piece of work, often enough that starting it does not count.
package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var in struct {
		Work  string
		Times int
	}
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	do, ok := works[in.Work]
	if !ok {
		os.Exit(2)
	}
	fmt.Println(do(in.Times))
}

var works = map[string]func(times int) string{
	"nothing": func(int) string { return "" },
	"sha256": func(times int) string {
		block := make([]byte, 4096)
		for range times {
			sum := sha256.Sum256(block)
			copy(block, sum[:])
		}
		return fmt.Sprintf("%x", block[:32])
	},
	"json": func(times int) string {
		type row struct {
			City  string
			Price float64
			Tags  []string
		}
		rows := make([]row, 16)
		for i := range rows {
			rows[i] = row{fmt.Sprintf("city %d", i), float64(i) / 4, []string{"a", "b\n", "<c>"}}
		}
		n := 0
		for range times {
			text, _ := json.Marshal(rows)
			var back []row
			if json.Unmarshal(text, &back) != nil {
				return "no"
			}
			n += len(text) + len(back)
		}
		return fmt.Sprint(n)
	},
	"integers": func(times int) string {
		x := uint64(88172645463325252)
		var odd uint64
		for range times * 1000 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			odd += x & 1
		}
		return fmt.Sprint(odd)
	},
	"matrix": func(times int) string {
		const n = 64
		var a, b, c [n][n]float64
		for i := range n {
			for k := range n {
				a[i][k], b[i][k] = float64(i-k)/n, float64(i+k)/n
			}
		}
		for range times {
			for i := range n {
				for k := range n {
					sum := 0.0
					for l := range n {
						sum += a[i][l] * b[l][k]
					}
					c[i][k] = sum
				}
			}
			a[0][0] = c[1][1] / n
		}
		return fmt.Sprint(c[1][2])
	},
	"fib": func(times int) string {
		n := 0
		for range times {
			n += fib(24)
		}
		return fmt.Sprint(n)
	},
}

func fib(n int) int {
	if n < 2 {
		return n
	}
	return fib(n-1) + fib(n-2)
}
