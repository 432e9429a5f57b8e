// Package receipts builds the log's record of how a judged call ended, and opens it again. It has
// no private key.
//
// A call ends in one of three ways, and each leaves one receipt:
//
//	receipts.Denied(decision)               it was not admissible: the receipt holds the decision
//	receipts.Build(decision, entry, result) it ran: its outcome, by the table of package contracts
//	receipts.Unknown(decision, entry)       the process died between permission and receipt
//
// A receipt is verified by [Open], from the trust state and the receipt's index alone:
//
//	receipt, err := receipts.Open(entry, trust, index)
//
// Open shows who signed the receipt and that it is well formed. Package evidence shows that the
// receipt and its decision are in the log.
package receipts
