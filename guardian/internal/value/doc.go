// Package value reads the values that policies speak of: paths, hosts, URLs, mail and IP addresses,
// times, amounts, and JSON Pointers. It knows no policy.
//
// A value that two readers could take differently is refused, never cleaned.
package value
