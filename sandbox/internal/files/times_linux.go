package files

import "syscall"

func times(s *syscall.Stat_t) (access, modify, change uint64) {
	return uint64(s.Atim.Nano()), uint64(s.Mtim.Nano()), uint64(s.Ctim.Nano())
}
