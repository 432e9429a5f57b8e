// Package receipts builds what the log says of a call that was judged, and opens it again. It has no private key.
//
// There are three ways for a call to end, and each leaves one receipt:
//
//	receipts.Denied(decision)                 it was not admissible: the receipt holds the whole judgement
//	receipts.Build(decision, entry, result)   it ran: what came of it, by the table of outcomes in package contracts
//	receipts.Unknown(decision, entry)         the process died between permission and receipt
//
// Whoever is handed a receipt verifies it with [Open], from the trust state and the receipt's index alone:
//
//	receipt, err := receipts.Open(entry, trust, index)
//
// That says who signed it and that it is well formed. That it stands in the log, and that its decision does, is what package evidence shows.
package receipts
