//go:build race

package filestore

// The race detector makes everything slower: the crash tests do less under it.
const (
	defaultKills = 30
	everyByte    = 41 // odd; a flipped bit, a cut
	everyChange  = 5  // the power goes after one change in so many
)
