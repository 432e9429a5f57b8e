package crypto

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testKeyFile = "-----BEGIN PRIVATE " +
	"KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n-----END PRIVATE KEY-----\n"

func TestKeyFile(t *testing.T) {
	t.Parallel()
	k := testKey(t)
	var file bytes.Buffer
	if err := WriteKey(&file, k); err != nil || file.String() != testKeyFile {
		t.Fatalf("wrote %q, %v", file.String(), err)
	}
	for name, text := range map[string]string{
		"as written":        testKeyFile,
		"no end of line":    strings.TrimSuffix(testKeyFile, "\n"),
		"ends of line CRLF": strings.ReplaceAll(testKeyFile, "\n", "\r\n"),
	} {
		got, err := LoadKey(iotest.OneByteReader(strings.NewReader(text)))
		assert.True(t, err == nil && bytes.Equal(mustPublic(t, got), mustPublic(t, k)), "%s: %v, %v", name, got, err)
	}
}

// TestBadKeyFiles checks each message too: it names the fault and quotes nothing of the file.
func TestBadKeyFiles(t *testing.T) {
	t.Parallel()
	const begin, end, body = "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n", "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g"
	replace := func(old, new string) string { return strings.Replace(testKeyFile, old, new, 1) }
	der := func(hex string) string {
		var lines strings.Builder
		b := string(AppendBase64(nil, unhexed(t, hex)))
		for ; len(b) > 64; b = b[64:] {
			lines.WriteString(b[:64] + "\n")
		}
		return begin + lines.String() + b + "\n" + end
	}
	const seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
	require.Equal(t, testKeyFile, der("302e020100300506032b657004220420"+seed), "der is wrong, and so is what follows")
	for name, test := range map[string]struct{ text, want string }{
		"empty":               {"", "does not begin"},
		"a space before":      {" " + testKeyFile, "does not begin"},
		"a comment before":    {"# my key\n" + testKeyFile, "does not begin"},
		"a line before":       {"\n" + testKeyFile, "does not begin"},
		"a byte order mark":   {"\xef\xbb\xbf" + testKeyFile, "does not begin"},
		"the seed alone":      {seed, "does not begin"},
		"another label":       {strings.ReplaceAll(testKeyFile, "PRIVATE", "EC PRIVATE"), "does not begin"},
		"encrypted":           {strings.ReplaceAll(testKeyFile, "PRIVATE", "ENCRYPTED PRIVATE"), "encrypted"},
		"OpenSSH":             {strings.ReplaceAll(testKeyFile, "PRIVATE", "OPENSSH PRIVATE"), "OpenSSH"},
		"public":              {strings.ReplaceAll(testKeyFile, "PRIVATE", "PUBLIC"), "public key"},
		"no end":              {begin + body + "\n", "does not end"},
		"no end nor line end": {begin + body, "does not end"},
		"another end":         {begin + body + "\n-----END PUBLIC KEY-----\n", "does not end"},
		"begin alone":         {begin, "does not end"},
		"no key":              {begin + end, "not an Ed25519 key"},
		"a line after":        {testKeyFile + "\n", "after the key"},
		"a space after":       {testKeyFile + " ", "after the key"},
		"two keys":            {testKeyFile + testKeyFile, "after the key"},
		"a certificate after": {testKeyFile + "-----BEGIN CERTIFICATE-----\n", "after the key"},
		"PEM headers":         {replace(begin, begin+"Proc-Type: 4,ENCRYPTED\n\n"), "base64"},
		"an empty line":       {replace(begin, begin+"\n"), "base64"},
		"a space in a line":   {replace("MC4C", "MC4C "), "base64"},
		"a short line":        {replace("MC4C", "MC4C\n"), "base64"},
		"a long line":         {replace(body+"\n", body+"AAAA\n"), "base64"},
		"a carriage return":   {replace("MC4C", "MC\r4"), "base64"},
		"base64url":           {strings.Replace(testKeyFile, "3v/V", "3v_V", 1), "base64"},
		"no padding":          {begin + "MC4CAQ\n" + end, "base64"},
		"spare bits":          {begin + "MC4CAR==\n" + end, "base64"},
		"a character less":    {replace("rn9g", "rn9"), "base64"},
		"a seed of 31 bytes":  {der("302d020100300506032b65700421041f" + seed[2:]), "another form"},
		"a seed of 33 bytes":  {der("302f020100300506032b657004230421" + seed + "00"), "another form"},
		"version 1":           {der("302e020101300506032b657004220420" + seed), "another form"},
		"with its public key": {der("3051020101300506032b657004220420" + seed + "812100" + strings.Repeat("ab", 32)),
			"another form"},
		"parameters NULL":       {der("3030020100300706032b6570050004220420" + seed), "another form"},
		"a byte after the DER":  {der("302e020100300506032b657004220420" + seed + "00"), "another form"},
		"a long form of length": {der("30812e020100300506032b657004220420" + seed), "another form"},
		"X25519":                {der("302e020100300506032b656e04220420" + seed), "not an Ed25519 key"},
		"Ed448": {der("3047020100300506032b6571043b0439" + seed + strings.Repeat("ab", 25)),
			"not an Ed25519 key"},
		"longer than a key file": {begin + strings.Repeat(body+"\n", 300) + end, "longer"},
	} {
		k, err := LoadKey(strings.NewReader(test.text))
		if err == nil || k != (PrivateKey{}) {
			t.Errorf("%s: accepted", name)
			continue
		}
		assert.Contains(t, err.Error(), test.want, "%s: %v", name, err)
		for _, secret := range []string{"nWGxne", "MC4C", "J1hs", "9d61", "rn9g"} {
			assert.NotContains(t, err.Error(), secret, "%s: the error quotes the key: %v", name, err)
		}
	}
}

