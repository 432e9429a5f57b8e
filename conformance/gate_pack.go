package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm"
	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/proofgraph"
	"github.com/helmkernel/helm/trust/registry"
)

// Gate 7: a pack is a function of the log, and its reader can see what it shows.

const block = 512 // of a USTAR

// A member is a file of a pack.
type member struct {
	name string
	body []byte
}

// members are those of a pack, in order.
func members(t *trial, pack []byte) (list []member) {
	for at := 0; at+block <= len(pack) && pack[at] != 0; {
		name, _, _ := strings.Cut(string(pack[at:at+100]), "\x00")
		size, err := strconv.ParseInt(string(pack[at+124:at+135]), 8, 64)
		t.must(err, "the size of a member")
		at += block
		t.check(at+int(size) <= len(pack), "a member is longer than the pack")
		list = append(list, member{name, pack[at : at+int(size)]})
		at += (int(size) + block - 1) / block * block
	}
	return list
}

// packed is the pack of members, as section 8 of FORMATS.md has it.
func packed(list []member) (pack []byte) {
	for _, m := range list {
		head := make([]byte, block)
		copy(head, m.name)
		for at, text := range map[int]string{100: "0000644\x00", 108: "0000000\x00", 116: "0000000\x00",
			124: fmt.Sprintf("%011o\x00", len(m.body)), 136: "00000000000\x00", 148: "        ", 156: "0",
			257: "ustar\x0000", 329: "0000000\x00", 337: "0000000\x00"} {
			copy(head[at:], text)
		}
		sum := 0
		for _, b := range head {
			sum += int(b)
		}
		copy(head[148:], fmt.Sprintf("%06o\x00 ", sum))
		pack = append(append(pack, head...), m.body...)
		pack = append(pack, make([]byte, (block-len(m.body)%block)%block)...)
	}
	return append(pack, make([]byte, 2*block)...)
}

// invalid holds the verifier to refusing a pack.
func invalid(w *world, what string, pack []byte) {
	report, err := w.verify(pack, evidence.Options{Trust: w.initial(), Origin: origin})
	w.check(err != nil && !report.Success(evidence.Intact) && report.Level == evidence.Invalid,
		"%s: not found, the pack is %s", what, report.Level)
}

func packCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	add("two writers give the same bytes", func(t *trial) {
		first := journal(t).pack()
		again := journal(t)
		t.check(bytes.Equal(first, again.pack()), "two logs of the same calls have two packs")
		t.check(bytes.Equal(first, again.pack()), "one log has two packs")
		files := journal(t, onFiles)
		t.check(bytes.Equal(first, files.pack()), "a log on files has another pack than one in memory")
		t.check(bytes.Equal(first, packed(members(t, first))), "the archive is not that of the format")
		files.verified()
	})
	for _, x := range []struct {
		name   string
		change func(list []member, i int) []member
	}{
		{"each member changed", func(list []member, i int) []member {
			body := bytes.Clone(list[i].body)
			body[len(body)/2] ^= 1
			list[i].body = body
			return list
		}},
		{"each member cut short", func(list []member, i int) []member {
			list[i].body = list[i].body[:len(list[i].body)-1]
			return list
		}},
		{"each member empty", func(list []member, i int) []member { list[i].body = nil; return list }},
		{"each member under another name", func(list []member, i int) []member { list[i].name += "x"; return list }},
		{"each member twice", func(list []member, i int) []member { return slices.Insert(list, i, list[i]) }},
		{"a member added before each", func(list []member, i int) []member {
			return slices.Insert(list, i, member{"blobs/" + crypto.Sum([]byte("more")).String(), []byte("more")})
		}},
		{"each member before the one that precedes it", func(list []member, i int) []member {
			list[i], list[(i+1)%len(list)] = list[(i+1)%len(list)], list[i]
			return list
		}},
	} {
		add(x.name, func(t *trial) {
			w := journal(t)
			whole := members(t, w.pack())
			t.check(len(whole) > 5, "%d members", len(whole))
			for i := range whole {
				invalid(w, whole[i].name, packed(x.change(slices.Clone(whole), i)))
			}
		})
	}
	add("each member missing", func(t *trial) {
		w := journal(t)
		whole := members(t, w.pack())
		for i, m := range whole {
			invalid(w, m.name, packed(slices.Delete(slices.Clone(whole), i, i+1)))
		}
	})
	add("each block changed, cut off and followed by more", func(t *trial) {
		w := journal(t)
		pack := w.pack()
		for at := 0; at < len(pack); at += block {
			bad := bytes.Clone(pack)
			bad[at+at/block%block] ^= 0x20
			invalid(w, fmt.Sprint("byte ", at+at/block%block), bad)
			invalid(w, fmt.Sprint("cut at ", at), pack[:at])
		}
		invalid(w, "a byte more", append(bytes.Clone(pack), 0))
		invalid(w, "a block more", append(bytes.Clone(pack), make([]byte, block)...))
	})
	return append(list, levelCases()...)
}

