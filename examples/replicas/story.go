package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// A story is the deployment with all that is around it. It ends with an error as soon as a call is
// answered otherwise than it must be.
type story struct {
	out     io.Writer
	db      *database
	keys    keys
	bank    *bank
	servers []*http.Server
	client  client
	*deployment
}

// The replicas, of which each begins with the first policy.
var names = []string{"one", "two", "three"}

const (
	first  = "bank-1.yaml"
	second = "bank-2.yaml"
)

func begin(ctx context.Context, out io.Writer, db *database) (s *story, err error) {
	s = &story{out: out, db: db, bank: newBank("erin"), deployment: &deployment{balancer: newBalancer(),
		running: map[string]*process{}}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.end())
		}
	}()
	if s.keys, err = newKeys(); err != nil {
		return nil, err
	}
	c := &s.deployment.config
	c.Database, c.Schema = db.replica, db.schema
	if c.Key, err = s.keys.pem(); err != nil {
		return nil, err
	}
	if c.Trust, err = s.keys.trust(); err != nil {
		return nil, err
	}
	if c.Bank, err = s.listen(s.bank); err != nil {
		return nil, err
	}
	if s.client.url, err = s.listen(s.balancer); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := s.start(ctx, name, first); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *story) listen(h http.Handler) (url string, err error) {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener) // until end
	s.servers = append(s.servers, server)
	return "http://" + listener.Addr().String(), nil
}

func (s *story) end() error {
	err := s.deployment.end()
	for _, server := range s.servers {
		server.Close()
	}
	return err
}

// play plays the story, in which each step rests on the ones before.
func (s *story) play(ctx context.Context) error {
	for _, step := range []struct {
		title string
		play  func(context.Context, *story) error
	}{
		{"One conversation, whose calls come to each replica", converse},
		{"One approval, which comes to all three at once", approve},
		{"One replica is killed while the bank has its payment, and other calls come in", crash},
		{"One replica is deployed again, with a later policy, while calls come in", deploy},
		{"One replica is told to freeze", freeze},
		{"All spend what is left of the budget", spend},
		{"The log", audit},
	} {
		fmt.Fprintf(s.out, "%s\n\n", step.title)
		if err := step.play(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", strings.ToLower(step.title), err)
		}
		fmt.Fprintln(s.out)
	}
	return nil
}

// must makes a call, prints it, and returns an error if the answer has another reason.
func (s *story) must(ctx context.Context, want contracts.ReasonCode, c call, key string) (answer, error) {
	a, err := s.client.call(ctx, c, key)
	if err != nil {
		return a, err
	}
	s.print(c, a)
	return a, a.must(want)
}

func (s *story) print(c call, a answer) {
	verdict := a.Verdict
	if a.Reason != contracts.ReasonAllow {
		verdict = strings.TrimSpace(fmt.Sprintf("%s %s %s", verdict, a.Reason, a.Why))
	}
	fmt.Fprintf(s.out, "  %-5s  %-9s %-30s %s\n", a.Replica, c.Tool, c.Args, verdict)
}

// must returns an error if the answer has another reason.
func (a answer) must(want contracts.ReasonCode) error {
	if a.Reason != want {
		return fmt.Errorf("replica %s said %s %s %s, and not %s", a.Replica, a.Verdict, a.Reason, a.Why, want)
	}
	return nil
}

// different returns an error unless each answer is another replica's.
func different(answers ...answer) error {
	seen := map[string]bool{}
	for _, a := range answers {
		if seen[a.Replica] {
			return fmt.Errorf("replica %s has answered more than its share", a.Replica)
		}
		seen[a.Replica] = true
	}
	return nil
}