func TestKeyFileMangled(t *testing.T) {
	t.Parallel()
	var loaded int
	for i := range 8 * len(testKeyFile) {
		bad := []byte(testKeyFile)
		bad[i/8] ^= 1 << (i % 8)
		if k, err := LoadKey(bytes.NewReader(bad)); err == nil { // a bit of the seed: another key
			loaded++
			assert.False(t, bytes.Equal(mustPublic(t, k), mustPublic(t, testKey(t))), "bit %d does not count", i)
		}
	}
	assert.NotEqual(t, 0, loaded, "no flipped bit of the seed makes another key, so nothing was compared")
	for i := range len(testKeyFile) - 1 { // without its last line end it is whole
		_, err := LoadKey(strings.NewReader(testKeyFile[:i]))
		assert.Error(t, err, "the first %d bytes are a key", i)
	}
}

func TestKeyFileBroken(t *testing.T) {
	t.Parallel()
	cause := errors.New("the disk is gone")
	_, err := LoadKey(iotest.ErrReader(cause))
	assert.ErrorIs(t, err, cause, "read")
	_, err = LoadKey(nil)
	assert.Error(t, err, "a key was read from nothing")
	endless := &endless{}
	if _, err := LoadKey(endless); err == nil || endless.read > 64<<10 {
		t.Errorf("%d bytes read of a file without end, %v", endless.read, err)
	}
	assert.ErrorIs(t, WriteKey(brokenWriter{cause}, testKey(t)), cause, "write")
}

type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) { e.read += len(b); return len(b), nil }

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

// TestKeyFileOpenSSL reads a key that openssl made, and has it read one of ours.
func TestKeyFileOpenSSL(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("no openssl: key files are not compared with another implementation")
	}
	run := func(stdin []byte, args ...string) []byte {
		t.Helper()
		cmd := exec.Command(openssl, args...)
		cmd.Stdin = bytes.NewReader(stdin)
		out, err := cmd.Output()
		require.NoError(t, err, "openssl %s", args)
		return out
	}
	public := func(file []byte) []byte {
		der := run(file, "pkey", "-pubout", "-outform", "DER")
		return der[len(der)-32:]
	}
	theirs := run(nil, "genpkey", "-algorithm", "ed25519")
	k, err := LoadKey(bytes.NewReader(theirs))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(mustPublic(t, k), public(theirs)), "another public key than openssl's")
	var ours bytes.Buffer
	err = WriteKey(&ours, k)
	assert.True(t, err == nil && bytes.Equal(ours.Bytes(), theirs), "our file is not openssl's, %v", err)
	if generated, err := GenerateKey(); err != nil {
		t.Error(err)
	} else {
		ours.Reset()
		if err := WriteKey(&ours, generated); err != nil || !bytes.Equal(public(ours.Bytes()),
			mustPublic(t, generated)) {
			t.Errorf("openssl reads another key from our file, %v", err)
		}
	}
	for _, other := range [][]string{
		{"genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"},
		{"genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"},
		{"genpkey", "-algorithm", "X25519"},
		{"genpkey", "-algorithm", "ED448"},
	} {
		if _, err := LoadKey(bytes.NewReader(run(nil, other...))); err == nil ||
			!strings.Contains(err.Error(), "not an Ed25519 key") {
			t.Errorf("%s: %v", other[2], err)
		}
	}
	_, err = LoadKey(bytes.NewReader(run(theirs, "pkey", "-aes256", "-passout", "pass:secret")))
	assert.True(t, err != nil && strings.Contains(err.Error(), "encrypted"), "encrypted: %v", err)
}
