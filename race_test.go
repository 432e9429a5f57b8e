//go:build race

package helm_test

const underRace = true
