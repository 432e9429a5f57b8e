package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/helmkernel/helm/crypto"
	httpwitness "github.com/helmkernel/helm/integrations/witness"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/proofgraph/witness"
)

// Witnesses are two that the shop does not own, each with a key, a directory and a server of its
// own.
type witnesses struct {
	policy  httpwitness.Policy
	client  httpwitness.Client
	servers []*http.Server
}

const quorum = 2

// newWitnesses starts witnesses that know the log of one shop.
func newWitnesses(dir string, c *clock, s *shop) (*witnesses, error) {
	logKey, err := s.logKey()
	if err != nil {
		return nil, err
	}
	logs := func(origin string) []string {
		if origin == s.name {
			return []string{logKey}
		}
		return nil
	}
	w := &witnesses{policy: httpwitness.Policy{Quorum: quorum}}
	for i := range quorum {
		name := fmt.Sprintf("witness.example.org/%d", i+1)
		key, err := crypto.GenerateKey()
		if err != nil {
			return nil, err
		}
		path := filepath.Join(dir, fmt.Sprint("witness-", i+1))
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, err
		}
		state, err := httpwitness.DirState(path)
		if err != nil {
			return nil, err
		}
		one := &witness.Witness{Name: name, Key: key, Logs: logs, State: state, Now: c.Now}
		vkey, err := one.VerifierKey()
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", "localhost:0")
		if err != nil {
			return nil, err
		}
		server := &http.Server{Handler: httpwitness.Handler(one), ReadHeaderTimeout: time.Second}
		go server.Serve(listener) // until close
		w.servers = append(w.servers, server)
		url := "http://" + listener.Addr().String()
		w.policy.Witnesses = append(w.policy.Witnesses, httpwitness.Member{Name: name, Key: vkey, URL: url})
	}
	return w, nil
}

func (w *witnesses) close() {
	for _, s := range w.servers {
		s.Close()
	}
}

// cosign has a checkpoint cosigned, and the kernel keep the cosignatures.
func (w *witnesses) cosign(ctx context.Context, s *shop, c proofgraph.Checkpoint) error {
	note, err := w.client.Cosign(ctx, s, c, w.policy)
	if err != nil {
		return err
	}
	return s.Cosigned(ctx, note)
}
