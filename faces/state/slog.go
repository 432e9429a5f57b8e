package state

import (
	"context"
	"log/slog"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
)

// Slog returns an observer, for Options.Observe or helm.Options.Observe, that logs each event to l:
//
//	s, err := state.Open(ctx, c, state.Options{Observe: state.Slog(slog.Default())})
//
// An ALLOW is of level Info, a DENY is a Warn, a call that ran without a known or released outcome
// too. A call of which nothing was recorded, as after the kernel was sealed, is an Error. The end
// of an abandoned driver is an Info. A line has the members tool, session and verdict, and if they
// are known decision, reason, rule, receipt, repeat and error. It has no argument and no output,
// and so not Event.Why, which may name a member of the arguments. A line is written while the
// caller waits for its result, by as many goroutines as there are callers. If l is nil the observer
// logs nothing.
func Slog(l *slog.Logger) func(context.Context, helm.Event) {
	if l == nil {
		return func(context.Context, helm.Event) {}
	}
	return func(ctx context.Context, e helm.Event) {
		level, message := slog.LevelInfo, "call"
		switch {
		case e.Late:
			message = "abandoned driver ended"
		case e.Tool == "" && e.Err != nil:
			l.LogAttrs(ctx, slog.LevelError, e.Why+" failed", slog.String("error", e.Err.Error()))
			return
		case unrecorded(&e):
			level, message = slog.LevelError, "call not recorded"
		case e.Verdict != contracts.Allow:
			level = slog.LevelWarn
		}
		if !l.Enabled(ctx, level) {
			return
		}
		var room [9]slog.Attr
		l.LogAttrs(ctx, level, message, attrsOf(room[:0], &e)...)
	}
}

// unrecorded reports whether the log has nothing of a call. A repeat of an idempotency key records
// nothing of its own.
func unrecorded(e *helm.Event) bool {
	return e.Err != nil || e.Reason == contracts.ReasonKernelSealed || e.ID == "" && !e.Repeat
}

func attrsOf(list []slog.Attr, e *helm.Event) []slog.Attr {
	list = append(list, slog.String("tool", e.Tool), slog.String("session", e.Session))
	if !e.Late {
		list = append(list, slog.String("verdict", e.Verdict.String()))
	}
	for _, a := range [...]struct{ key, value string }{
		{"decision", e.ID}, {"reason", string(e.Reason)}, {"rule", e.Rule},
	} {
		if a.value != "" {
			list = append(list, slog.String(a.key, a.value))
		}
	}
	if e.ID != "" && !e.Late && e.Err == nil {
		list = append(list, slog.Uint64("receipt", e.Index))
	}
	if e.Repeat {
		list = append(list, slog.Bool("repeat", true))
	}
	if e.Err != nil {
		list = append(list, slog.String("error", e.Err.Error()))
	}
	return list
}
