package threat

// The signals, in the order of their ids' bytes.
const (
	bidiEmbedding Set = 1 << iota
	bidiOverride
	control
	dataDocument
	hiddenLetter
	hiddenRun
	hiddenTag
	instruction
	metadataHost
	mixedScriptHost
	nul
	remoteImage
	scriptURL
	secret
	shellCode
	terminalEscape
)

var signals = [...]struct {
	id    string
	level Level
}{
	{"bidi-embedding", Medium},
	{"bidi-override", High},
	{"control", Medium},
	{"data-document", Medium},
	{"hidden-letter", Medium},
	{"hidden-run", High},
	{"hidden-tag", High},
	{"instruction", Low},
	{"metadata-host", High},
	{"mixed-script-host", High},
	{"nul", High},
	{"remote-image", Low},
	{"script-url", High},
	{"secret", High},
	{"shell-code", Low},
	{"terminal-escape", High},
}
