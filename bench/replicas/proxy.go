//go:build unix

package main

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// A proxy stands between processes and the server. It holds back what each sends, and lets any
// amount of it through at the same time.
type proxy struct {
	delay  time.Duration
	target string
	dir    string // of its socket
	listen net.Listener
	trips  atomic.Int64 // round trips: what clients sent first, or after the server had answered
}

// newProxy listens in a directory of its own, below that of the target's socket.
func newProxy(target string, delay time.Duration) (*proxy, error) {
	p := &proxy{delay: delay, target: target, dir: filepath.Join(filepath.Dir(target), "proxy")}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	var err error
	if p.listen, err = net.Listen("unix", filepath.Join(p.dir, filepath.Base(target))); err != nil {
		return nil, err
	}
	go func() {
		for {
			client, err := p.listen.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p, nil
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("unix", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var asks atomic.Bool // the client sent last
	ended := make(chan bool, 2)
	go func() {
		p.pipe(server, client, func() {
			if !asks.Swap(true) {
				p.trips.Add(1)
			}
		})
		ended <- true
	}()
	go func() {
		p.pipe(client, server, func() { asks.Store(false) })
		ended <- true
	}()
	<-ended
}

// A piece is what was sent at one time.
type piece struct {
	bytes []byte
	due   time.Time
}

// pipe copies what is sent, each piece after the delay.
func (p *proxy) pipe(to, from net.Conn, sent func()) {
	pieces := make(chan piece, 1<<12) // more than the largest batch has
	written := make(chan bool)
	go func() {
		defer close(written)
		for x := range pieces {
			time.Sleep(time.Until(x.due))
			if _, err := to.Write(x.bytes); err != nil {
				from.Close() // which ends the reading
			}
		}
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			break
		}
		sent()
		pieces <- piece{bytes.Clone(b[:n]), time.Now().Add(p.delay)}
	}
	close(pieces)
	<-written
}
