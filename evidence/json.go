package evidence

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf16"

	"github.com/helmkernel/helm/contracts"
)

// A report as programs read it. The names stay as they are; later versions may add others.
type (
	printed struct {
		Success bool     `json:"success"`
		Level   Level    `json:"level"`
		Asked   Level    `json:"asked"`
		History History  `json:"history"`
		Signer  Signer   `json:"signer"`
		Replay  replayed `json:"replay"`
		Rerun   ranAgain `json:"rerun"`
		Origin  string   `json:"origin"`
		Size    uint64   `json:"size"`
		Behind  uint64   `json:"behind"`
		totals
		Excerpt   []proved  `json:"excerpt,omitempty"`
		Witnesses []witness `json:"witnesses"`
		Open      []opened  `json:"open"`
		letGo
		Erased         []contracts.Digest `json:"erased"`
		MerkleRoot     contracts.Digest   `json:"merkleRoot"`
		ProofGraphHash contracts.Digest   `json:"proofGraphHash,omitzero"`
		Trust          contracts.Digest   `json:"trust,omitzero"`
		Checkpoint     string             `json:"checkpoint"`
	}
	totals struct {
		Sessions uint64 `json:"sessions"`
		Allows   uint64 `json:"allows"`
		Denials  uint64 `json:"denials"`
		Receipts uint64 `json:"receipts"`
		Reported uint64 `json:"reported"`
	}
	replayed struct {
		Replayed      uint64   `json:"replayed"`
		KernelsOwn    uint64   `json:"kernelsOwn"`
		NotReplayable uint64   `json:"notReplayable"`
		Differing     uint64   `json:"differing"`
		Unseen        uint64   `json:"unseen"`
		Entries       []uint64 `json:"entries"`
		Engines       []engine `json:"engines"`
	}
	ranAgain struct {
		Same       uint64 `json:"same"`
		Unpinned   uint64 `json:"unpinned"`
		Open       uint64 `json:"open"`
		Ended      uint64 `json:"ended"`
		NotKept    uint64 `json:"notKept"`
		OtherMeter uint64 `json:"otherMeter"`
		Over       uint64 `json:"over"`
		Differing  uint64 `json:"differing"`
	}
	engine struct {
		Rules  uint64 `json:"rules"`
		Threat uint64 `json:"threat"`
	}
	witness struct {
		Name string    `json:"name"`
		Time time.Time `json:"time"`
	}
	opened struct {
		Index uint64 `json:"entry"`
		ID    string `json:"id"`
	}

	// an entry of an excerpt
	proved struct {
		Index   uint64               `json:"entry"`
		ID      string               `json:"id"`
		Kind    contracts.Kind       `json:"kind"`
		Time    string               `json:"time"`
		Tool    string               `json:"tool"`
		Verdict contracts.Verdict    `json:"verdict"`
		Outcome contracts.Outcome    `json:"outcome,omitempty"`
		Reason  contracts.ReasonCode `json:"reason"`
	}

	letGo struct {
		Condensed []condensed        `json:"condensed"`
		Strange   []contracts.Digest `json:"strange"`
	}
	condensed struct {
		From    uint64           `json:"from"`
		To      uint64           `json:"to"`
		Index   uint64           `json:"entry"`
		Dropped uint64           `json:"dropped"`
		Stubs   uint64           `json:"stubs"`
		Hash    contracts.Digest `json:"hash"`
		Seen    bool             `json:"seen"`
	}

	// of an INVALID pack
	refused struct {
		Success bool   `json:"success"`
		Level   Level  `json:"level"`
		Asked   Level  `json:"asked"`
		Fault   fault  `json:"fault"`
		Replay  differ `json:"replay"`
		Rerun   differ `json:"rerun"`
	}
	fault struct {
		Check string `json:"check"`
		Entry int64  `json:"entry"`
		Field string `json:"field"`
		What  string `json:"what"`
		Cause string `json:"cause,omitempty"`
	}
	differ struct {
		Differing uint64 `json:"differing"`
	}

	// of a verification that was ended
	unfinished struct {
		Success    bool  `json:"success"`
		Unfinished bool  `json:"unfinished"`
		Asked      Level `json:"asked"`
	}
)

// MarshalJSON returns the whole report: no list is cut, success is for what was asked, digests are
// in hex, times are those of RFC 3339, the checkpoint is the text that it is, and -1 is the entry
// of a fault that is of none. The names are those of the fields. Of an INVALID pack it returns
// success, level, asked, fault and how many verdicts and runs differ. Of a verification that was
// ended it returns "unfinished" and no level, since nothing is said of the pack. The text is ASCII:
// a pack may have names that no terminal should be shown.
func (r Report) MarshalJSON() ([]byte, error) {
	switch f := r.Fault; {
	case f != nil:
		x := fault{Check: f.Check.Error(), Entry: f.Entry, Field: f.Field, What: f.What}
		if f.Err != nil {
			x.Cause = f.Err.Error()
		}
		return marshal(refused{Level: Invalid, Asked: r.asked(), Fault: x,
			Replay: differ{r.Replay.Differing}, Rerun: differ{r.Rerun.Differing}})
	case r.Level == Invalid:
		return marshal(unfinished{Unfinished: true, Asked: r.asked()})
	}
	p := printed{
		Success: r.Success(Invalid), Level: r.Level, Asked: r.asked(), History: r.History, Signer: r.Signer,
		Replay: replayed{
			r.Replay.Replayed, r.Replay.KernelsOwn, r.Replay.NotReplayable, r.Replay.Differing,
			r.Replay.Unseen, all(r.Replay.Entries), []engine{},
		},
		Rerun:  ranAgain(r.Rerun),
		Origin: r.Origin, Size: r.Size, Behind: r.Behind, totals: totals(r.Totals),
		Witnesses: []witness{}, Open: []opened{},
		letGo: letGo{[]condensed{}, all(r.Strange)}, Erased: all(r.Erased),
		MerkleRoot: r.MerkleRoot, ProofGraphHash: r.ProofGraphHash, Trust: r.Trust, Checkpoint: string(r.Checkpoint),
	}
	for _, x := range r.Excerpt {
		p.Excerpt = append(p.Excerpt, x.printed())
	}
	for _, x := range r.Witnesses {
		p.Witnesses = append(p.Witnesses, witness(x))
	}
	for _, x := range r.Open {
		p.Open = append(p.Open, opened(x))
	}
	for _, x := range r.Condensed {
		p.Condensed = append(p.Condensed, condensed(x))
	}
	for _, e := range r.Replay.Engines {
		p.Replay.Engines = append(p.Replay.Engines, engine(e))
	}
	return marshal(p)
}

// printed returns what programs read of an entry.
func (x Proved) printed() proved {
	st := x.Statement
	p := proved{Index: x.Index, ID: x.id(), Kind: st.Kind(), Time: st.Time.String()}
	if r := st.Receipt; r != nil {
		p.Tool, p.Verdict, p.Outcome, p.Reason = r.Tool, r.Verdict, r.Outcome, r.Reason
	}
	if d := st.Judgement(); d != nil {
		p.Tool, p.Verdict, p.Reason = d.Tool, d.Verdict, d.Reason
	}
	return p
}

// marshal escapes all that is not printable ASCII. JSON has that in strings alone.
func marshal(x any) ([]byte, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(b))
	for _, r := range string(b) {
		switch {
		case r >= ' ' && r <= '~':
			out = append(out, byte(r))
		case r <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		}
	}
	return out, nil
}

// all returns the list, or [] instead of null.
func all[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
