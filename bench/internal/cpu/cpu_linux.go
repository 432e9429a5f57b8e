// Package cpu measures the processor time of this process: unlike a clock, it does not run while
// other processes use the processors.
package cpu

import (
	"syscall"
	"time"
)

// Time returns the time used so far, including the system's. It is 0 if the system does not report
// it.
func Time() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
