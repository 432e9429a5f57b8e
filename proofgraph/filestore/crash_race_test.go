//go:build race

package filestore

// The race detector makes everything slower: the crash tests do less under it.
const (
	defaultKills = 40
	everyChange  = 5 // the power goes after one change in so many
	slowness     = 5
)
