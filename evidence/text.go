package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmkernel/helm/contracts"
)

// maxListed is how much of a list people are shown. MarshalJSON returns all of it.
const maxListed = 5

// String returns some lines of plain ASCII: what is proved, and what is not. The first line is the
// answer: it begins with SUCCESS or NO SUCCESS, for what was asked. Long lists are cut, with their
// number.
func (r Report) String() string {
	var t text
	switch f := r.Fault; {
	case f != nil:
		t.line("NO SUCCESS: INVALID: " + f.told(" at entry "))
		t.line("")
		switch {
		case f.Check == ErrInput:
			t.line("What the caller gave is at fault. Nothing is proved, and nothing is said to be wrong with the log.")
		case f.Err != nil:
			what := "It could not be read"
			if f.Check == ErrRerun {
				what = "A call could not be run again"
			}
			t.line(what + ". Nothing is proved, and nothing is said to be wrong with what was signed: verify it again.")
		default:
			t.line("Nothing that it holds is proved.")
		}
		if r.Replay.Differing > 0 {
			t.line("Verdicts that are not what the guardian says, or whose inputs or outputs are not what the " +
				"log says: " + number(r.Replay.Differing) + ".")
		}
		if r.Rerun.Differing > 0 {
			t.line("Receipts that are not what the module returns when the call is run again: " +
				number(r.Rerun.Differing) + ".")
		}
	case r.Level == Invalid:
		t.line("NO SUCCESS: the verification was ended before it was done")
		t.line("")
		t.line("Nothing is proved, and nothing is said to be wrong: verify it again.")
	case r.Excerpt != nil:
		t.line(r.answer())
		t.line("")
		r.excerpted(&t)
		t.line("")
		r.unexcerpted(&t)
	default:
		t.line(r.answer())
		t.line("")
		r.proved(&t)
		t.line("")
		r.unproved(&t)
	}
	return t.String()
}

// answer returns the first line, with all that is lacking.
func (r Report) answer() string {
	words := fmt.Sprintf("%s, %s, %s", r.Level, r.History, r.Signer)
	var lacks []string
	if r.Level < r.asked() {
		lacks = append(lacks, r.asked().String()+" was asked for")
	}
	switch r.History {
	case Stale:
		lacks = append(lacks, "it is older than the last checkpoint")
	case Diverged:
		lacks = append(lacks, "it is another history than the last checkpoint is of")
	case Unknown:
		lacks = append(lacks, "the last checkpoint is of another size")
	}
	if r.Signer == Unpinned {
		lacks = append(lacks, "no trust root was given")
	}
	switch {
	case !r.Success(Invalid):
		return "NO SUCCESS: " + words + ": " + strings.Join(lacks, "; ")
	case r.Excerpt != nil:
		return "SUCCESS: " + words + ": no verdict was replayed, as this is an excerpt"
	case r.History == None:
		return "SUCCESS: " + words + ": no last checkpoint was given, so an old pack passes too"
	}
	return "SUCCESS: " + words
}

func (r Report) proved(t *text) {
	t.row("log", r.Origin)
	t.row("entries", number(r.Size))
	if r.Behind > 0 {
		t.row("behind them", number(r.Behind)+", not verified")
	}
	t.row("sessions", number(r.Sessions))
	t.row("allowed", number(r.Allows))
	t.row("denied", number(r.Denials))
	t.row("receipts", number(r.Receipts))
	if r.Reported > 0 {
		t.row("of these reported", number(r.Reported))
	}
	list(t, "open", number(uint64(len(r.Open))), r.Open,
		func(x Call) string { return fmt.Sprintf("%s, entry %d", x.ID, x.Index) })
	t.row("replayed", number(r.Replay.Replayed))
	t.row("kernel's own", number(r.Replay.KernelsOwn))
	t.row("not replayable", number(r.Replay.NotReplayable)+indexes(r.Replay.Entries))
	t.row("differing", number(r.Replay.Differing))
	if r.Replay.Unseen > 0 {
		t.row("unseen sources", number(r.Replay.Unseen))
	}
	for _, e := range r.Replay.Engines {
		t.row("other engine", fmt.Sprintf("rules %d, threat %d", e.Rules, e.Threat))
	}
	r.Rerun.proved(t)
	r.cosigned(t)
	lacking := number(uint64(len(r.Erased)))
	if len(r.Erased) > 0 {
		lacking += ", erased or never kept"
	}
	list(t, "not there", lacking, r.Erased, contracts.Digest.String)
	if len(r.Condensed) > 0 {
		list(t, "condensed", number(uint64(len(r.Condensed))), r.condensed(), Range.line)
	}
	if len(r.Strange) > 0 {
		list(t, "strange", number(uint64(len(r.Strange))), r.Strange, contracts.Digest.String)
	}
	t.row("Merkle root", r.MerkleRoot.String())
	t.row("proof graph", r.ProofGraphHash.String())
	t.row("trust state", r.Trust.String())
}

