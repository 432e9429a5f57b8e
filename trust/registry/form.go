package registry

import (
	"errors"
	"slices"
	"strconv"

	"github.com/helmkernel/helm/contracts"
	"github.com/helmkernel/helm/crypto"
)

// entry is a key with what only the canonical form needs.
type entry struct {
	held
	roles []string
}

// write makes the canonical form, and from it the state.
func write(frozen bool, keys []entry, revoked []contracts.Digest, threshold, version uint64) []byte {
	b := strconv.AppendBool([]byte(`{"frozen":`), frozen)
	b = append(b, `,"keys":[`...)
	for i, k := range keys {
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
	for i, d := range revoked {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b, _ = d.AppendText(b)
		b = append(b, '"')
	}
	b = strconv.AppendUint(append(b, `],"threshold":`...), threshold, 10)
	b = strconv.AppendUint(append(b, `,"version":`...), version, 10)
	return append(b, '}')
}

// read takes a state from its JSON. What write makes of it tells the caller whether the JSON had anything else in it, or in another form.
func read(v crypto.Value) (*State, error) {
	s := &State{frozen: v.Get("frozen").Bool()}
	var ok bool
	if s.threshold, ok = v.Get("threshold").Uint(); !ok {
		return nil, errors.New("threshold: not an integer from 0 on")
	}
	if s.version, ok = v.Get("version").Uint(); !ok {
		return nil, errors.New("version: not an integer from 1 on")
	}
	var keys []entry
	for k := range v.Get("keys").Elements() {
		e, err := readKey(k)
		if err != nil {
			return nil, errors.New("keys." + strconv.Itoa(len(keys)) + ": " + err.Error())
		}
		keys = append(keys, e)
		s.keys = append(s.keys, e.held)
	}
	var revoked []contracts.Digest
	for x := range v.Get("revoked").Elements() {
		d, err := crypto.ParseDigest(x.Bytes())
		if err != nil || len(revoked) > 0 && slices.Compare(revoked[len(revoked)-1][:], d[:]) >= 0 {
			return nil, errors.New("revoked: not a sorted list of digests")
		}
		revoked = append(revoked, d)
	}
	s.revoked = revoked
	s.canonical = write(s.frozen, keys, revoked, s.threshold, s.version)
	s.digest = crypto.Sum(s.canonical)
	return s, nil
}

func readKey(v crypto.Value) (e entry, err error) {
	if e.id, err = crypto.ParseDigest(v.Get("id").Bytes()); err != nil {
		return e, errors.New("id: not 64 lower-case hex digits")
	}
	e.name, e.role = v.Get("name").Text(), Role(v.Get("role").Text())
	public, err := crypto.DecodeBase64(nil, v.Get("public").Bytes())
	if err != nil {
		return e, errors.New("public: not base64")
	}
	e.public = public
	var ok bool
	if e.since, ok = v.Get("since").Uint(); !ok {
		return e, errors.New("since: not an index")
	}
	if r := v.Get("revoked"); r.Kind() != crypto.Missing {
		if e.revoked, e.wasRevoked = r.Uint(); !e.wasRevoked {
			return e, errors.New("revoked: not an index")
		}
	}
	for r := range v.Get("roles").Elements() {
		e.roles = append(e.roles, r.Text())
	}
	return e, e.check()
}

func (e entry) check() error {
	limit := 128
	if e.role == Delegator {
		limit = 256 // its name is a caller id
	}
	switch {
	case !slices.Contains(roles, e.role):
		return errors.New("role: not one of root, kernel, log, publisher, approver, delegator, attestor, freezer, witness")
	case !contracts.IsWords(e.name, limit):
		return errors.New("name: not 1 to " + strconv.Itoa(limit) + " bytes without control characters")
	case len(e.roles) > 0 && e.role != Approver && e.role != Delegator:
		return errors.New("roles: only approvers and delegators have any")
	case len(e.roles) > contracts.MaxRoles:
		return errors.New("roles: more than " + strconv.Itoa(contracts.MaxRoles))
	}
	for i, r := range e.roles {
		if !contracts.IsWords(r, 64) || i > 0 && r <= e.roles[i-1] {
			return errors.New("roles: not sorted, unique, of 1 to 64 bytes each")
		}
	}
	return nil
}
