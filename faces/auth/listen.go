package auth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// ListenOptions say where a face listens.
type ListenOptions struct {
	Address   string // host:port
	Cert, Key string // files of a certificate and its key; both, or none
	Plain     bool   // beyond loopback without TLS: who reads the network reads tokens and calls
	Tokens    *Tokens
}

// A Listener is a net.Listener whose certificate can be read again.
type Listener struct {
	net.Listener
	o    ListenOptions
	cert atomic.Pointer[tls.Certificate]
}

// Listen listens on loopback, or beyond it, which needs tokens and TLS.
func Listen(ctx context.Context, o ListenOptions) (*Listener, error) {
	host, _, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("%q: no address such as 127.0.0.1:8080: %w", o.Address, err)
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, errors.New("tls: needs both cert and key")
	}
	l := &Listener{o: o}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		switch {
		case !o.Tokens.Any():
			return nil, fmt.Errorf("%s is beyond this machine: make a token first (helm token new), "+
				"or listen on 127.0.0.1", o.Address)
		case o.Cert == "" && !o.Plain:
			return nil, fmt.Errorf("%s is beyond this machine, where others can read along: set tls: {cert, key}; "+
				"insecure_plain_http: true takes the risk", o.Address)
		}
	}
	if o.Cert != "" {
		if err := l.Reload(); err != nil {
			return nil, err
		}
	}
	var c net.ListenConfig
	if l.Listener, err = c.Listen(ctx, "tcp", o.Address); err != nil {
		return nil, err
	}
	if host == "localhost" { // a name, that may stand for anything
		if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
			l.Listener.Close()
			return nil, fmt.Errorf("%s is not this machine's loopback here: listen on 127.0.0.1", o.Address)
		}
	}
	if o.Cert != "" {
		l.Listener = tls.NewListener(l.Listener, &tls.Config{
			MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return l.cert.Load(), nil },
		})
	}
	return l, nil
}

// Reload reads the certificate again. If it is faulty the one of before stays.
func (l *Listener) Reload() error {
	if l.o.Cert == "" {
		return nil
	}
	cert, err := tls.LoadX509KeyPair(l.o.Cert, l.o.Key)
	if err != nil {
		return fmt.Errorf("tls: %s, %s: %w", l.o.Cert, l.o.Key, err)
	}
	l.cert.Store(&cert)
	return nil
}

// Server returns a server of a face: headers of 64 KiB in 10 seconds, a body in 60, 2 minutes
// between requests. What is written takes as long as it takes, since answers may be streams. It
// logs nothing, for what it would log may have parts of a call.
func Server(h http.Handler) *http.Server { return server(h, time.Minute) }

func server(h http.Handler, limit time.Duration) *http.Server {
	timed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			c := http.NewResponseController(w)
			if c.SetReadDeadline(time.Now().Add(limit)) == nil {
				r.Body = &body{r.Body, c}
			}
		}
		h.ServeHTTP(w, r)
	})
	return &http.Server{
		Handler: timed, MaxHeaderBytes: 64 << 10, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// A body must come in time, whether it is read or not. When it has come the connection is read
// without a limit of time: the server cancels a request whose connection cannot be read.
type body struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *body) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	if err == io.EOF {
		b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}
