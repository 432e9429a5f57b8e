package registry

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// held is a key of a state.
type held struct {
	id             contracts.Digest
	name           string
	public         crypto.PublicKey
	role           Role
	roles          []string // sorted, without repeats
	since, revoked uint64
	wasRevoked     bool
}

// valid reports whether the key may sign at an index.
func (k *held) valid(index uint64) bool {
	return (k.since == 0 || k.since < index) && (!k.wasRevoked || index <= k.revoked)
}

// append appends the canonical form.
func (s *State) append(b []byte) []byte {
	b = strconv.AppendBool(append(b, `{"frozen":`...), s.frozen)
	b = append(b, `,"keys":[`...)
	for i, k := range s.keys {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = k.id.AppendText(append(b, `{"id":"`...))
		b = crypto.AppendString(append(b, `","name":`...), k.name)
		b = crypto.AppendBase64(append(b, `,"public":"`...), k.public)
		b = append(b, '"')
		if k.wasRevoked {
			b = strconv.AppendUint(append(b, `,"revoked":`...), k.revoked, 10)
		}
		b = crypto.AppendString(append(b, `,"role":`...), string(k.role))
		if len(k.roles) > 0 {
			b = append(b, `,"roles":[`...)
			for j, r := range k.roles {
				if j > 0 {
					b = append(b, ',')
				}
				b = crypto.AppendString(b, r)
			}
			b = append(b, ']')
		}
		b = strconv.AppendUint(append(b, `,"since":`...), k.since, 10)
		b = append(b, '}')
	}
	b = append(b, `],"revoked":[`...)
	for i, d := range s.ended.all() {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b, _ = d.AppendText(b)
		b = append(b, '"')
	}
	b = strconv.AppendUint(append(b, `],"threshold":`...), s.threshold, 10)
	b = strconv.AppendUint(append(b, `,"version":`...), s.version, 10)
	return append(b, '}')
}

// read takes a state from its JSON and ignores all other content. The caller compares the canonical
// form of the result with the JSON, which shows any other content or spelling.
func read(v crypto.Value) (*State, error) {
	s := &State{frozen: v.Get("frozen").Bool()}
	var ok bool
	s.threshold, ok = v.Get("threshold").Uint()
	if !ok {
		return nil, errors.New("threshold: not an integer from 0 on")
	}
	s.version, ok = v.Get("version").Uint()
	if !ok {
		return nil, errors.New("version: not an integer from 1 on")
	}
	for x := range v.Get("keys").Elements() {
		n := len(s.keys)
		if n == maxKeys { // to check the rest would take long
			return nil, errKeys
		}
		k, err := readKey(x)
		switch {
		case err != nil:
			return nil, fmt.Errorf("keys.%d: %w", n, err)
		case n > 0 && compareDigests(s.keys[n-1].id, k.id) >= 0:
			return nil, fmt.Errorf("keys.%d: not sorted by id and unique: a key has one role", n)
		}
		s.keys = append(s.keys, k)
	}
	var revoked []contracts.Digest
	for x := range v.Get("revoked").Elements() {
		d, err := crypto.ParseDigest(x.Bytes())
		if err != nil || len(revoked) > 0 && compareDigests(revoked[len(revoked)-1], d) >= 0 {
			return nil, errors.New("revoked: not a sorted list of digests")
		}
		revoked = append(revoked, d)
	}
	s.ended.sorted = revoked
	return s, nil
}

func readKey(v crypto.Value) (k *held, err error) {
	k = new(held)
	k.id, err = crypto.ParseDigest(v.Get("id").Bytes())
	if err != nil {
		return k, errors.New("id: not 64 lower-case hex digits")
	}
	k.name, k.role = v.Get("name").Text(), Role(v.Get("role").Text())
	k.public, err = crypto.DecodeBase64(nil, v.Get("public").Bytes())
	if err != nil {
		return k, errors.New("public: not base64")
	}
	var ok bool
	k.since, ok = v.Get("since").Uint()
	if !ok {
		return k, errors.New("since: not an index")
	}
	if r := v.Get("revoked"); r.Kind() != crypto.Missing {
		k.revoked, k.wasRevoked = r.Uint()
		if !k.wasRevoked {
			return k, errors.New("revoked: not an index")
		}
	}
	for r := range v.Get("roles").Elements() {
		k.roles = append(k.roles, r.Text())
	}
	return k, k.check()
}

// check tests what holds for every key.
func (k *held) check() error {
	limit := contracts.MaxWords
	if k.role == Delegator {
		limit = contracts.MaxCallerID // the name is a caller id
	}
	switch {
	case !slices.Contains(roles, k.role):
		return errors.New("role: not one of root, kernel, log, publisher, approver, delegator, attestor, " +
			"freezer, witness")
	case !contracts.IsWords(k.name, limit):
		return errors.New("name: not 1 to " + strconv.Itoa(limit) + " bytes without control characters")
	case len(k.roles) > 0 && k.role != Approver && k.role != Delegator:
		return errors.New("roles: only approvers and delegators have any")
	case len(k.roles) > contracts.MaxRoles:
		return errors.New("roles: more than " + strconv.Itoa(contracts.MaxRoles))
	case crypto.KeyID(k.public) != k.id:
		return errors.New("id: not that of the public key")
	}
	for i, r := range k.roles {
		if !contracts.IsWords(r, contracts.MaxRole) || i > 0 && r <= k.roles[i-1] {
			return errors.New("roles: not sorted, unique, of 1 to 64 bytes each")
		}
	}
	return crypto.CheckPublicKey(k.public)
}
