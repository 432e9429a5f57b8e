package files

import "syscall"

func times(s *syscall.Stat_t) (access, modify, change uint64) {
	return uint64(s.Atimespec.Nano()), uint64(s.Mtimespec.Nano()), uint64(s.Ctimespec.Nano())
}
