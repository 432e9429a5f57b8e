// Package policytest is for tests of policies. [Transcript] reads what an agent said and called.
package policytest
