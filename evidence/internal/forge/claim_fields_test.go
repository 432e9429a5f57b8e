package forge

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/helmkernel/helm/evidence"
	"github.com/helmkernel/helm/internal/race"
)

// free are the values of the base log that the holder of every key may choose, by entry.
// Nothing in the log or the policy, and nothing that others signed, says what they are.
const free = `(j|k|none|q|r|sf) in\.drivers` + // of calls that were refused before anybody counted
	`|(e1|eu) in\.envelopes\.attestations\..*` + // which no policy asked for
	`|(x|ro) p\.time` + // of the last in its session: later, since nothing comes after it
	`|y2 p\.sandbox\.gas` // what a sandbox says of itself

// A spot is one value of a record.
type spot struct {
	path string
	is   any
	set  func(any)
}

// spots are all values under one, in order.
func spots(path string, x any, set func(any)) (list []spot) {
	switch y := x.(type) {
	case Object:
		for _, k := range slices.Sorted(maps.Keys(y)) {
			list = append(list, spots(path+"."+k, y[k], func(v any) { y[k] = v })...)
		}
		return list
	case []any:
		for i, v := range y {
			list = append(list, spots(path+"."+strconv.Itoa(i), v, func(v any) { y[i] = v })...)
		}
	}
	return append(list, spot{path, x, set})
}

// others are values of the same kind.
func others(x any) []any {
	switch y := x.(type) {
	case string:
		switch {
		case len(y) == 64:
			return []any{ones64, zeros64}
		case strings.HasPrefix(y, "20") && strings.HasSuffix(y, "Z"):
			return []any{y[:20] + "999Z"}
		}
		return []any{y + "x", "ALLOW", "EXECUTED", "main", "fs.list", "s2", ""}
	case json.Number:
		n, _ := y.Int64()
		return []any{n + 1, n - 1, 0}
	case int:
		return []any{y + 1, y - 1}
	case bool:
		return []any{!y}
	case []any:
		if len(y) > 0 {
			return []any{y[1:], y[:len(y)-1]}
		}
	}
	return nil
}

// fields returns the record in question: the predicate of an entry, or the inputs that it names;
// done puts a changed one back.
func fields(m *Model, n *Node, part string) (root Object, done func()) {
	if part == "p" {
		return n.P(), func() {}
	}
	old := n.D()["inputsHash"].(string)
	in := parseObject(m, m.Blobs[old])
	return in, func() {
		delete(m.Blobs, old)
		n.D()["inputsHash"] = m.blob(canonical(in))
	}
}

// TestNoFieldIsFree sets every value in every entry of the base log, and in its inputs, another
// one, and makes all that depends on it right again and signs it, as the holder of the kernel key
// and the log key can. Whatever is not listed is refused.
func TestNoFieldIsFree(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	base := BaseLog(t)
	base.Checkpoint()
	pack, o := base.Pack(evidence.Write), evidence.Options{Trust: base.Trust, Origin: Origin}
	isFree := regexp.MustCompile("^(" + free + ")$")
	step, at, tried, passed := 37*Sample(3), 0, 0, 0
	if *Full {
		step = 1
	}
	whole := TakeApart(t, pack)
	for i, node := range whole.Nodes {
		for _, part := range []string{"p", "in"} {
			if part == "in" && node.D() == nil {
				continue
			}
			root, _ := fields(whole, node, part)
			for k, s := range spots(part, root, nil) {
				for _, other := range others(s.is) {
					if at++; at%step != 0 {
						continue
					}
					m := TakeApart(t, pack)
					n := m.Nodes[i]
					root, done := fields(m, n, part)
					spots(part, root, nil)[k].set(other)
					done()
					falsified := rebuilt(m)
					if falsified == nil || bytes.Equal(falsified, pack) {
						continue
					}
					tried++
					r, err := verifyBytes(t, falsified, o)
					name := baseNames[i] + " " + s.path
					switch {
					case err != nil:
						assert.Equal(t, evidence.Invalid, r.Level, "%s: %v, and", name, err)
					case !isFree.MatchString(name):
						t.Errorf("%s: %v instead of %v passes", name, other, s.is)
					default:
						passed++
					}
				}
			}
		}
	}
	t.Logf("%d of %d tried, %d of them free", tried, at, passed)
	if tried < at/step/2 || *Full && passed < 10 || tried < 90/Sample(3) {
		t.Errorf("only %d of %d were tried, %d were free", tried, at, passed)
	}
}

// rebuilt is nil if the forger cannot make sense of the change.
func rebuilt(m *Model) (b []byte) {
	defer func() { _ = recover() }()
	return m.Build()
}
