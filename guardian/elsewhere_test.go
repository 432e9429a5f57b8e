package guardian_test

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/helmkernel/helm/guardian"
	"github.com/helmkernel/helm/internal/race"
	"github.com/helmkernel/helm/policy"
)

// Another process, in another zone, of another language, with more or fewer processors, its maps in
// another order, and documents and arguments in another order: the same PolicyHash, inputs, records
// and hashes, and the same words. Each verdict follows from its inputs.
func TestDeterministicElsewhere(t *testing.T) {
	t.Parallel()
	race.Alone(t)
	if seed := os.Getenv("HELM_ELSEWHERE"); seed != "" {
		n, err := strconv.ParseUint(seed, 10, 64)
		require.NoError(t, err)
		time.Local = time.FixedZone("elsewhere", int(n)*1777)
		fmt.Printf("digest %s\n", guardian.Deterministic(t, n, policy.Parse))
		return
	}
	here := guardian.Deterministic(t, 1, policy.Parse)
	for i, env := range []string{"TZ=Asia/Kathmandu LANG=tr_TR.UTF-8 LC_ALL=tr_TR.UTF-8 GOMAXPROCS=1",
		"TZ=America/St_Johns LANG=ar_EG LC_ALL=ar_EG GOMAXPROCS=16"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeterministicElsewhere$", "-test.count=1")
		child.Env = append(os.Environ(), append(strings.Fields(env), "HELM_ELSEWHERE="+strconv.Itoa(i+2))...)
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s: %v\n%s", env, err, out)
		assert.Contains(t, string(out), "digest "+here+"\n", "%s: not %s\n%s", env, here, out)
	}
}
