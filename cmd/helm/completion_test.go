package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each shell loads what completion prints for it, and completes a command, a word of ours and a
// flag. bash has its functions for that from a package of its own, of which this test has what is
// needed. zsh completes on a terminal only: there the test asks what its function asks.
func TestCompletionLoads(t *testing.T) {
	t.Parallel()
	const bash = `
_get_comp_words_by_ref() {
	words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}
}
source <(helm completion bash)
complete -p helm >&2
ask() {
	COMP_WORDS=(helm "$@"); COMP_CWORD=$#; COMP_LINE="helm $*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=()
	__start_helm; printf '%s\n' "${COMPREPLY[@]}"
}
ask poli; ask completion pow; ask log show --sess`
	const zsh = `
autoload -U compinit; compinit -u -D
source <(helm completion zsh)
print -u2 $_comps[helm]
print -r -- ${$(helm __complete poli 2>/dev/null)[1]}
print -r -- ${$(helm __complete completion pow 2>/dev/null)[1]}
print -r -- ${$(helm __complete log show --sess 2>/dev/null)[1]}
[[ $_comps[helm] == _helm ]] && (( $+functions[_helm] ))`
	const fish = `
helm completion fish | source
for line in "helm poli" "helm completion pow" "helm log show --sess"
	complete -C $line | string split -f 1 \t
end`
	for _, shell := range []struct{ name, script string }{{"bash", bash}, {"zsh", zsh}, {"fish", fish}} {
		t.Run(shell.name, func(t *testing.T) {
			t.Parallel()
			bin, err := exec.LookPath(shell.name)
			if err != nil {
				t.Skipf("this machine has no %s", shell.name)
			}
			flags := map[string][]string{"bash": {"--norc"}, "zsh": {"-f"}, "fish": {"--no-config"}}[shell.name]
			c := exec.Command(bin, append(flags, "-c", shell.script)...)
			home := t.TempDir()
			c.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "ZDOTDIR="+home)
			var out, errs strings.Builder
			c.Stdout, c.Stderr = &out, &errs
			require.NoError(t, c.Run(), errs.String())
			var words []string
			for word := range strings.FieldsSeq(out.String()) {
				words = append(words, strings.TrimSuffix(word, "="))
			}
			assert.Equal(t, []string{"policy", "powershell", "--session"}, words, errs.String())
		})
	}
}
