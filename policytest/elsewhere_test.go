package policytest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/internal/race"
)

const offset = "HELM_TEST_OFFSET" // of the time zone that a process of TestElsewhere runs in

// The report and the logs are the same in every time zone and at every time of the host: other
// processes, which run later and in other zones, print the same digest. Whatever read the host's
// clock would differ.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if zone := os.Getenv(offset); zone != "" {
		d, err := time.ParseDuration(zone)
		require.NoError(t, err)
		time.Local = time.FixedZone("elsewhere", int(d.Seconds()))
		fmt.Printf("digest %s %s\n", time.Now().Format("-0700"), digestOf(t))
		return
	}
	want := digestOf(t)
	for zone, shows := range map[string]string{"14h": "+1400", "-11h30m": "-1130"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestElsewhere$")
		cmd.Env = append(os.Environ(), offset+"="+zone, "TZ=Pacific/Kiritimati")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		got := regexp.MustCompile(`(?m)^digest (\S+) (\S+)$`).FindStringSubmatch(string(out))
		require.Len(t, got, 3, "%s", out)
		assert.Equal(t, shows, got[1], "or the process was not elsewhere")
		assert.Equal(t, want, got[2], zone)
	}
}

// digestOf returns that of the report of the stack, with mutants, and of the logs of all cases.
func digestOf(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"stack_cases.yaml", "bank_cases.yaml"} {
		s, err := Load(os.DirFS("testdata"), name)
		require.NoError(t, err)
		r := mustRun(t, s, Options{Mutate: true, Values: true})
		b, err := json.Marshal(r)
		require.NoError(t, err)
		all.Write(b)
		all.WriteString(r.String())
		of := logs(t, s)
		for _, name := range keysOf(of) {
			all.WriteString(name + of[name])
		}
	}
	d := crypto.Sum([]byte(all.String()))
	return d.String()
}
