package helm

import (
	"github.com/helmkernel/helm/contracts"
)

// The judgement of a call, under the lock of the session that its entries stand in.

// home locks the session that the call's entries stand in: the one asked for or, where that is closed or has no legal name, @refused.
func (c *call) home() *session {
	if c.legal {
		c.here = c.session(c.inputs.Session)
		c.here.enter(c)
		if !c.here.chain.Closed() {
			return c.here
		}
		c.here.mu.Unlock() // never two sessions at once
	}
	c.here = c.session(contracts.SessionRefused)
	c.here.mu.Lock()
	return c.here
}

// stamp gives the call its time, which never runs back within a session. A clock that fails is no clock: the call is refused.
func (c *call) stamp(s *session) {
	c.inputs.Time = s.chain.Time()
	now, err := c.now()
	if err == nil {
		c.inputs.Time = max(now, c.inputs.Time)
	} else {
		c.failed(err.Error(), err)
	}
	if over(c.done) {
		c.failed("the context ended", nil) // its own word is asked for when no lock is held
	}
}

// judge answers the call: condition 0 in its published order, then the guardian.
func (c *call) judge(s *session, a *answer) {
	refuse := func(reason contracts.ReasonCode, why string) {
		a.record, a.why = c.policy.Refuse(c.inputs, reason), why
	}
	c.forget(a)
	raw := c.inputs.ArgsForm != ""
	first := s.keys[c.inputs.Idempotency]
	switch {
	case c.malformed != "":
		refuse(contracts.ReasonIntentMalformed, c.malformed)
	case !raw && s.chain.Session() == contracts.SessionRefused:
		refuse(contracts.ReasonSessionClosed, "the session is closed")
	case !raw && c.state.Frozen():
		refuse(contracts.ReasonSystemFrozen, "the system is frozen")
	case !raw && first != nil && first.is(&c.inputs):
		a.first, a.flight = first, first.flight
	case !raw && first != nil:
		refuse(contracts.ReasonIdempotencyConflict, "idempotency: bound to another call")
	case !raw && c.fault != "":
		a.faulty = true
		refuse(contracts.ReasonFailClosedError, c.fault)
	default:
		d, state, why := c.policy.Decide(&c.inputs, c.state, priors{c})
		a.record, c.inputs.State = d, state
		if d.Verdict == contracts.Deny {
			a.why = why.String()
			if raw {
				a.why = c.syntax
			}
		}
		a.pending = why.Pending
	}
	a.reason = a.record.Reason
}

// forget undoes what an earlier judgement of the call has read and found: of what the kernel refuses itself nothing was read.
func (c *call) forget(a *answer) {
	c.inputs.State = contracts.SessionState{Trust: c.inputs.State.Trust}
	c.unread, a.pending = nil, nil
}

// refit denies what the guardian would have let past its schema, but the Go type of a wrapped function cannot hold. No policy could replay
// that, so the log has the kernel's own refusal of the request.
func (c *call) refit(a *answer) {
	past := a.record.Verdict == contracts.Allow || a.record.Condition > 2 || a.reason == contracts.ReasonDestinationNotAllowed
	if c.misfit != "" && past {
		c.forget(a)
		a.record, a.reason, a.why = c.policy.Refuse(c.inputs, contracts.ReasonIntentMalformed), contracts.ReasonSchemaViolation, c.misfit
	}
}
