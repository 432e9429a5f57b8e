// Package view writes the page on which people read a log: what is proved of it, its sessions and
// calls, one call whole, and what led to what. The page checks signatures, hashes, chains and the
// Merkle root of its entries itself, with the cryptography of the browser.
//
// There are two of them, and they differ only in where their data come from. Handler serves a page
// without data, which asks the kernel API for them, with a token that the person types in. Write
// writes a page with the data in it, which asks nobody for anything:
//
//	err := view.Write(ctx, w, pack, view.Options{Report: report})
//
// A page has its own script and style, by their hashes, and may run, load and send nothing else. A
// text of the log only ever becomes the text of an element, with everything in it that cannot be
// seen written out.
//
// Of entries that a log let go of a page shows what their stubs have, and says so. It counts their
// leaf hashes into the root, and does not check whether the log may have let go of them.
//
// A page proves nothing about who made it: those who can write one can write another script into
// it. It neither replays verdicts nor reads policies, as evidence.Verify does.
package view
