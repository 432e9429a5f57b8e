package main

import (
	"testing"

	"github.com/helmkernel/helm/helmtest"
	"github.com/helmkernel/helm/policytest"
)

// The cases cover the whole policy, and notice each change of it.
func TestPolicy(t *testing.T) {
	helmtest.Policy(t, "*_cases.yaml", policytest.Options{Min: 100, Mutate: true})
}
