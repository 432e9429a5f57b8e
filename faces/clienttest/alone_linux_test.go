package clienttest

import (
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// agentIn returns the directory of an agent of npm, if the test runs in a network that is the
// loopback alone. If it does not, it runs the test again in one, and reports false. It skips the
// test if there is no such directory.
func agentIn(t *testing.T, env, name string) (dir string, inside bool) {
	t.Helper()
	if dir = os.Getenv(env); dir == "" {
		t.Skipf("%s does not name the directory of %s; make clients does", env, name)
	}
	if os.Getenv("HELM_ALONE") == "" {
		alone(t)
		return "", false
	}
	up(t)
	interfaces, err := net.Interfaces()
	require.NoError(t, err)
	require.Len(t, interfaces, 1)
	require.NotZero(t, interfaces[0].Flags&net.FlagLoopback)
	return dir, true
}

// names returns the names of the files in a directory.
func names(t *testing.T, dir string) (files []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range list {
		files = append(files, f.Name())
	}
	return files
}

// alone runs this test again, in a network of its own.
func alone(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "HELM_ALONE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("there are no namespaces here: %v", err)
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
}

// up makes the loopback reachable.
func up(t *testing.T) {
	s, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM, 0)
	require.NoError(t, err)
	defer syscall.Close(s)
	request := struct {
		name  [syscall.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}{flags: syscall.IFF_UP | syscall.IFF_RUNNING}
	copy(request.name[:], "lo")
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(s), syscall.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&request)))
	require.Zero(t, errno)
}