// cosigned adds who has cosigned the checkpoint.
func (r Report) cosigned(t *text) {
	if len(r.Witnesses) > 0 || r.asked() == Witnessed {
		list(t, "witnesses", number(uint64(len(r.Witnesses))), r.Witnesses,
			func(x cosigner) string { return short(x.Name) + ", " + x.Time.Format(time.RFC3339) })
	}
}

// unproved adds what does not follow from a pack like this, and what to do about it.
func (r Report) unproved(t *text) {
	t.line("not proved:")
	if r.Signer == Unpinned {
		t.item("Who made it. No trust root was given, and anyone can make a pack like this:",
			"get the initial trust state of the log from its operator, by another way.")
	}
	if r.Level < Logged {
		t.item("That the log stands by it. No log key of the trust state has signed the checkpoint:",
			"ask for a pack whose checkpoint is signed.")
	}
	switch {
	case r.Level == Logged && r.asked() == Witnessed:
		t.item("That others were shown the same log. Fewer witnesses have cosigned its checkpoint than the quorum:",
			"get the checkpoint with their lines, and give it with the pack.")
	case r.Level == Witnessed:
		t.item("That the witnesses read the log. They signed that its checkpoints go on from each other, and when.")
	}
	switch r.History {
	case None:
		t.item("That it is the latest, and goes on from what was seen before. No last checkpoint was given,",
			"and an old pack passes like a new one: keep its checkpoint, and give it the next time.")
	case Fresh:
		t.item("That it is the latest. It goes on from the last checkpoint, and the log may have gone on since it " +
			"was made.")
	case Stale:
		t.item("That it goes on from what was seen before. It ends before the last checkpoint, as an old pack does:",
			"ask for one that is as large at least.")
	case Diverged:
		t.item("Which history is the true one. It and the last checkpoint are of two histories of one log:",
			"keep both, and rely on neither before that is explained.")
	}
	if r.Behind > 0 {
		t.item("What stands behind the checkpoint: nothing of it was looked at. " +
			"Verify again when there is a later one.")
	}
	if len(r.Open) > 0 {
		t.item("What became of the open calls. They were allowed, and have no receipt.")
	}
	if r.Reported > 0 {
		t.item("That the reported outcomes are as they were reported. These calls ran elsewhere, and the kernel did " +
			"not see it.")
	}
	if r.Replay.NotReplayable > 0 {
		t.item("That the verdicts which are not replayable follow from their inputs. These are not there,",
			"or are for another version of the engine; the verdicts are signed, and were not made again.")
	}
	if r.Replay.Unseen > 0 {
		t.item("That the unseen sources had the values that were found in them. Texts or facts are not there,",
			"and what was found is as the inputs say, which are signed.")
	}
	r.Rerun.unproved(t)
	if len(r.Erased) > 0 {
		t.item("What the inputs, outputs, texts and modules were that are not there. They were erased, or never " +
			"kept; their digests are signed.")
	}
	r.uncondensed(t)
	t.item("What the kernel never logged.")
}

// line returns a line for people.
func (r Range) line() string {
	s := fmt.Sprintf("entry %d, %s: of %d to %d %s may go, %s stubs", r.Index, r.Hash, r.From, r.To-1,
		number(r.Dropped), number(r.Stubs))
	switch {
	case r.Seen:
		return s + ", seen whole"
	case r.Stubs > 0:
		return s + ", the kernel's word"
	}
	return s
}

