package evidence

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmkernel/helm/internal/race"
)

// TestOraclePast has the second implementation verify the log of the desk, and spoil whatever it can of what was read of the past and presented.
func TestOraclePast(t *testing.T) {
	race.Alone(t)
	o := newOracle(t, "a log of approvals, receipts and calls, and its mutations (TestLies has its own)")
	d := deskLog(t)
	pack := d.pack()
	in, trust := o.file("desk.tar", pack), o.file("trust.json", d.trust.Canonical())
	r, err := verifyBytes(t, pack, Options{Trust: d.trust, Origin: testOrigin})
	if err != nil {
		t.Fatal(err)
	}
	theirs := o.verify(pack, "-trust", trust, "-origin", testOrigin)
	theirs.Errors = nil
	if a, b := fmt.Sprintf("%+v", found(r)), fmt.Sprintf("%+v", theirs); a != b {
		t.Errorf("ours   %s\ntheirs %s", a, b)
	}
	about := regexp.MustCompile("approval|^pending|^inputs-|^decision-|^receipt-")
	idle := strings.Fields(`pending-of-another-reason receipt-unlinked-from-decision inputs-balance-dropped inputs-balance-other inputs-balances-order inputs-labels-order inputs-source-order inputs-source-of-facts
		inputs-source-of-the-user`)
	list, _ := o.run("mutate", "-list")
	out := filepath.Join(o.dir, "spoiled.tar")
	refused := 0
	var nothing []string
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		name, check := f[0], f[1]
		if !about.MatchString(name) {
			continue
		}
		said, status := o.run("mutate", "-n", name, "-seed-hex", strings.Repeat("01", 32), "-seed-hex", strings.Repeat(fmt.Sprintf("%02x", seedL), 32), in, out)
		if status == 3 {
			nothing = append(nothing, name)
			continue
		}
		if status != 0 {
			t.Fatalf("%s: exit %d: %s", name, status, said)
		}
		spoiled, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		_, err = verifyBytes(t, spoiled, Options{Trust: d.trust, Origin: testOrigin})
		var e *Error
		if !errors.As(err, &e) || e.Check.Error() != check {
			t.Errorf("%s: %v, want %s", name, err, check)
		}
		refused++
	}
	if !slices.Equal(nothing, idle) {
		t.Errorf("the mutations that find nothing: %v", nothing)
	}
	if refused < 50 {
		t.Errorf("only %d mutations were refused", refused)
	}
	t.Logf("%d refused", refused)
}
