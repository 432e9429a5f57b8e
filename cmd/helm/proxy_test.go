package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/faces/state"
	"github.com/helmkernel/helm/policy"
)

// A model answers each request with a file; hold has it wait for the file go after that.
type model struct {
	mu   sync.Mutex
	file string
	hold bool
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	m.mu.Lock()
	file, hold := m.file, m.hold
	m.mu.Unlock()
	b, err := os.ReadFile(file)
	check(err)
	media := "application/json"
	if bytes.HasPrefix(b, []byte("data:")) {
		media = "text/event-stream"
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(b)
	if hold {
		_ = http.NewResponseController(w).Flush()
		check(os.WriteFile("waits", nil, 0o600))
		gone := func() bool { _, err := os.Stat("go"); return err == nil || r.Context().Err() != nil }
		check(until(gone))
	}
}

var receipts = regexp.MustCompile(`"receipt":\{[^}]*\}`)

// TestProxyPage: what docs/proxy.md shows is read as it stands there.
func TestProxyPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/proxy.md")
	require.NoError(t, err)
	policies, configs := 0, 0
	for _, m := range regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n").FindAllStringSubmatch(string(page), -1) {
		name := filepath.Join(t.TempDir(), "page.yaml")
		require.NoError(t, os.WriteFile(name, []byte(m[1]), 0o600))
		if strings.HasPrefix(m[1], "helm: config/v1") {
			c, err := state.ReadConfig(name)
			require.NoError(t, err)
			require.Len(t, c.Proxy.Upstreams, 3)
			configs++
			continue
		}
		_, err := policy.Load(name)
		require.NoError(t, err)
		policies++
	}
	require.Equal(t, 1, configs)
	require.Equal(t, 2, policies)
}

// base returns the address that the process said.
func (s *said) base() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, rest, _ := strings.Cut(s.text.String(), " at ")
	base, _, whole := strings.Cut(rest, "\n")
	if !whole {
		return ""
	}
	return base
}

// ask SCRIPT COMMAND ARGS... is an app that asks a model through a proxy. The command finds the
// model in the place of MODEL in helm.yaml. Each line of the script is
//
//	says FILE        the model answers with the file from now on
//	holds FILE       and then waits for the file go before it ends
//	post PATH FILE   ask, and print the status and what is said
//	start PATH FILE  ask meanwhile
//	get PATH         read
//	file, put, signal, said, run  as of talk
func ask() {
	script, err := os.ReadFile(os.Args[1])
	check(err)
	m := new(model)
	upstream := httptest.NewServer(m)
	conf, err := os.ReadFile("helm.yaml")
	check(err)
	check(os.WriteFile("helm.yaml", bytes.ReplaceAll(conf, []byte("MODEL"), []byte(upstream.URL)), 0o600))
	var errs said
	command := exec.Command(os.Args[2], os.Args[3:]...)
	command.Stderr = &errs
	check(command.Start())
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	check(until(func() bool { return errs.base() != "" || command.ProcessState != nil }))
	token, _ := os.ReadFile("token")
	do := func(method, path, file string) {
		var body []byte
		if file != "" {
			body, err = os.ReadFile(file)
			check(err)
		}
		r, err := http.NewRequestWithContext(context.Background(), method, errs.base()+path, bytes.NewReader(body))
		check(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Helm-Session", "s")
		if len(token) > 0 {
			r.Header.Set("Helm-Token", strings.TrimSpace(string(token)))
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			fmt.Println("no answer")
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			text = append(text, "\nbroken\n"...)
		}
		var short bytes.Buffer
		if json.Compact(&short, text) == nil {
			text = append(short.Bytes(), '\n')
		}
		fmt.Printf("%d %s", resp.StatusCode, receipts.ReplaceAll(text, []byte(`"receipt":RECEIPT`)))
	}
	var started sync.WaitGroup
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "KILL": os.Kill}
	ending := false
	for line := range strings.Lines(string(script)) {
		line = strings.TrimSpace(line)
		words := strings.SplitN(line+"  ", " ", 3)
		words[2] = strings.TrimSpace(words[2])
		switch words[0] {
		case "says", "holds":
			m.mu.Lock()
			m.file, m.hold = words[1], words[0] == "holds"
			m.mu.Unlock()
		case "post":
			do(http.MethodPost, words[1], words[2])
		case "get":
			do(http.MethodGet, words[1], "")
		case "start":
			started.Go(func() { do(http.MethodPost, words[1], words[2]) })
		case "file":
			check(until(func() bool { _, err := os.Stat(words[1]); return err == nil }))
		case "put":
			b, err := os.ReadFile(words[1])
			check(err)
			check(os.WriteFile(words[2], b, 0o600))
		case "signal":
			check(command.Process.Signal(signals[words[1]]))
			ending = ending || words[1] != "HUP"
		case "said":
			check(until(func() bool { return errs.has(strings.TrimPrefix(line, "said ")) }))
		default:
			check(errors.New(line))
		}
	}
	started.Wait()
	if !ending {
		_ = command.Process.Signal(syscall.SIGTERM)
	}
	<-ended
	os.Exit(command.ProcessState.ExitCode())
}
