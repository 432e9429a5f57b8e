package guardian

import "github.com/helmkernel/helm/contracts"

// Engine is the version of what judges here. Verdicts of another engine cannot be made again by this one.
func Engine() contracts.Engine { return contracts.Engine{Rules: engineRules, Threat: engineThreat} }
