package disk

import (
	"errors"
	"strconv"
)

// ErrHeld is what every HeldError is.
var ErrHeld = errors.New("another process has the log open")

// A HeldError says that another process has the lock.
type HeldError struct {
	PID  string // "" if the holder has not written it yet
	self int
}

func (HeldError) Is(target error) bool { return target == ErrHeld }

func (h HeldError) Error() string {
	switch h.PID {
	case "":
		return "another process has it open"
	case strconv.Itoa(h.self):
		return "this process (" + h.PID + ") has it open already"
	}
	return "process " + h.PID + " has it open: end that, or wait for it by Options.Wait"
}
