package evidence

import (
	"slices"
	"time"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/internal/cosign"
)

// A witnessed is a checkpoint with what the caller passed about its witnesses.
type witnessed struct {
	quorum int
	by     []cosign.Witness
	latest []int64 // by witness: seconds since 1970; 0: it has not cosigned
	mark   *signed // the log's checkpoint
	later  *signed // Options.Cosigned; nil: none
}

// A cosigner is one of Report.Witnesses.
type cosigner = struct {
	Name string
	Time time.Time
}

// newWitnessed does the check INPUT of what Options have of witnesses.
func newWitnessed(o *Options) (witnessed, *Error) {
	bad := func(field, what string) (witnessed, *Error) { return witnessed{}, newError(ErrInput, field, what) }
	by, err := cosign.Parse(o.Witnesses)
	if err != nil {
		return bad("Witnesses", err.Error())
	}
	if err := cosign.CheckQuorum(o.Quorum, len(by)); err != nil {
		return bad("Quorum", err.Error())
	}
	w := witnessed{quorum: o.Quorum, by: by, latest: make([]int64, len(by))}
	if o.Cosigned != nil {
		if w.later, err = parseSigned(o.Cosigned); err != nil {
			return bad("Cosigned", err.Error())
		}
	}
	return w, nil
}

// of notes the log's checkpoint, which Options.Cosigned must be too. A line of the log in Cosigned
// is not looked at.
func (w *witnessed) of(mark *signed) *Error {
	w.mark = mark
	if c := w.later; c != nil && (c.Origin != mark.Origin || c.Size != mark.Size || c.Root != mark.Root) {
		return newError(ErrCheckpoint, "Cosigned", "its three lines are not those of the log's checkpoint")
	}
	return nil
}

// check does the check COSIGN. A line that names a witness must be by it; all others are passed
// over.
func (w *witnessed) check() *Error {
	for _, note := range [...]struct {
		*signed
		field string
	}{{w.mark, "checkpoint"}, {w.later, "Cosigned"}} {
		if note.signed == nil {
			continue
		}
		for _, line := range note.lines {
			for i := range w.by {
				if !w.by[i].Names(line) {
					continue
				}
				at, ok := w.by[i].Verify(note.Checkpoint, line)
				if !ok {
					return newError(ErrCosign, note.field, "a line of the witness "+line.Name+" does not verify")
				}
				w.latest[i] = max(w.latest[i], at)
			}
		}
	}
	return nil
}

// ahead is how much later than the witnesses' clocks that of the kernel may be at a condense entry.
const ahead = 5 * time.Minute

// dated is the check COSIGN of condense entries, by their times: a log that is WITNESSED has not
// let go of entries by a clock that was set ahead. They are compared with the time of the Quorum-th
// latest witness.
func (w *witnessed) dated(r *Report, times []contracts.Time) *Error {
	if r.Level < Witnessed {
		return nil
	}
	latest := slices.Sorted(slices.Values(w.latest))
	by := latest[len(latest)-w.quorum] // seconds
	for i, at := range times {
		if by < (int64(at)-ahead.Milliseconds()+999)/1000 { // rounded up
			return errorAt(r.Condensed[i].Index, ErrCosign, "predicate.time",
				"more than 5 minutes after the time of the witnesses")
		}
	}
	return nil
}

// report adds who has cosigned. A checkpoint that the log signed is then WITNESSED, if they are
// enough.
func (w *witnessed) report(r *Report) {
	const last = 253402300799 // second of the year 9999, and so of RFC 3339
	for i, at := range w.latest {
		if at > 0 {
			r.Witnesses = append(r.Witnesses, cosigner{w.by[i].Name, time.Unix(min(at, last), 0).UTC()})
		}
	}
	if r.Level == Logged && w.quorum > 0 && len(r.Witnesses) >= w.quorum {
		r.Level = Witnessed
	}
}
