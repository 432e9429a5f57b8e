//go:build !race

package filestore

// What the crash tests do where no flag says otherwise.
const (
	defaultKills = 200
	everyChange  = 1 // the power goes after one change in so many
	slowness     = 1
)
