package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testCase is one conversation with its verdict, from a file of testdata:
//
//	## RFC 9112, 3.2: what it shows
//	> GET /nowhere HTTP/1.1      a line that is sent, with CRLF
//	>"Host: x\n"                 bytes that are sent as they are, in Go's notation
//	--                           what follows is sent as another piece
//	half-close                   the caller sends nothing more
//	first                        nothing was said on this connection before
//	< 404                        the status of the next answer; HEAD before it: to HEAD
//	  age: 0                     a field, * stands for any text, !0 for another; !age: there is none
//	  body: *"404"*              the body, as a field
//	stays                        or closes: the connection, after the last answer
//	declared: why                the gateway leaves the RFC's advice here
//
// Where why is "as above" it is that of the case before. In what is sent $ begins an
// abbreviation, see abbreviations.
type testCase struct {
	file, section, title string
	pieces               []string
	halfClose, first     bool
	want                 []expected
	closes               bool
	declared             string
}

type expected struct {
	head   bool // to HEAD
	status int
	fields [][2]string // lower case name and pattern; "!name": absent
}

func (c testCase) String() string { return c.file + ", " + c.section + ": " + c.title }

// verdict is the answers' statuses and what becomes of the connection.
func (c testCase) verdict() string {
	var statuses []int
	for _, e := range c.want {
		statuses = append(statuses, e.status)
	}
	return verdictOf(statuses, c.closes)
}

func verdictOf(statuses []int, closes bool) string {
	text := ""
	for _, status := range statuses {
		text += strconv.Itoa(status) + " "
	}
	if closes {
		return text + "closes"
	}
	return text + "stays"
}

const list = "/api/v1/buyer/inquiries"

// abbreviations are replaced in what is sent, as are $xN, which is N times "x", {ID}, which is
// the key of that id, and $etag, the entity tag of the buyer's list without its W/.
var abbreviations = strings.NewReplacer(
	"$get", "GET "+list+" HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {buyer}", "$auth", "Authorization: Bearer {buyer}",
	"$list", list, "$seller", "/api/v1/seller/inquiries",
)

var repeated = regexp.MustCompile(`\$x(\d+)`)

func expand(text string) string {
	return repeated.ReplaceAllStringFunc(abbreviations.Replace(text), func(s string) string {
		n, _ := strconv.Atoi(s[2:])
		return strings.Repeat("x", n)
	})
}

func readCases(t *testing.T) []testCase {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	var all []testCase
	var lastDeclared string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split("\n"+string(text), "\n## ")[1:] {
			c, err := parseCase(part)
			if err != nil {
				t.Fatalf("%s, case %d: %v", file, i+1, err)
			}
			c.file = strings.TrimSuffix(filepath.Base(file), ".txt")
			switch c.declared {
			case "":
			case "as above":
				c.declared = lastDeclared
			default:
				lastDeclared = c.declared
			}
			if slices.ContainsFunc(all, func(o testCase) bool { return o.String() == c.String() }) {
				t.Fatalf("%s is there twice", c)
			}
			all = append(all, c)
		}
	}
	return all
}

func parseCase(text string) (c testCase, err error) {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	c.section, c.title, _ = strings.Cut(lines[0], ": ")
	piece, ended := "", false
	for _, line := range lines[1:] {
		switch mark, rest, _ := strings.Cut(line, " "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == ">":
			piece += "\r\n"
		case mark == ">":
			piece += expand(rest) + "\r\n"
		case strings.HasPrefix(line, `>"`):
			raw, err := strconv.Unquote(line[1:])
			if err != nil {
				return c, fmt.Errorf("%s: %w", line, err)
			}
			piece += expand(raw)
		case line == "--":
			c.pieces, piece = append(c.pieces, piece), ""
		case line == "half-close":
			c.halfClose = true
		case line == "first":
			c.first = true
		case mark == "<":
			rest, head := strings.CutPrefix(rest, "HEAD ")
			status, err := strconv.Atoi(rest)
			if err != nil {
				return c, err
			}
			c.want = append(c.want, expected{head: head, status: status})
		case strings.HasPrefix(line, "  ") && len(c.want) > 0:
			name, pattern, _ := strings.Cut(strings.TrimSpace(line), ": ")
			last := &c.want[len(c.want)-1]
			last.fields = append(last.fields, [2]string{name, pattern})
		case line == "stays", line == "closes":
			c.closes, ended = line == "closes", true
		case mark == "declared:":
			c.declared = rest
		default:
			return c, fmt.Errorf("what is %q?", line)
		}
	}
	c.pieces = append(c.pieces, piece)
	switch {
	case !ended:
		return c, fmt.Errorf("%s: neither stays nor closes", c.title)
	case c.title == "" || !strings.ContainsAny(c.section, "0123456789"):
		return c, fmt.Errorf("%q names no section", lines[0])
	}
	return c, nil
}

// matches says whether a value is of a pattern, in which * stands for any text, and ! before
// it for anything else.
func matches(pattern, value string) bool {
	if pattern, not := strings.CutPrefix(pattern, "!"); not {
		return !matches(pattern, value)
	}
	parts := strings.Split(pattern, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`(?s)^` + strings.Join(parts, ".*") + `$`).MatchString(value)
}
