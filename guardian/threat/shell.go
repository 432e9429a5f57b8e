package threat

import "bytes"

// command reports whether a text, which ; & or | is before, begins with a command: blanks, the path
// of a directory, and a name that a blank or the end follows.
func command(text []byte) bool {
	text = text[run(text, blank, len(text)):]
	if len(text) > 0 && text[0] == '/' {
		text = afterDir(text)
	}
	n := run(text, alnum, 11)
	if n < len(text) && !is(text, n, blank) {
		return false
	}
	switch string(text[:n]) {
	case "curl", "wget", "nc", "ncat", "bash", "sh", "zsh", "python", "python3", "perl", "ruby", "php", "powershell",
		"pwsh", "rm", "chmod", "mkfifo", "base64", "sudo", "whoami", "uname", "nslookup":
		return true
	}
	return false
}

// afterDir returns a text without the directory of commands that it begins with.
func afterDir(text []byte) []byte {
	for _, dir := range []string{"/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/"} {
		if bytes.HasPrefix(text, []byte(dir)) {
			return text[len(dir):]
		}
	}
	return text
}

// substitution reports whether a text, which $( is before, begins with the name of a command.
func substitution(text []byte) bool {
	n := run(text, alnum, 7)
	if n < len(text) && text[n] == '_' {
		return false
	}
	switch string(text[:n]) {
	case "curl", "wget", "nc", "bash", "sh", "cat", "id", "whoami", "uname", "base64", "rm":
		return true
	}
	return false
}
