// Package viewtest opens the pages of package view in a real browser. It has nothing but tests.
package viewtest
