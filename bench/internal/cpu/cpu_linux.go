// Package cpu tells what this process has used of the processors: unlike a clock, it does not run
// while others use them.
package cpu

import (
	"syscall"
	"time"
)

// Time is what this process has used, in the kernel too. It is 0 where the system does not tell.
func Time() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
