package filestore

import "strconv"

// held is the error where somebody else has the lock.
type held struct {
	pid  string // "" where the holder has not written it yet
	self int
}

func (h held) Error() string {
	switch h.pid {
	case "":
		return "another process has it open"
	case strconv.Itoa(h.self):
		return "this process (" + h.pid + ") has it open already"
	}
	return "process " + h.pid + " has it open: end that, or wait for it by Options.Wait"
}
