// This file is compiled into the second implementation of the formats, ../shared/oracle-next, by
// TestSecondImplementation: a command that answers vectors with its code. It imports nothing of
// this module.
package main

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

func init() {
	if len(os.Args) == 3 && os.Args[1] == "answers" {
		answerAll(os.Args[2])
		os.Exit(done)
	}
}

// byFolder has no function for policies and verdicts, which this implementation does not judge, nor
// for meter.
var byFolder = map[string]func(dir string) any{
	"canonical": answerCanonical, "numbers": answerNumber, "points": answerPoint, "envelopes": answerEnvelope,
	"checkpoints": answerCheckpoint, "proofs": answerProof, "trust": answerTrust, "packs": answerPack,
}

// answerAll prints the answers to all cases in a folder.
func answerAll(root string) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "[0-9]*"))
	sure(err)
	sort.Strings(dirs)
	for _, dir := range dirs {
		folder := filepath.Base(filepath.Dir(dir))
		if answer := byFolder[folder]; answer != nil {
			line, err := json.Marshal(map[string]any{"answer": answer(dir), "case": folder + "/" + filepath.Base(dir)})
			sure(err)
			fmt.Printf("%s\n", line)
		}
	}
}

func sure(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(misused)
	}
}

func readFile(dir, name string) []byte {
	b, err := os.ReadFile(filepath.Join(dir, name))
	sure(err)
	return b
}

func readObject(dir, name string) map[string]any {
	o, err := parseJSON(readFile(dir, name), otherLimits)
	sure(err)
	return o
}

func okay(ok bool) any { return map[string]any{"ok": ok} }

// holds reports whether f ended without a fault.
func holds(f func(fail report)) (ok bool) {
	type fault struct{}
	defer func() {
		if x := recover(); x != nil {
			if _, expected := x.(fault); !expected {
				panic(x)
			}
			ok = false
		}
	}()
	f(func(string, string, string, ...any) { panic(fault{}) })
	return true
}

func answerCanonical(dir string) any {
	l := readObject(dir, "limits.json")
	v, err := parseValue(readFile(dir, "input"), limits{int(num(l, "bytes")), int(num(l, "depth")), l["fold"] == true})
	if err != nil {
		return map[string]any{"error": classOf(err.Error())}
	}
	if _, object := v.(map[string]any); l["object"] == true && !object {
		return map[string]any{"error": "root"}
	}
	b := canonical(v)
	if int64(len(b)) > num(l, "canonical") {
		return map[string]any{"error": "size"}
	}
	return map[string]any{"canonical": b64(b)}
}

func classOf(text string) string {
	for _, c := range [][2]string{{"limit", "size"}, {"UTF-8", "utf8"}, {"too deep", "depth"}, {"duplicate", "key"},
		{"surrogate", "surrogate"}, {"out of range", "number"}, {"not a double", "number"}, {"changes when", "number"}} {
		if strings.Contains(text, c[0]) {
			return c[1]
		}
	}
	return "syntax"
}

func answerNumber(dir string) any {
	v, err := parseValue(readFile(dir, "input"), otherLimits)
	_, number := v.(float64)
	return okay(err == nil && number)
}

func answerPoint(dir string) any { return okay(checkPoint(readFile(dir, "input")) == nil) }

func keysOf(dir string) (keys []ed25519.PublicKey, origin string) {
	o := readObject(dir, "keys.json")
	for _, s := range stringsOf(o["keys"]) {
		b, err := unbase64(s)
		sure(err)
		keys = append(keys, b)
	}
	return keys, text(o, "origin")
}

// answerEnvelope checks of what callers present all but the fields of the predicate.
func answerEnvelope(dir string) any {
	keys, _ := keysOf(dir)
	raw := readFile(dir, "input")
	return okay(holds(func(f report) {
		rd := open(raw, f)
		signed := false
		for _, k := range keys {
			signed = signed || keyID(k) == rd.keyid && ed25519.Verify(k, pae(rd.payload), rd.sig)
		}
		if !signed || rd.p["key"] != rd.keyid {
			f("", "", "")
		}
		switch rd.kind {
		case "approval", "attestation", "delegation", "bundle":
			p := clone(rd.p).(map[string]any)
			delete(p, "key")
			if !subjectIs(rd.st, rd.kind, sum(p)) {
				f("", "", "")
			}
		default:
			new(verifier).record(rd, f)
		}
	}))
}

// signedBy parses a checkpoint of the origin whose first line is by one of the keys.
func signedBy(raw []byte, keys []ed25519.PublicKey, origin string) *checkpoint {
	c, err := parseCheckpoint(raw)
	if err != nil || c.origin != origin {
		return nil
	}
	for _, k := range keys {
		l := c.lines[0]
		if l.name == origin && l.hash == noteHash(origin, 1, k) && ed25519.Verify(k, []byte(c.body), l.sig) {
			return c
		}
	}
	return nil
}

func answerCheckpoint(dir string) any {
	keys, origin := keysOf(dir)
	return okay(signedBy(readFile(dir, "input"), keys, origin) != nil)
}