// levelCases are about what a good pack shows, depending on what its reader knows.
func levelCases() (list []gateCase) {
	add := func(name string, do func(t *trial)) { list = append(list, gateCase{name, do}) }
	add("without a trust root it is no success", func(t *trial) {
		w := journal(t)
		report, _ := w.verify(w.pack(), evidence.Options{Origin: origin})
		t.check(
			report.Signer == evidence.Unpinned && !report.Success(evidence.Intact),
			"a success, signer %s",
			report.Signer,
		)
	})
	add("with the kernel's key alone", func(t *trial) {
		w := journal(t)
		report, err := w.verify(w.pack(), evidence.Options{Kernel: publicOf("kernel"), Origin: origin})
		t.must(err, "the pinned key")
		t.check(
			report.Signer == evidence.Trusted && report.Success(evidence.Logged),
			"%s %s",
			report.Level,
			report.Signer,
		)
		report, err = w.verify(w.pack(), evidence.Options{Kernel: publicOf("mallory"), Origin: origin})
		t.check(err != nil && !report.Success(evidence.Intact), "with another key: a success")
	})
	add("with another trust state", func(t *trial) {
		w := journal(t)
		other := journal(t, registered(t, 1, keyNamed("root", registry.Root)))
		report, err := w.verify(w.pack(), evidence.Options{Trust: other.initial(), Origin: origin})
		t.check(err != nil && !report.Success(evidence.Intact), "a success")
	})
	add("of another origin", func(t *trial) {
		w := journal(t)
		report, err := w.verify(w.pack(), evidence.Options{Trust: w.initial(), Origin: "example.test/other"})
		t.check(err != nil && report.Level == evidence.Invalid, "a success")
	})
	add("with the trust state: LOGGED", func(t *trial) {
		w := journal(t)
		report, err := w.verify(w.pack(), evidence.Options{Trust: w.initial(), Origin: origin})
		t.must(err, "the pack")
		t.check(
			report.Level == evidence.Logged && report.History == evidence.None,
			"%s %s",
			report.Level,
			report.History,
		)
	})
	add("a checkpoint: older, newer, of another log", func(t *trial) {
		w := journal(t)
		pack := w.pack()
		older, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		w.wantDenied(contracts.ReasonNoPolicyDefined, helm.Intent{Tool: "look", Args: raw(`{}`), Session: "a"})
		longer := w.pack()
		newer, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		other := bank(t)
		asks(other, rent())
		another, err := other.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		for _, x := range []struct {
			name string
			pack []byte
			last proofgraph.Checkpoint
			want evidence.History
		}{
			{"older", longer, older, evidence.Fresh}, {"its own", pack, older, evidence.Fresh},
			{"newer", pack, newer, evidence.Stale}, {"of another log", longer, another, evidence.Diverged},
		} {
			o := evidence.Options{Trust: w.initial(), Origin: origin, Last: x.last.Note}
			report, _ := w.verify(x.pack, o)
			t.check(report.History == x.want, "%s: history %s, want %s", x.name, report.History, x.want)
			t.check(report.Success(evidence.Logged) == (x.want == evidence.Fresh), "%s: success", x.name)
		}
	})
	add("a manifest by a key that is no kernel's", func(t *trial) {
		w := journal(t)
		_, err := w.kernel.Checkpoint(t.ctx)
		t.must(err, "a checkpoint")
		var b bytes.Buffer
		if err = w.write(&b, w.store.Store, keyOf("mallory")); err == nil {
			invalid(w, "the manifest", b.Bytes())
		}
	})
	return list
}
