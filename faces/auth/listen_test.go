package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate writes a certificate of a name and its key.
func certificate(t *testing.T, cert, key, name string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(k)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}), 0o600))
}

// TestListen: beyond the machine's loopback only with tokens and TLS, or with a word for the risk.
func TestListen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, cert, key, "a")
	_, entry := token(t, "ann-1", "ann", Call)
	tokens := newGate(t, Options{}, entry).tokens
	for _, x := range []struct {
		name string
		o    ListenOptions
		why  string
	}{
		{"loopback", ListenOptions{Address: "127.0.0.1:0"}, ""},
		{"localhost", ListenOptions{Address: "localhost:0"}, ""},
		{"all addresses", ListenOptions{Address: ":0"}, "make a token first"},
		{"all of version 4", ListenOptions{Address: "0.0.0.0:0"}, "make a token first"},
		{"all of version 6", ListenOptions{Address: "[::]:0", Cert: cert, Key: key}, "make a token first"},
		{"tokens without TLS", ListenOptions{Address: "0.0.0.0:0", Tokens: tokens}, "others can read along"},
		{"tokens and TLS", ListenOptions{Address: "0.0.0.0:0", Tokens: tokens, Cert: cert, Key: key}, ""},
		{"tokens, and the risk", ListenOptions{Address: "0.0.0.0:0", Tokens: tokens, Plain: true}, ""},
		{"the risk without tokens", ListenOptions{Address: "0.0.0.0:0", Plain: true}, "make a token first"},
		{"a name", ListenOptions{Address: "helm.example:0"}, "make a token first"},
		{"half of TLS", ListenOptions{Address: "127.0.0.1:0", Cert: cert}, "both"},
		{"no certificate", ListenOptions{Address: "127.0.0.1:0", Cert: key, Key: key}, key},
		{"no port", ListenOptions{Address: "127.0.0.1"}, "no address"},
	} {
		l, err := Listen(t.Context(), x.o)
		if x.why != "" {
			assert.ErrorContains(t, err, x.why, x.name)
			continue
		}
		if assert.NoError(t, err, x.name) {
			assert.NoError(t, l.Close())
		}
	}
}

// TestCertificateAgain: a new certificate is served from then on, and a faulty one is not taken.
func TestCertificateAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certificate(t, cert, key, "first")
	l, err := Listen(t.Context(), ListenOptions{Address: "127.0.0.1:0", Cert: cert, Key: key})
	require.NoError(t, err)
	server := Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Proto)) }))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	name := func() string {
		c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		require.NoError(t, err)
		defer c.Close()
		assert.Equal(t, "h2", c.ConnectionState().NegotiatedProtocol)
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	assert.Equal(t, "first", name())
	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	r, err := client.Get("https://" + l.Addr().String())
	require.NoError(t, err)
	assert.Equal(t, 2, r.ProtoMajor)
	r.Body.Close()
	client.CloseIdleConnections()
	certificate(t, cert, key, "second")
	require.NoError(t, l.Reload())
	assert.Equal(t, "second", name())
	require.NoError(t, os.WriteFile(cert, []byte("no certificate"), 0o600))
	assert.ErrorContains(t, l.Reload(), cert)
	assert.Equal(t, "second", name())
	require.NoError(t, server.Close())
	assert.ErrorIs(t, <-served, http.ErrServerClosed)
}

// TestServerLimits: who sends headers without end, or too slowly, is cut off.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	s := Server(http.NotFoundHandler())
	assert.True(t, s.MaxHeaderBytes == 64<<10 && s.ReadHeaderTimeout == 10*time.Second && s.IdleTimeout == 2*time.Minute &&
		s.WriteTimeout == 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(l)
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	long := make([]byte, 80<<10)
	for i := range long {
		long[i] = 'a'
	}
	go c.Write(append([]byte("GET / HTTP/1.1\r\nHost: localhost\r\nX: "), long...))
	var b [12]byte
	_, err = c.Read(b[:])
	require.NoError(t, err)
	assert.Equal(t, "HTTP/1.1 431", string(b[:]))
}