// answerProof follows RFC 9162, sections 2.1.3.2 and 2.1.4.2.
func answerProof(dir string) any {
	keys, origin := keysOf(dir)
	input := string(readFile(dir, "input"))
	head, rest, found := strings.Cut(input, "\n\n")
	lines := strings.Split(head, "\n")
	word := "old "
	if _, err := os.Stat(filepath.Join(dir, "entry")); err == nil {
		word = "index "
		if lines[0] != "c2sp.org/tlog-proof@v1" {
			return okay(false)
		}
		lines = lines[1:]
		if len(lines) > 0 && strings.HasPrefix(lines[0], "extra ") {
			lines = lines[1:]
		}
	}
	if !found || len(lines) == 0 || !strings.HasPrefix(lines[0], word) {
		return okay(false)
	}
	digits := strings.TrimPrefix(lines[0], word)
	n, err := strconv.ParseInt(digits, 10, 64)
	c := signedBy([]byte(rest), keys, origin)
	if err != nil || strconv.FormatInt(n, 10) != digits || n < 0 || c == nil {
		return okay(false)
	}
	var path []digest
	for _, line := range lines[1:] {
		b, err := unbase64(line)
		if err != nil || len(b) != 32 {
			return okay(false)
		}
		path = append(path, digest(b))
	}
	if word == "index " {
		return okay(inclusion(n, c.size, leafHash(readFile(dir, "entry")), path, c.root))
	}
	old := signedBy(readFile(dir, "last"), keys, origin)
	return okay(old != nil && old.size == n && consistency(n, c.size, old.root, c.root, path))
}

func inclusion(index, size int64, r digest, path []digest, root digest) bool {
	if index >= size {
		return false
	}
	fn, sn := index, size-1
	for _, p := range path {
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			r = nodeHash(p, r)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			r = nodeHash(r, p)
		}
		fn, sn = fn>>1, sn>>1
	}
	return sn == 0 && r == root
}

func consistency(first, second int64, old, root digest, path []digest) bool {
	switch {
	case first < 1 || first > second:
		return false
	case first == second:
		return len(path) == 0 && old == root
	case first&(first-1) == 0:
		path = append([]digest{old}, path...)
	}
	if len(path) == 0 {
		return false
	}
	fn, sn := first-1, second-1
	for fn&1 == 1 {
		fn, sn = fn>>1, sn>>1
	}
	fr, sr := path[0], path[0]
	for _, c := range path[1:] {
		if sn == 0 {
			return false
		}
		if fn&1 == 1 || fn == sn {
			fr, sr = nodeHash(c, fr), nodeHash(c, sr)
			for fn&1 == 0 && fn != 0 {
				fn, sn = fn>>1, sn>>1
			}
		} else {
			sr = nodeHash(sr, c)
		}
		fn, sn = fn>>1, sn>>1
	}
	return fr == old && sr == root && sn == 0
}

func answerTrust(dir string) any {
	state, err := loadTrust(readFile(dir, "state.json"))
	sure(err)
	origin := text(readObject(dir, "log.json"), "origin")
	lines := bytes.SplitAfter(readFile(dir, "events.jsonl"), []byte("\n"))
	for i, line := range lines[:len(lines)-1] {
		o, err := parseJSON(line, otherLimits)
		sure(err)
		env := o["envelope"].(map[string]any)
		payload, err := unbase64(env["payload"])
		sure(err)
		event, err := parseJSON(payload, payloadLimits)
		sure(err)
		signatures := sorted("keyid", list(1, 4096, object(fields{"keyid": isHex, "sig": isB64(64)}, nil)))
		if isEvent(event) != nil || signatures(env["signatures"]) != nil {
			return map[string]any{"event": i, "check": cRecord}
		}
		if state, err = state.apply(event, objects(env["signatures"]), origin, num(o, "index")); err != nil {
			return map[string]any{"event": i, "check": cTrust}
		}
	}
	return map[string]any{"state": state.digest}
}

// answerPack verifies a pack. Judgements are compared with their inputs, and not made again.
func answerPack(dir string) any {
	x := readObject(dir, "options.json")
	o := Options{Origin: text(x, "origin")}
	if x["key"] != nil {
		key, err := unbase64(x["key"])
		sure(err)
		o.Key = key
	}
	if x["trust"] == true {
		o.Trust = readFile(dir, "trust.json")
	}
	if x["last"] == true {
		o.Last = readFile(dir, "last")
	}
	pack := readFile(dir, "pack.tar")
	r := Verify(bytes.NewReader(pack), int64(len(pack)), o)
	if len(r.Errors) > 0 {
		a := map[string]any{"level": r.Level, "check": r.Errors[0].Check}
		if i := r.Errors[0].Index; i >= 0 && r.Errors[0].Check != cBlob {
			a["entry"] = i
		}
		return a
	}
	return map[string]any{"level": r.Level, "history": r.History, "signer": r.Signer, "replay": map[string]any{
		"kernelsOwn": r.Replay.Refusals, "notReplayable": r.Replay.NotReplayable, "replayed": r.Replay.Compared,
		"unseen": r.Replay.Unseen}}
}
