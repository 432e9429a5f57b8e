package forge

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

// A mutant is a pack in which the oracle changed one thing and made all else right again, so that
// one check refuses it.
type mutant struct {
	name, check string
	pack        []byte // nil: it has nothing that could be changed so
}

// spoil has the oracle spoil a pack in each way that it knows, but for those that are not asked
// about, with the keys of these seeds.
func (o *oracle) spoil(pack []byte, about func(name string) bool, seeds ...byte) iter.Seq[mutant] {
	var keys []string
	for _, s := range seeds {
		keys = append(keys, "-seed-hex", fmt.Sprintf("%x", longSeed(s)))
	}
	return func(yield func(mutant) bool) {
		o.Helper()
		in, out := o.file("whole.tar", pack), filepath.Join(o.dir, "spoiled.tar")
		list, _ := o.run("mutate", "-list")
		for line := range strings.Lines(list) {
			f := strings.Fields(line)
			require.Len(o, f, 2, "mutate -list: %q", line)
			if about != nil && !about(f[0]) {
				continue
			}
			x := mutant{name: f[0], check: f[1]}
			switch said, status := o.run(append(append([]string{"mutate", "-n", x.name}, keys...), in,
				out)...); status {
			case 0:
				var err error
				x.pack, err = os.ReadFile(out)
				require.NoError(o, err)
			case 3:
			default:
				o.Errorf("%s: exit %d: %s", x.name, status, said)
				continue
			}
			if !yield(x) {
				return
			}
		}
	}
}
