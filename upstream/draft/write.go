package draft

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// writer writes the section of a list. Every comment stands above its line.
type writer struct {
	strings.Builder
	indent  string
	account string // whose list it is
}

// line writes one line at the present depth.
func (w *writer) line(format string, args ...any) {
	w.WriteString(w.indent + fmt.Sprintf(format, args...) + "\n")
}

// doubt writes a comment on what may be wrong in the next line.
func (w *writer) doubt(format string, args ...any) {
	w.line("# DOUBT: %s", oneLine(fmt.Sprintf(format, args...)))
}

var plainText = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_./-]*$`)

// quote writes a text as YAML reads it back: as it is where it can be nothing else.
func quote(s string) string {
	switch strings.ToLower(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainText.MatchString(s) {
			return s
		}
	}
	text, err := json.Marshal(strings.ReplaceAll(s, "${", "$${"))
	if err != nil {
		return `""`
	}
	return strings.ReplaceAll(string(text), "\ufffd", `\ufffd`) // a file with the character itself is refused
}

// quoteList writes texts as a list on one line.
func quoteList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// oneLine keeps foreign text within its comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0x2028 || r == 0x2029 || r == 0x85 || r == utf8.RuneError {
			return ' '
		}
		return r
	}, s)
}
