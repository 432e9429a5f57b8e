//go:build !race

package helm_test

const underRace = false // the race detector makes everything slower: some tests do less under it, and say so
