//go:build unix

package postgres

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/integrations/postgres/pgtest"
)

// A proxy stands between a store and its server, and loses what it is told to lose.
type proxy struct {
	dir    string
	target string

	mu       sync.Mutex // protects the fields below
	keeps    bool       // connections to the server stay when their clients are cut
	deaf     bool       // what clients send goes nowhere
	mute     bool       // what the server sends goes nowhere
	swallows chan bool  // has an element when something went nowhere
	clients  []net.Conn
}

func newProxy(t *testing.T, s *pgtest.Server) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "helm-px")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &proxy{dir: dir, target: s.Socket(), swallows: make(chan bool, 1)}
	l, err := net.Listen("unix", filepath.Join(dir, filepath.Base(s.Socket())))
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
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

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.clients = append(p.clients, client)
	p.mu.Unlock()
	done := make(chan bool, 2)
	go func() { p.pipe(server, client, &p.deaf); done <- true }()
	go func() { p.pipe(client, server, &p.mute); done <- true }()
	<-done
	p.mu.Lock()
	keeps := p.keeps
	p.mu.Unlock()
	if keeps { // as long as the server does
		<-done
	}
}

func (p *proxy) pipe(to io.Writer, from io.Reader, lose *bool) {
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		p.mu.Lock()
		lost := *lose
		if lost {
			select {
			case p.swallows <- true:
			default:
			}
		}
		p.mu.Unlock()
		if lost {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil && !p.keeps {
			return
		}
	}
}

// lose makes the proxy lose what one side sends, and then cuts every connection: it returns before
// that.
func (p *proxy) lose(answers bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf || p.mute {
		return
	}
	p.deaf, p.mute = !answers, answers
	go func() {
		<-p.swallows
		p.mu.Lock()
		defer p.mu.Unlock()
		p.deaf, p.mute = false, false
		select {
		case <-p.swallows: // of a second piece
		default:
		}
		for _, c := range p.clients {
			c.Close()
		}
		p.clients = nil
	}()
}
