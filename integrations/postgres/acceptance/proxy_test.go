//go:build unix

package acceptance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// A proxy stands between a process and its server, and reads the messages of their protocol.
type proxy struct {
	dir    string
	target string

	mu      sync.Mutex // held during a hook; protects the fields below
	hook    hook       // nil: everything is sent on
	rewrite func([]byte)
	lines   map[*line]bool
}

// A hook is called with each message before it is sent on, one at a time, and reports whether it
// is. If it returns a function, that is called after the message was sent or not, without a lock.
type hook func(m *message) (send bool, then func())

// A line is one connection.
type line struct {
	client, server net.Conn
	keeps          bool // the server's end stays when the client's is cut
	names          map[string]string
	doing          string   // label of what the client has begun last
	asked          []string // labels of statements that have no answer yet
	writes         bool     // it is a writer's
}

// A message is one of the protocol.
type message struct {
	line  *line
	front bool   // of the client
	kind  byte   // 0 of the first one of a connection
	label string // of the statement that it is a part of
	bytes []byte
}

// text returns what a message has after its kind and its length.
func (m *message) text() []byte { return m.bytes[5:] }

// readied reports whether the server says that it waits for the next statement, and in which state:
// I no transaction, T within one.
func (m *message) readied(state byte) bool {
	return !m.front && m.kind == 'Z' && m.text()[0] == state
}

func newProxy(t testing.TB, s *pgtest.Server) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "helm-px")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &proxy{dir: dir, target: s.Socket(), lines: map[*line]bool{}}
	l, err := net.Listen("unix", filepath.Join(dir, filepath.Base(s.Socket())))
	require.NoError(t, err)
	t.Cleanup(func() {
		l.Close()
		p.cut()
	})
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// on replaces the hook.
func (p *proxy) on(h hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = h
}

// cut cuts all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		l.client.Close()
	}
}

// lose cuts the connection of the writer. The server does not learn of it.
func (p *proxy) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.lines {
		if l.writes {
			l.keeps = true
			l.client.Close()
		}
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	l := &line{client: client, server: server, names: map[string]string{}}
	p.mu.Lock()
	p.lines[l] = true
	p.mu.Unlock()
	done := make(chan bool, 2)
	go func() { p.pipe(l, true); done <- true }()
	go func() { p.pipe(l, false); done <- true }()
	<-done
	p.mu.Lock()
	delete(p.lines, l)
	keeps := l.keeps
	p.mu.Unlock()
	if keeps { // as long as the server does
		client.Close()
		<-done
	}
}

// pipe sends on what one side sends.
func (p *proxy) pipe(l *line, front bool) {
	from, to := l.server, l.client
	if front {
		from, to = to, from
	}
	for first := front; ; first = false {
		m, err := read(from, first)
		if err != nil {
			return
		}
		m.line, m.front = l, front
		p.mu.Lock()
		l.understand(m)
		send, then := true, func() {}
		if p.hook != nil {
			if s, f := p.hook(m); f == nil {
				send = s
			} else {
				send, then = s, f
			}
		}
		if p.rewrite != nil && front {
			p.rewrite(m.bytes)
		}
		p.mu.Unlock()
		if send {
			_, err = to.Write(m.bytes)
		}
		then()
		p.mu.Lock()
		keeps := l.keeps
		p.mu.Unlock()
		if err != nil && !keeps {
			return
		}
	}
}

func read(from io.Reader, first bool) (*message, error) {
	m := &message{bytes: make([]byte, 5)}
	head := m.bytes
	if first {
		head, m.bytes = head[1:], head[1:]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(head[len(head)-4:])) - 4
	if n < 0 || n > 64<<20 {
		return nil, errors.New("not a message")
	}
	if !first {
		m.kind = head[0]
	}
	m.bytes = append(m.bytes, make([]byte, n)...)
	_, err := io.ReadFull(from, m.bytes[len(head):])
	return m, err
}

// The labels of statements that are not prepared under a name.
var labels = []struct{ label, part string }{
	{"raise", "SET incarnation = incarnation + 1"}, {"leave", "SET gone"}, {"lock", "pg_try_advisory_lock"},
	{"lock again", "pg_advisory_lock("}, {"terminate", "pg_terminate_backend"}, {"join", "INSERT INTO writer"},
	{"begin a log", "INSERT INTO log"}, {"hashes", "INSERT INTO hashes"}, {"settings", "SET synchronous_commit"},
	{"rollback", "ROLLBACK"},
}

func labelOf(sql string) string {
	for _, x := range labels {
		if strings.Contains(sql, x.part) {
			return x.label
		}
	}
	return "read"
}

// understand sets the label of a message.
func (l *line) understand(m *message) {
	if m.front {
		switch m.kind {
		case 0:
			l.doing = "connect"
		case 'P':
			name, sql, _ := bytes.Cut(m.text(), []byte{0})
			sql, _, _ = bytes.Cut(sql, []byte{0})
			l.doing, l.names[string(name)] = "prepare", labelOf(string(sql))
			if name := string(name); !strings.HasPrefix(name, "stmtcache") && name != "" {
				l.names[name] = name
			}
		case 'B':
			_, rest, _ := bytes.Cut(m.text(), []byte{0})
			name, rest, _ := bytes.Cut(rest, []byte{0})
			l.doing = l.names[string(name)]
			if l.doing == "put" && bytes.Contains(rest, []byte(origin+"\n")) {
				l.doing = "checkpoint"
			}
		case 'Q':
			l.doing = labelOf(string(m.text()))
			l.asked = append(l.asked, l.doing)
		case 'E':
			l.asked = append(l.asked, l.doing)
		}
		m.label = l.doing
		l.writes = l.writes || m.label == "join" || m.label == "raise"
		return
	}
	m.label = l.doing
	if len(l.asked) > 0 {
		m.label = l.asked[0]
	}
	switch m.kind {
	case 'C':
		if len(l.asked) > 1 {
			l.asked = l.asked[1:]
		}
	case 'Z':
		l.asked = nil
	}
}
