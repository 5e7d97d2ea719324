package conformance

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit/cases"
)

// testCase is one conversation with its verdict, from a file of testdata:
//
//	-- RFC 9112, 3.2: what it shows --
//	> GET /nowhere HTTP/1.1      a line that is sent, with CRLF
//	>"Host: x\n"                 bytes that are sent as they are, in Go's notation
//	piece                        what follows is sent as another piece
//	half-close                   the caller sends nothing more
//	first                        nothing was said on this connection before
//	< 404                        the status of the next answer; HEAD before it: to HEAD
//	  age: *                     a field, * stands for any text, !0 for another; !age: there is none
//	  body: *"404"*              the body, as a field
//	stays                        or closes: the connection, after the last answer
//	declared: why                the gateway leaves the RFC's advice here
//
// In what is sent $ begins an abbreviation, see expand.
type testCase struct {
	name             string
	pieces           []string
	halfClose, first bool
	want             []expected
	closes           bool
}

type expected struct {
	head   bool // to HEAD
	status int
	fields [][2]string // lower case name and pattern; "!name": absent
}

const list = "/api/v1/buyer/inquiries"

var abbreviations = strings.NewReplacer(
	"$get", "GET "+list+" HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {buyer}", "$auth", "Authorization: Bearer {buyer}",
	"$list", list, "$seller", "/api/v1/seller/inquiries",
)

var repeated = regexp.MustCompile(`\$x(\d+)`)

// expand replaces abbreviations and $xN, which is N times "x". Those that differ from server to
// server stay: {ID}, the key of that id, and $etag, the entity tag of the buyer's list without
// its W/.
func expand(text string) string {
	return repeated.ReplaceAllStringFunc(abbreviations.Replace(text), func(s string) string {
		n, _ := strconv.Atoi(s[2:])
		return strings.Repeat("x", n)
	})
}

func readCases(t *testing.T) (all []testCase) {
	for _, one := range cases.Read(t, "testdata/*.txt") {
		c, err := parseCase(one.Name, strings.Split(strings.TrimRight(one.Text, "\n"), "\n"))
		if err != nil {
			t.Fatalf("%s: %s: %v", one.File, c.name, err)
		}
		all = append(all, c)
	}
	return all
}

// named is the name of a case: a section of a standard, and what is shown of it.
var named = regexp.MustCompile(`^[^:]*(:[^:]*)?\d[^:]*: .+`)

func parseCase(name string, lines []string) (testCase, error) {
	c, piece, ended := testCase{name: name}, "", false
	if !named.MatchString(c.name) {
		return c, errors.New("it names no section")
	}
	for _, line := range lines {
		switch mark, rest, _ := strings.Cut(line, " "); {
		case line == "" || mark == "declared:" && rest != "":
		case mark == ">":
			piece += expand(rest) + "\r\n"
		case strings.HasPrefix(line, `>"`):
			raw, err := strconv.Unquote(line[1:])
			if err != nil {
				return c, fmt.Errorf("%s: %w", line, err)
			}
			piece += expand(raw)
		case line == "piece":
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
		default:
			return c, fmt.Errorf("what is %q?", line)
		}
	}
	if c.pieces = append(c.pieces, piece); !ended {
		return c, errors.New("neither stays nor closes")
	}
	return c, nil
}

// matches says whether a value is of a pattern, in which * stands for any text, and ! before
// it for anything else.
func matches(pattern, value string) bool {
	if pattern, not := strings.CutPrefix(pattern, "!"); not {
		return !matches(pattern, value)
	}
	anyText := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*")
	return regexp.MustCompile(`(?s)^` + anyText + `$`).MatchString(value)
}
