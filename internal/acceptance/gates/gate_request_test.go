package gates

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/executor"
	"github.com/helmkernel/helm/internal/kerneltest"
	"github.com/stretchr/testify/assert"
)

// Condition 0: the request is well-formed, kernel and session are live.

func echoing() helm.Intent {
	return helm.Intent{Tool: "echo", Args: []byte(`{"text":"hi"}`), Session: "s",
		Caller: helm.Caller{ID: "ann", Tenant: "acme", Roles: []string{"staff"}}}
}

func gateRequest() gate {
	stage := func(t *testing.T) *target {
		s := newTarget(t, echoing(), []string{kerneltest.Policy}, kerneltest.Roots(t))
		s.Governed = true
		return s
	}
	malformed := func(k kind, name string, f func(s *target, in *helm.Intent)) attack {
		return attack{kind: k, name: name, reason: contracts.ReasonIntentMalformed, change: f}
	}
	raw := func(k kind, name, text string) attack {
		return attack{kind: k, name: "arguments that are " + name, reason: contracts.ReasonArgsCanonicalization,
			change: arguments(text)}
	}
	long := strings.Repeat("x", 129)
	return gate{name: "0 the request", stage: stage, spared: map[kind]string{
		panicking: "what of the host panics is FAIL_CLOSED_ERROR: see gateErrors",
	}, attacks: []attack{
		malformed(omitted, "tool", altered(func(in *helm.Intent) { in.Tool = "" })),
		malformed(emptied, "role", altered(func(in *helm.Intent) { in.Caller.Roles = []string{""} })),
		malformed(null, "delegation", altered(func(in *helm.Intent) { in.Delegation = []contracts.Envelope{nil} })),
		malformed(retyped, "delegation",
			altered(func(in *helm.Intent) { in.Delegation = []contracts.Envelope{contracts.Envelope(`[]`)} })),
		malformed(oversize, "tool", altered(func(in *helm.Intent) { in.Tool = long })),
		malformed(oversize, "session", altered(kerneltest.InSession(long))),
		malformed(oversize, "caller id", altered(func(in *helm.Intent) { in.Caller.ID = strings.Repeat("x", 257) })),
		malformed(oversize, "tenant", altered(func(in *helm.Intent) { in.Caller.Tenant = strings.Repeat("x", 257) })),
		malformed(oversize, "roles", altered(func(in *helm.Intent) {
			for i := range 33 {
				in.Caller.Roles = append(in.Caller.Roles, fmt.Sprint("role", i))
			}
		})),
		malformed(oversize, "key", altered(func(in *helm.Intent) { in.Idempotency = strings.Repeat("k", 257) })),
		malformed(elsewhere, "a key in main",
			altered(func(in *helm.Intent) { in.Session, in.Idempotency = "main", "k" })),
		malformed(elsewhere, "a key without a session",
			altered(func(in *helm.Intent) { in.Session, in.Idempotency = "", "k" })),
		malformed(oversize, "envelopes",
			altered(func(in *helm.Intent) { in.Approvals = make([]contracts.Envelope, 17) })),
		malformed(oversize, "causes", func(s *target, in *helm.Intent) {
			r := s.admit()
			for range 33 {
				in.After = append(in.After, r.Ref())
			}
		}),
		malformed(plain, "control characters", altered(func(in *helm.Intent) { in.Caller.ID = "ann\nbob" })),
		malformed(plain, "no UTF-8", altered(func(in *helm.Intent) { in.Caller.Tenant = "\xc0\xaf" })),
		malformed(elsewhere, "the kernel's own session", altered(kerneltest.InSession("@refused"))),
		malformed(elsewhere, "a cause of another log", func(s *target, in *helm.Intent) {
			other := stage(s.T)
			in.After = []contracts.Ref{other.admit(kerneltest.InSession("other")).Ref()}
		}),
		malformed(elsewhere, "a cause at another place", func(s *target, in *helm.Intent) {
			ref := s.admit().Ref()
			ref.Index++
			in.After = []contracts.Ref{ref}
		}),

		raw(omitted, "left out", ""),
		raw(emptied, "a blank", " "),
		raw(null, "null", "null"),
		raw(retyped, "a list", "[]"),
		raw(retyped, "a string that holds an object", `"{}"`),
		raw(oversize, "longer than 1 MiB", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`),
		raw(oversize, "nested more than 64 deep", `{"text":`+strings.Repeat("[", 64)+strings.Repeat("]", 64)+`}`),
		raw(plain, "cut short", `{"text":"hi"`),
		raw(plain, "two", `{"text":"hi"}{}`),
		raw(plain, "an object with a key twice", `{"text":"hi","text":"secret"}`),
		raw(plain, "an object with a key in two spellings", `{"text":"hi","Text":"secret"}`),
		raw(plain, "a number that a double cannot hold", `{"n":9007199254740993}`),
		raw(plain, "half a character", `{"text":"\ud800"}`),

		{name: "a closed session", reason: contracts.ReasonSessionClosed, do: func(s *target, in helm.Intent) answer {
			s.close(in.Session)
			return s.guard(in)
		}, ends: true},
		{kind: replayed, name: "a key that was bound in the session before it was closed",
			reason: contracts.ReasonSessionClosed, do: func(s *target, in helm.Intent) answer {
				in.Idempotency = "k"
				s.admit(kerneltest.WithKey("k"))
				s.close(in.Session)
				return s.guard(in)
			}, ends: true},
		{kind: replayed, name: "a session that was closed before a restart", reason: contracts.ReasonSessionClosed,
			do: func(s *target, in helm.Intent) answer {
				s.close(in.Session)
				s.Reopen()
				return s.guard(in)
			}, ends: true},
		{kind: elsewhere, name: "a closed session, by a narrowed kernel", reason: contracts.ReasonSessionClosed,
			do: func(s *target, in helm.Intent) answer {
				task := s.Narrow(s.Kernel, kerneltest.Overlay(s.T, "task", 1, 5))
				s.close(in.Session)
				return by(task, in)
			}, ends: true},
		{kind: raced, name: "a session that is closed meanwhile", reason: contracts.ReasonSessionClosed,
			do: func(s *target, in helm.Intent) answer {
				return s.until(in, func() { s.close(in.Session) })
			}, ends: true},

		frozen(plain, "any call", (*target).guard),
		frozen(replayed, "a call that was allowed before, by its key", func(s *target, in helm.Intent) answer {
			in.Idempotency = "k"
			return s.guard(in)
		}),
		frozen(replayed, "a call after a restart", func(s *target, in helm.Intent) answer {
			s.Reopen()
			return s.guard(in)
		}),
		frozen(elsewhere, "a call by a narrowed kernel", func(s *target, in helm.Intent) answer {
			return by(s.Narrow(s.Kernel, kerneltest.Overlay(s.T, "task", 1, 5)), in)
		}),
		frozen(elsewhere, "a call of a caller with every role", func(s *target, in helm.Intent) answer {
			in.Session, in.Caller = "another", helm.Caller{ID: "root 1", Tenant: "acme",
				Roles: []string{"freezer", "owner", "root"}}
			return s.guard(in)
		}),
		{kind: raced, name: "a freeze between reading and judgement", reason: contracts.ReasonSystemFrozen,
			do: func(s *target, in helm.Intent) answer {
				return s.between(in, s.Freeze)
			}, ends: true},
		{kind: raced, name: "a freeze meanwhile", reason: contracts.ReasonSystemFrozen,
			do: func(s *target, in helm.Intent) answer {
				freeze := s.Freezing()
				return s.until(in, func() { s.Govern(freeze, kerneltest.Freezer) })
			}, ends: true},

		conflict(replayed, "with other arguments", func(in *helm.Intent) { in.Args = []byte(`{"text":"ho"}`) }),
		conflict(replayed, "with another tool", func(in *helm.Intent) { in.Tool, in.Args = "slow", []byte(`{}`) }),
		conflict(elsewhere, "by another caller", func(in *helm.Intent) { in.Caller.ID = "bob" }),
		conflict(elsewhere, "for another tenant", func(in *helm.Intent) { in.Caller.Tenant = "umbrella" }),
		conflict(elsewhere, "with other roles", func(in *helm.Intent) { in.Caller.Roles = []string{"root"} }),
		{kind: replayed, name: "a key after a restart", reason: contracts.ReasonIdempotencyConflict,
			do: func(s *target, in helm.Intent) answer {
				s.admit(kerneltest.WithKey("k"))
				s.Reopen()
				in.Idempotency, in.Args = "k", []byte(`{"text":"ho"}`)
				return s.guard(in)
			}},
		{kind: raced, name: "a key, by ten with ten arguments", reason: contracts.ReasonIdempotencyConflict,
			do: func(s *target, in helm.Intent) answer {
				return s.race(in, 10, 1, func(i int, in *helm.Intent) {
					in.Idempotency, in.Args = "k", fmt.Appendf(nil, `{"text":"%d"}`, i)
				})
			}},

		sealing(omitted, "no kernel", func(s *target, in helm.Intent) answer {
			var none *helm.Kernel
			return by(none, in)
		}),
		sealing(emptied, "a zero kernel", func(s *target, in helm.Intent) answer {
			return by(new(helm.Kernel), in)
		}),
		sealing(plain, "a closed kernel", func(s *target, in helm.Intent) answer {
			assert.NoError(s.T, s.Kernel.Close())
			return s.guard(in)
		}),
		sealing(plain, "a kernel whose store failed", func(s *target, in helm.Intent) answer {
			s.Store.FailIn(1)
			s.guard(in)
			return s.guard(in)
		}),
		sealing(plain, "a kernel whose key panicked", func(s *target, in helm.Intent) answer {
			s.Key.Panics = true
			s.Key.FailIn(1)
			s.guard(in)
			return s.guard(in)
		}),
		sealing(elsewhere, "a narrowed kernel that was closed", func(s *target, in helm.Intent) answer {
			task := s.Narrow(s.Kernel, kerneltest.Overlay(s.T, "task", 1, 5))
			assert.NoError(s.T, task.Close())
			return by(task, in)
		}),
		sealing(elsewhere, "the context of a narrowed kernel that was not made",
			func(s *target, in helm.Intent) answer {
				var none *helm.Kernel
				return answered(s.Kernel.Guard(none.Context(context.Background()), in))
			}),
		sealing(raced, "a kernel that is closed meanwhile", func(s *target, in helm.Intent) answer {
			return s.until(in, func() { assert.NoError(s.T, s.Kernel.Close()) })
		}),
	}}
}

// frozen makes its call while the system is frozen. The good call was made with a key before, and
// is admitted again after the freeze.
func frozen(k kind, name string, do func(s *target, in helm.Intent) answer) attack {
	return attack{kind: k, name: "a frozen system: " + name, reason: contracts.ReasonSystemFrozen,
		do: func(s *target, in helm.Intent) answer {
			s.admit(kerneltest.WithKey("k"))
			s.Freeze()
			a := do(s, in)
			s.Unfreeze()
			return a
		}}
}

func conflict(k kind, name string, f func(in *helm.Intent)) attack {
	return attack{kind: k, name: "a key " + name, reason: contracts.ReasonIdempotencyConflict,
		do: func(s *target, in helm.Intent) answer {
			s.admit(kerneltest.WithKey("k"))
			in.Idempotency = "k"
			f(&in)
			return s.guard(in)
		}}
}

func sealing(k kind, name string, do func(s *target, in helm.Intent) answer) attack {
	return attack{kind: k, name: name, reason: contracts.ReasonKernelSealed, do: do}
}

// driverOf calls a tool that has no driver, with one.
func driverOf(tool string, f func(s *target) executor.Driver) func(*target, *helm.Intent) {
	return func(s *target, in *helm.Intent) { in.Tool, in.Args, in.Driver = tool, []byte(`{}`), f(s) }
}

// close closes a session.
func (s *target) close(session string) {
	s.T.Helper()
	assert.NoError(s.T, s.Kernel.CloseSession(context.Background(), session))
}

// until repeats the call while something happens that ends it. Every answer before the last one,
// which it returns, allows the call.
func (s *target) until(in helm.Intent, what func()) (a answer) {
	s.T.Helper()
	done := make(chan struct{})
	go func() { defer close(done); what() }()
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true // and one call more
		default:
		}
		if a = s.guard(in); a.d.Err() != nil {
			break
		}
		s.Runs.Store(0)
	}
	<-done
	return a
}