// condensed returns the ranges, those first that are the kernel's word.
func (r Report) condensed() []Range {
	list := slices.Clone(r.Condensed)
	slices.SortStableFunc(list, func(a, b Range) int { return cmp.Compare(b.unseen(), a.unseen()) })
	return list
}

// unseen returns how many stubs are the kernel's word.
func (r Range) unseen() uint64 {
	if r.Seen {
		return 0
	}
	return r.Stubs
}

// uncondensed adds what is not known of entries that stand as stubs.
func (r Report) uncondensed(t *text) {
	var stubs, unseen uint64
	for _, x := range r.Condensed {
		stubs += x.Stubs
		unseen += x.unseen()
	}
	if stubs > 0 {
		t.item("What the "+number(stubs)+" entries were of which stubs are there: by whom, with which arguments,",
			"by which rule. They were let go of; the condense entries are signed.")
	}
	if unseen > 0 {
		t.item("That "+number(unseen)+" of these stubs are those of the entries that stood there: it is the kernel's",
			"word. Verify logs before entries are let go of, and give the hashes of the condense entries then.")
	}
	if len(r.Strange) > 0 {
		t.item("That the log is the one of which the strange entries are. It has them nowhere:",
			"they are of another log, or others were put in their place.")
	}
}

// proved adds what became of the calls that ran in sandboxes, if there are any and they were asked
// about.
func (r *Rerun) proved(t *text) {
	if *r == (Rerun{}) {
		return
	}
	t.row("run again", number(r.Same)+", with the same result")
	for _, x := range [...]struct {
		name string
		n    uint64
	}{{"unpinned", r.Unpinned}, {"not closed", r.Open}, {"ended", r.Ended}, {"not kept", r.NotKept},
		{"other meter", r.OtherMeter}, {"over the gas", r.Over}, {"runs differing", r.Differing}} {
		if x.n > 0 {
			t.row(x.name, number(x.n))
		}
	}
}

// unproved adds what does not follow from the runs.
func (r *Rerun) unproved(t *text) {
	if r.Same > 0 {
		t.item("That the modules which were run again do what their names say: read them. That calls were made once:",
			"the holder of the key may try decisions until random numbers and time are as they like.")
	}
	if r.Unpinned > 0 {
		t.item("That the policy wanted the unpinned modules. No demand lists them, and the host chose what ran.")
	}
	if r.Open > 0 {
		t.item("What the sandboxes that are not closed returned: it depends on the clock, chance or files of the host.")
	}
	if r.Ended > 0 {
		t.item("That the ended runs had to end. A time limit, the caller or the host ended them, and not the module.")
	}
	if r.NotKept > 0 {
		t.item("What the calls returned that are not kept. Inputs, module or files are not at hand, or the policy is",
			"another engine's: ask for them.")
	}
	if r.OtherMeter > 0 {
		t.item("What the calls of another meter returned: verify with the version of the library that has it.")
	}
	if r.Over > 0 {
		t.item("What the calls returned that are over the gas of all runs: verify again with more.")
	}
}

func (r Report) asked() Level {
	if r.Asked == Invalid {
		return Intact
	}
	return r.Asked
}

// A text is a report as people read it.
type text struct{ strings.Builder }

func (t *text) line(s string)       { t.WriteString(plain(s) + "\n") }
func (t *text) row(name, is string) { t.line(fmt.Sprintf("%-16s%s", name, is)) }

// item adds a point of a list.
func (t *text) item(lines ...string) {
	for i, s := range lines {
		t.line([]string{"  - ", "    "}[min(i, 1)] + s)
	}
}

// indexes returns the first indexes, for the line that has their number.
func indexes(of []uint64) string {
	s := ""
	for i, x := range of[:min(len(of), maxListed)] {
		s += []string{": entry ", ", "}[min(i, 1)] + strconv.FormatUint(x, 10)
	}
	if len(of) > maxListed {
		s += ", and " + number(uint64(len(of)-maxListed)) + " more"
	}
	return s
}

// list adds how many there are, and the first ones.
func list[T any](t *text, name, count string, of []T, show func(T) string) {
	t.row(name, count)
	for _, x := range of[:min(len(of), maxListed)] {
		t.row("", show(x))
	}
	if len(of) > maxListed {
		t.row("", "and "+number(uint64(len(of)-maxListed))+" more")
	}
}

// number groups digits by three.
func number(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
