// Package threat finds threat signals in a text: shapes that an argument of a tool has no honest
// reason to have. A signal is evidence, not the control: a forbidden call in plain words has none.
//
// [Scan] returns the [Set] of signals that are present in a text. A gate denies those of its
// [Level] and above: Scan(text) & level.Signals() &^ excepted. A tree of JSON is scanned string by
// string and key by key, each decoded from JSON and by itself. Nothing else is decoded: no base64,
// no percent signs, no entities.
//
// Scan reads each byte a bounded number of times, whatever the text. It allocates nothing, never
// panics, and needs no tables of Unicode but those below, so that its answer is the same on every
// machine. A table never changes: another one has another number, see [Table].
//
// # Terms
//
// A text is code points. A byte that is not part of valid UTF-8 is U+FFFD, which has three bytes
// where bytes are counted. A letter, a digit and their case are of ASCII. A blank is a tab, LF,
// FF, CR or space.
//
// I are invisible code points: U+034F 061C 115F 1160 17B4 17B5 180B–180F 200B–200F 202A–202E
// 2060–206F 3164 FE00–FE0F FEFF FFA0 FFF0–FFFB 1D173–1D17A E0000–E0FFF. V are the variation
// selectors: FE00–FE0F, E0100–E01EF. A flag is U+1F3F4, 3 to 6 of E0030–E0039 E0061–E007A, and
// U+E007F. For the three signals hidden-* the flags are taken out once: the code points on both
// sides of a flag are neighbors.
//
// # Table 1: high
//
//   - nul: U+0000.
//   - terminal-escape: U+001B before one of [ ] ( ) P X ^ _ # %; U+0090, U+009B, U+009D.
//   - hidden-tag: one of U+E0000–E007F outside a flag.
//   - hidden-run: four of I in a row, or two of V in a row.
//   - bidi-override: U+202D, U+202E.
//   - mixed-script-host: a host with a label, between dots, that has a letter and a code point of
//     0370–058F 10A0–10FF 13A0–13FF 1C80–1CBF 1F00–1FFF 2C00–2C5F 2C80–2D2F 2DE0–2DFF A640–A69F
//     AB70–ABBF. A host begins after :// or @, and ends before the next @, / ? # \ " ' < > ( ) { }
//     [ ] , ; or blank, or at the end of the text; its first 255 code points count. What is
//     between :// and @ is userinfo, and no host.
//   - script-url: javascript: or vbscript: in any case, and then a code point above U+0020.
//     Between letters of the scheme there may be tabs, CR and LF. It stands at the begin of the
//     text, after any of U+0000–0020; or anywhere directly after ]( or after href= src= action= in
//     any case and an optional quote.
//   - metadata-host: in any case, with or without a final dot, 169.254.169.254 169.254.170.2
//     100.100.100.200 metadata.google.internal metadata.goog [fd00:ec2::254] 2852039166 0xa9fea9fe
//     0xa9.0xfe.0xa9.0xfe 0251.0376.0251.0376. It is the whole text, or a host in the authority of
//     a URL. An authority begins after a scheme and ://, and ends before / ? # \ " < > or a blank.
//     A host in it begins there or after an @; a colon ends it too; and if the next of @ and of
//     what ends a host is @, it is userinfo.
//   - secret: a key or a private key, see below.
//
// # Table 1: medium
//
//   - control: U+0001–0008 000B 000C 000E–001A 001C–001F 007F–009F.
//   - bidi-embedding: U+202A–202C, U+2066–2069.
//   - hidden-letter: three times or more, exactly one of 034F 200B–200D 2060–2064 FEFF or V
//     between a letter and a letter or digit.
//   - data-document: at the start of the text, after any of U+0000–0020, in any case: data: and
//     then text/html, application/xhtml+xml, image/svg+xml, text/javascript or
//     application/javascript, and then ; or a comma.
//
// # Table 1: low
//
//   - remote-image: an image with a URL that has room for data. An image is ![ and ]( without a ]
//     between them, then blanks and an optional <; or, in any case, <img and src= without a >
//     between them, then blanks and an optional quote. A URL begins with http:// or https:// in
//     any case, and ends before a blank, < or >, before the ) or the quote that closes the
//     image's, and after 2,048 bytes. There is room in 16 bytes after its first ?, or in a segment
//     of at least 48 of A–Z a–z 0–9 _ + = % - before that: from a / after the host to the next of
//     / ? # or the end of the URL. A URL that begins in another which the same character closes is
//     part of that one.
//   - shell-code: after ; & or |, blanks, an optional /bin/ /sbin/ /usr/bin/ /usr/sbin/, and one
//     of curl wget nc ncat bash sh zsh python python3 perl ruby php powershell pwsh rm chmod
//     mkfifo base64 sudo whoami uname nslookup, which a blank or the end follows; $( and one of
//     curl wget nc bash sh cat id whoami uname base64 rm, which no letter, digit or _ follows;
//     /dev/tcp/.
//   - instruction: in the text without I, with U+FF01–FF5E as ASCII and in lower case, one of
//     <|im_start|> <|im_end|> <|system|> <|endoftext|> <<sys>> [inst] [/inst]. Or, of its words,
//     which are runs of a–z: ignore, disregard, forget, override or bypass; within the next five
//     words previous, prior, above, earlier, preceding, foregoing, initial, original or system;
//     and within the next five after that instruction, direction, prompt, command, guideline,
//     their plurals, or rules.
//
// # Keys
//
// A key has one of these forms. It is not next to a letter, a digit, _ or -, has at least 12
// different bytes, and does not contain EXAMPLE.
//
//	(AKIA|ASIA)[A-Z2-7]{16}
//	gh[pousr]_[A-Za-z0-9]{36}
//	github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}
//	glpat-[A-Za-z0-9_-]{20}
//	xox[abeoprs]-[0-9]{8,14}-[A-Za-z0-9-]{16,}
//	[sr]k_live_[A-Za-z0-9]{24,247}
//	AIza[A-Za-z0-9_-]{35}
//	sk-ant-[a-z]{3,5}[0-9]{2}-[A-Za-z0-9_-]{80,120}
//	sk-(proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,100}T3BlbkFJ[A-Za-z0-9_-]{20,100}
//	npm_[A-Za-z0-9]{36}
//	pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}
//	SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}
//	hf_[A-Za-z]{34}
//	dop_v1_[0-9a-f]{64}
//	AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}
//
// A private key is -----BEGIN and a space, up to three words of letters and digits with a space
// after each, PRIVATE KEY or PRIVATE KEY BLOCK, and -----; then any number of headers; then 32 of
// A–Z a–z 0–9 + /. Before each header and before the 32 there may be blanks and newlines, also
// newlines that are two characters: \n and \r. A header is a name that begins with a letter and
// goes on with letters, digits and -, a colon, and the rest of the line without -----; it ends
// with a newline.
package threat
