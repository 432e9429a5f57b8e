// Package clienttest holds tests alone: the proxy between clients that people use and a provider on
// the loopback that speaks the three APIs as the real ones do. It is a module of its own, so that
// nobody who uses the faces has these clients in their module graph.
//
// The clients in Go always run. Those of npm, and the agents codex and pi, run if HELM_NPM,
// HELM_CODEX and HELM_PI name the directories that integrations/mcp/suite/fetch made of npm, codex
// and pi here; make clients does so.
// Each client first asks the provider itself, so that the script of the provider is known to be one
// that the client understands.
package clienttest
