package main

import (
	"encoding/json"
	"fmt"
	"os"
)

func main() {
	var in struct{ Numbers []float64 }
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, err) // becomes the tool's own error
		os.Exit(1)
	}
	sum := 0.0
	for _, n := range in.Numbers {
		sum += n
	}
	json.NewEncoder(os.Stdout).Encode(map[string]float64{"sum": sum})
}
