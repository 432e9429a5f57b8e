package witness

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/helmkernel/helm/internal/cosign"
)

// A Policy says whose cosignatures a checkpoint needs, and where they are asked for.
type Policy struct {
	Logs      []string // verifier keys; one of them must have signed; empty: any log
	Witnesses []Member
	Quorum    int // how many of the witnesses must cosign
}

// A Member is a witness of a policy.
type Member struct {
	Name string // in the policy, and in errors
	Key  string // its verifier key, type 0x04
	URL  string // its submission prefix; "" if it cannot be asked
}

// Keys returns the verifier keys of the witnesses, for verifiers.
func (p Policy) Keys() []string {
	var keys []string
	for _, m := range p.Witnesses {
		keys = append(keys, m.Key)
	}
	return keys
}

// verifiers returns the keys of the witnesses. No two may have one public key, or one name.
func (p Policy) verifiers() ([]cosign.Witness, error) {
	if p.Quorum < 1 || p.Quorum > len(p.Witnesses) {
		return nil, fmt.Errorf("witness: policy: a quorum of %d and %d witnesses", p.Quorum, len(p.Witnesses))
	}
	keys, err := cosign.Parse(p.Keys())
	if err != nil {
		return nil, fmt.Errorf("witness: policy: %w", err)
	}
	return keys, nil
}

const (
	maxPolicy = 1 << 20 // bytes
	maxNames  = 1024    // logs, witnesses and groups
)

// ParsePolicy parses a C2SP tlog-policy whose quorum is one witness or one group of witnesses. It
// returns the witnesses of that group alone. It refuses what it cannot hold a checkpoint to: groups
// of groups as the quorum, "quorum none", and keys that are not Ed25519.
func ParsePolicy(text []byte) (Policy, error) {
	if len(text) > maxPolicy {
		return Policy{}, errors.New("witness: policy: more than 1 MiB")
	}
	lines := strings.Split(string(text), "\n")
	if lines[len(lines)-1] != "" {
		return Policy{}, errors.New("witness: policy: the last line has no line end: is the file whole?")
	}
	r := policyReader{witnesses: map[string]Member{}, groups: map[string]group{}, keys: map[string]bool{}}
	for i, line := range lines {
		if err := r.line(line); err != nil {
			return Policy{}, fmt.Errorf("witness: policy: line %d: %w", i+1, err)
		}
	}
	if r.policy.Quorum == 0 {
		return Policy{}, errors.New("witness: policy: no quorum line")
	}
	if _, err := r.policy.verifiers(); err != nil {
		return Policy{}, err
	}
	return r.policy, nil
}

// A group is k of its members.
type group struct {
	k       int
	members []string
}

// A policyReader is what the lines so far have defined.
type policyReader struct {
	witnesses map[string]Member
	groups    map[string]group
	keys      map[string]bool // public keys of logs and of witnesses, with their type, in base64
	policy    Policy
}

func (r *policyReader) line(line string) error {
	if strings.ContainsFunc(line, func(c rune) bool { return c < 0x20 && c != '\t' || c == 0x7f }) {
		return errors.New("a control character")
	}
	words := strings.FieldsFunc(line, func(c rune) bool { return c == ' ' || c == '\t' })
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	if len(r.policy.Logs)+len(r.witnesses)+len(r.groups) >= maxNames {
		return errors.New("more than 1,024 logs, witnesses and groups")
	}
	switch kind, rest := words[0], words[1:]; {
	case kind == "log" && (len(rest) == 1 || len(rest) == 2):
		return r.log(rest[0])
	case kind == "witness" && (len(rest) == 2 || len(rest) == 3):
		return r.witness(append(rest, "")[:3])
	case kind == "group" && len(rest) >= 3:
		return r.group(rest[0], rest[1], rest[2:])
	case kind == "quorum" && len(rest) == 1:
		return r.quorum(rest[0])
	default:
		return errors.New("not a log, witness, group or quorum line")
	}
}

// key takes note of a verifier key that was parsed, and refuses one that was there.
func (r *policyReader) key(vkey string) error {
	_, rest, _ := strings.Cut(vkey, "+")
	_, public, _ := strings.Cut(rest, "+")
	if r.keys[public] { // base64 has one spelling, and begins with the type
		return errors.New("the same public key as in a line before")
	}
	r.keys[public] = true
	return nil
}

func (r *policyReader) log(vkey string) error {
	if _, err := cosign.ParseLogKey(vkey); err != nil {
		return err
	}
	if err := r.key(vkey); err != nil {
		return err
	}
	r.policy.Logs = append(r.policy.Logs, vkey)
	return nil
}

// free refuses a name that is taken.
func (r *policyReader) free(name string) error {
	_, witness := r.witnesses[name]
	_, group := r.groups[name]
	if witness || group || name == "none" {
		return errors.New("the name is taken")
	}
	return nil
}

func (r *policyReader) witness(words []string) error {
	if err := r.free(words[0]); err != nil {
		return err
	}
	if _, err := cosign.Parse(words[1:2]); err != nil {
		return errors.Unwrap(err) // its number is the line's
	}
	if err := r.key(words[1]); err != nil {
		return err
	}
	r.witnesses[words[0]] = Member{words[0], words[1], words[2]}
	return nil
}

func (r *policyReader) group(name, k string, members []string) error {
	if err := r.free(name); err != nil {
		return err
	}
	g := group{members: slices.Clone(members)}
	for i, m := range members {
		if r.free(m) == nil || m == "none" {
			return errors.New("a member that no line before defines")
		}
		if slices.Contains(members[:i], m) {
			return errors.New("a member twice")
		}
	}
	n, err := strconv.Atoi(k)
	switch {
	case k == "all":
		n = len(members)
	case k == "any":
		n = 1
	case err != nil || strconv.Itoa(n) != k || n < 1 || n > len(members):
		return errors.New("neither all, any, nor a number of members")
	}
	g.k = n
	r.groups[name] = g
	return nil
}

func (r *policyReader) quorum(name string) error {
	if r.policy.Quorum != 0 {
		return errors.New("a second quorum line")
	}
	if name == "none" {
		return errors.New("quorum none is not supported: without witnesses there is nothing to ask for")
	}
	g, ok := r.groups[name]
	if !ok {
		g = group{1, []string{name}}
	}
	for _, m := range g.members {
		w, ok := r.witnesses[m]
		if _, nested := r.groups[m]; nested {
			return errors.New("groups of groups are not supported: write one group of witnesses")
		}
		if !ok {
			return errors.New("a quorum that no line before defines")
		}
		r.policy.Witnesses = append(r.policy.Witnesses, w)
	}
	r.policy.Quorum = g.k
	return nil
}
