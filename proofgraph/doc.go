// Package proofgraph keeps a log of signed entries: in one order, linked into chains, under one Merkle root.
package proofgraph
