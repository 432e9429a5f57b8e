package contracts

// EvidencePack is the manifest of a pack: it describes the other members. docs/FORMATS.md section
// 8.
type EvidencePack struct {
	Blobs          Blobs
	Checkpoint     Digest // digest of the member's bytes
	Entries        Bytes
	Key            Digest
	MerkleRoot     Digest
	Origin         string
	ProofGraphHash Digest // digest of the canonical array of all heads
	Sessions       Sessions
	Size           uint64 // size of the log
}

// Blobs is the number, total length and Merkle root of a pack's blobs.
type Blobs struct {
	Bytes, Count uint64
	Root         Digest // RFC 6962, over the 32-byte digests in order
}

// Bytes is the length and hash of a member.
type Bytes struct {
	Bytes  uint64
	SHA256 Digest
}

// Sessions is the number and Merkle root of a pack's sessions.
type Sessions struct {
	Count uint64
	Root  Digest // RFC 6962, over canonical SessionEnd in order of names
}

// SessionEnd is the length and the last entry of a session in a pack.
type SessionEnd struct {
	Count   uint64
	Last    Digest
	Session string
}

// Append appends the canonical form.
func (s *SessionEnd) Append(dst []byte) []byte {
	return write(dst, func(f *form) {
		f.count("count", &s.Count)
		f.digest("last", &s.Last)
		f.text("session", required, &s.Session, sessionName)
	})
}

func (p *EvidencePack) visit(f *form) {
	f.object("blobs", true, func(f *form) {
		f.count("bytes", &p.Blobs.Bytes)
		f.count("count", &p.Blobs.Count)
		f.digest("root", &p.Blobs.Root)
	})
	f.digest("checkpoint", &p.Checkpoint)
	f.object("entries", true, func(f *form) {
		f.count("bytes", &p.Entries.Bytes)
		f.digest("sha256", &p.Entries.SHA256)
	})
	f.digest("key", &p.Key)
	f.digest("merkleRoot", &p.MerkleRoot)
	f.text("origin", required, &p.Origin, originName)
	f.digest("proofGraphHash", &p.ProofGraphHash)
	f.object("sessions", true, func(f *form) {
		f.count("count", &p.Sessions.Count)
		f.digest("root", &p.Sessions.Root)
	})
	f.uint("size", required, &p.Size, 1, 1<<53-1)
}

// Append appends the payload: the canonical in-toto statement.
func (p *EvidencePack) Append(dst []byte) []byte {
	return appendStatement(dst, KindManifest, p.Origin, p.MerkleRoot,
		func(dst []byte) []byte { return write(dst, p.visit) })
}

// Manifest returns the predicate of a pack's manifest. Verify the signature first. Its error is a
// [FormatError].
func (s *Sealed) Manifest() (*EvidencePack, error) {
	if s.Kind != KindManifest {
		return nil, &FormatError{Record, "predicateType", "not a manifest"}
	}
	p := new(EvidencePack)
	if err := read(s.pred, Record, "", p.visit); err != nil {
		return nil, err
	}
	if s.name != p.Origin || s.digest != p.MerkleRoot {
		return nil, &FormatError{Record, "subject", "not origin and merkleRoot"}
	}
	return p, nil
}
