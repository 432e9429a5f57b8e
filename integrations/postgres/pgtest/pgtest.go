//go:build unix

package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrAbsent is wrapped by the error of [Start] if no server is installed.
var ErrAbsent = errors.New("no PostgreSQL server: install one (on Debian the package postgresql), " +
	"or name the directory of initdb and postgres in HELM_POSTGRES_BIN")

// The name of the user and of the first database.
const name = "helm"

const (
	startTime = time.Minute
	port      = "5432" // a part of the socket's name
)

// A Server is a PostgreSQL server.
type Server struct {
	bin, dir string
	owner    *syscall.Credential // nil: the user of this process
	settings []string

	mu        sync.Mutex // held while it starts or stops; protects the fields below
	postgres  *exec.Cmd
	ended     chan struct{} // closed when postgres has ended
	watch     io.Closer
	databases int
}

// Bin returns the directory of the server's programs: that of HELM_POSTGRES_BIN, of pg_config, or
// the newest one below /usr/lib/postgresql.
func Bin() (string, error) {
	has := func(dir string) bool {
		for _, program := range []string{"initdb", "postgres"} {
			if info, err := os.Stat(filepath.Join(dir, program)); err != nil || info.IsDir() {
				return false
			}
		}
		return true
	}
	if dir := os.Getenv("HELM_POSTGRES_BIN"); dir != "" {
		if !has(dir) {
			return "", fmt.Errorf("%w: HELM_POSTGRES_BIN names a directory without them", ErrAbsent)
		}
		return dir, nil
	}
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); has(dir) {
			return dir, nil
		}
	}
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	newest, version := "", -1
	for _, dir := range dirs {
		n, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && n > version && has(dir) {
			newest, version = dir, n
		}
	}
	if newest == "" {
		return "", ErrAbsent
	}
	return newest, nil
}

// Start makes a cluster in a temporary directory and starts a server on it. Settings are lines of
// postgresql.conf. The server runs as the user postgres or nobody if this process is root's, since
// PostgreSQL refuses root.
func Start(settings ...string) (*Server, error) {
	bin, err := Bin()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, settings: settings}
	if os.Geteuid() == 0 {
		if s.owner, err = other(); err != nil {
			return nil, err
		}
	}
	temp := os.TempDir()
	if len(temp) > 40 { // the path of a socket has at most 107 bytes
		temp = "/tmp"
	}
	if s.dir, err = os.MkdirTemp(temp, "helm-pg"); err != nil {
		return nil, err
	}
	if s.owner != nil {
		if err := os.Chown(s.dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, err
		}
	}
	initdb := s.command("initdb", "-D", s.data(), "-U", name, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		s.Close()
		return nil, fmt.Errorf("pgtest: initdb: %w: %s", err, bytes.TrimSpace(out))
	}
	if err := s.Start(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// other returns a user who is not root.
func other() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("pgtest: PostgreSQL does not run as root, and there is no user postgres or nobody")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Dir returns the directory of the server's socket.
func (s *Server) Dir() string { return s.dir }

// Socket returns the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL."+port) }

// command returns a command of a program of the server, which no signal of the terminal reaches.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	c := exec.Command(filepath.Join(s.bin, program), args...)
	c.Dir = s.dir
	c.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC", "PGTZ=UTC")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return c
}

// Start starts the server, and returns when it takes connections. More settings stay.
func (s *Server) Start(settings ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres != nil {
		return errors.New("pgtest: it runs")
	}
	s.settings = append(s.settings, settings...)
	args := []string{"-D", s.data(), "-k", s.dir, "-p", port, "-c", "listen_addresses=", "-c", "max_connections=50",
		"-c", "shared_buffers=32MB", "-c", "log_min_messages=warning"}
	for _, line := range s.settings {
		args = append(args, "-c", line)
	}
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	postgres := s.command("postgres", args...)
	postgres.Stdout, postgres.Stderr = log, log
	if err := postgres.Start(); err != nil {
		return fmt.Errorf("pgtest: postgres: %w", err)
	}
	ended := make(chan struct{})
	go func() {
		postgres.Wait()
		close(ended)
	}()
	s.postgres, s.ended = postgres, ended
	if err := s.attend(); err != nil {
		return err
	}
	until := time.Now().Add(startTime)
	for {
		err := s.ping()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			s.postgres = nil
			said, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			return fmt.Errorf("pgtest: postgres has ended: %s", said[max(0, len(said)-1000):])
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(until) {
			return fmt.Errorf("pgtest: postgres takes no connection: %w", err)
		}
	}
}

func (s *Server) ping() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// attend starts a shell that ends the server when this process ends, however it ends, and removes
// the directory.
func (s *Server) attend() error {
	pid := strconv.Itoa(s.postgres.Process.Pid)
	const script = `read word; [ "$word" = end ] && exit; kill -QUIT "$1"; sleep 1; rm -rf "$2"`
	shell := exec.Command("/bin/sh", "-c", script, "sh", pid, s.dir)
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := shell.StdinPipe()
	if err != nil {
		return err
	}
	if err := shell.Start(); err != nil {
		return err
	}
	go shell.Wait()
	s.watch = in
	return nil
}

// Pid returns the process id of the server's first process.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.postgres.Process.Pid
}

// Stop stops the server: at once and without writing anything down, as pg_ctl -m immediate does, or
// after ending all connections.
func (s *Server) Stop(immediate bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.postgres == nil {
		return nil
	}
	signal := syscall.SIGINT
	if immediate {
		signal = syscall.SIGQUIT
	}
	if err := s.postgres.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
	case <-time.After(startTime):
		return errors.New("pgtest: postgres does not end")
	}
	io.WriteString(s.watch.(io.Writer), "end\n")
	s.watch.Close()
	s.postgres = nil
	return nil
}

// Close stops the server and removes the directory.
func (s *Server) Close() error {
	err := s.Stop(true)
	return errors.Join(err, os.RemoveAll(s.dir))
}

// URL returns a connection string of the owner of a database.
func (s *Server) URL(database string) string { return s.As(name, database) }

// As returns a connection string of a user.
func (s *Server) As(user, database string) string {
	return "host=" + s.dir + " port=" + port + " user=" + user + " dbname=" + database + " sslmode=disable"
}

// Database makes a database and returns its name.
func (s *Server) Database(ctx context.Context) (string, error) {
	s.mu.Lock()
	s.databases++
	database := name + strconv.Itoa(s.databases)
	s.mu.Unlock()
	return database, s.Exec(ctx, "postgres", "CREATE DATABASE "+database)
}

// Exec runs SQL in a database, as its owner.
func (s *Server) Exec(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql, pgx.QueryExecModeSimpleProtocol)
	return err
}
