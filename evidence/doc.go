// Package evidence packs a log for whoever was not there, and verifies such packs offline.
package evidence
