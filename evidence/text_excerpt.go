package evidence

import (
	"fmt"
	"strconv"

	"github.com/helmkernel/helm/contracts"
)

// id returns the session and seq of the entry.
func (p Proved) id() string {
	return p.Statement.Session + "/" + strconv.FormatUint(p.Statement.Seq, 10)
}

// excerpted adds what is proved of the entries of an excerpt.
func (r Report) excerpted(t *text) {
	t.row("log", r.Origin)
	t.row("entries", number(r.Size))
	for _, p := range r.Excerpt {
		what := ""
		if x := p.Statement.Receipt; x != nil && x.Decision == nil {
			what = fmt.Sprintf("%s %s", x.Outcome, x.Reason)
		} else if d := p.Statement.Judgement(); d != nil {
			what = d.Tool + ": " + judgedOf(d).String()
		}
		t.row(string(p.Statement.Kind()), fmt.Sprintf("%s, entry %d, %s", p.id(), p.Index, p.Statement.Time))
		t.row("", what)
	}
	t.row("replayed", number(r.Replay.Replayed))
	r.cosigned(t)
	list(t, "not there", number(uint64(len(r.Erased))), r.Erased, contracts.Digest.String)
	t.row("Merkle root", r.MerkleRoot.String())
	if r.Trust != (contracts.Digest{}) {
		t.row("trust state", r.Trust.String())
	}
}

// unexcerpted adds what does not follow from an excerpt like this, and what to do about it.
func (r Report) unexcerpted(t *text) {
	t.line("not proved:")
	t.item("That the verdict follows from the policy. No verdict was replayed, since an excerpt has neither policy",
		"documents nor what was before the call: verify a pack of the log.")
	t.item("What else is in the log, and that these entries agree with it: chains, balances, what may be used once,",
		"trust events: verify a pack of the log.")
	if r.Level < Logged {
		t.item("That the log stands by it. No log key that is known has signed the checkpoint:",
			"give the trust state of the log, or ask for a checkpoint that is signed.")
	}
	switch {
	case r.Level == Logged && r.asked() == Witnessed:
		t.item("That others were shown the same log. Fewer witnesses have cosigned its checkpoint than the quorum:",
			"get the checkpoint with their lines, and give it with the excerpt.")
	case r.Level == Witnessed:
		t.item("That the witnesses read the log. They signed that its checkpoints go on from each other, and when.")
	}
	switch r.History {
	case None:
		t.item("That it is of the log that was seen before. No last checkpoint was given.")
	case Diverged:
		t.item("Which history is the true one. It and the last checkpoint are of two histories of one log:",
			"keep both, and rely on neither before that is explained.")
	case Unknown:
		t.item("That it is of the log that was seen before. The last checkpoint is of another size:",
			"ask for an excerpt of that size, or for a pack.")
	}
	if r.Reported > 0 {
		t.item("That the reported outcome is as it was reported. The call ran elsewhere, and the kernel did not see",
			"it.")
	}
	if len(r.Erased) > 0 {
		t.item("What the inputs, outputs and facts were that are not there. They were left out, erased or never",
			"kept; their digests are signed.")
	}
	t.item("What the kernel never logged.")
}
