package guardian

import (
	"github.com/helmkernel/helm/crypto"
	"github.com/helmkernel/helm/guardian/internal/compile"
)

// Implies reports whether the condition q of a rule is certain to hold wherever p does, by the
// table of implications by which [Compile] finds rules that are dead: see docs/POLICY.md. A
// condition is an object with the when and unless of a rule, or with neither. Both must be of rules
// about one tool that compile, with the members of lists in place of their names.
func Implies(p, q crypto.Value) bool { return compile.Implies(p, q) }
