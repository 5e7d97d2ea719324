package httpwire

import "bytes"

// framing follows the bytes that net/http is given, to know where a request ends. It
// is stricter than net/http: of what it does not know for certain it says nothing
// again, so the rest of one request is never taken for another.
type framing struct {
	lost     bool // the end of a request was missed, for good
	answered bool // net/http has answered what it was given
	whole    bool // net/http has been given one whole request since it answered last
	begun    bool // and bytes of the next one

	inFields bool     // the request line is over
	line     [18]byte // the beginning of the current line
	length   int      // of the current line so far
	last     byte
}

// atStart tells that net/http has nothing of the next request.
func (f *framing) atStart() bool { return f.answered && !f.lost && !f.whole && !f.begun }

// idle is called when net/http has answered and waits for the next request.
func (f *framing) idle() {
	if f.lost {
		return
	}
	f.lost = !f.whole
	f.whole, f.answered = false, true
}

// follow takes bytes that net/http is given.
func (f *framing) follow(p []byte) {
	for i := 0; i < len(p) && !f.lost; i++ {
		b := p[i]
		switch {
		case b == '\n':
			f.lost = f.last != '\r' || !f.endLine()
			f.length = 0
		case f.last == '\r': // which must not stand alone
			f.lost = true
		default:
			if f.length < len(f.line) {
				f.line[f.length] = b | 0x20 // lower case, where it is a letter
			}
			f.length++
			f.begun = true
		}
		f.last = b
	}
}

// endLine takes a whole line, whose carriage return counts; false: it is lost.
func (f *framing) endLine() bool {
	line := f.line[:min(f.length, len(f.line))]
	switch {
	case !f.inFields:
		f.inFields = true
		return bytes.HasPrefix(line, []byte("get ")) || bytes.HasPrefix(line, []byte("head "))
	case f.length == 1: // the empty line
		more := f.whole
		f.inFields, f.begun, f.whole = false, false, true
		return !more
	}
	return plainField(line)
}

// plainField tells that a line continues no other and says nothing of a body.
func plainField(line []byte) bool {
	if line[0] == ' ' || line[0] == '\t'|0x20 {
		return false
	}
	name, _, _ := bytes.Cut(line, []byte(":"))
	switch string(bytes.TrimRight(name, " ")) {
	case "content-length", "transfer-encoding", "expect", "upgrade", "trailer":
		return false
	}
	return true
}
