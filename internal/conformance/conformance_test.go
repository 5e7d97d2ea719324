package conformance

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/internal/testkit"
)

// mode is one way to hold a conversation.
type mode struct {
	fast, secure bool
	pieces       int // cuts each piece of a case into so many; 1: as it is
}

func (m mode) String() string {
	return fmt.Sprintf("fast path %t, TLS %t, each piece in %d", m.fast, m.secure, m.pieces)
}

func (m mode) withoutPieces() mode { m.pieces = 1; return m }

// modes are the ways in which each conversation is held.
var modes = []mode{{false, false, 1}, {true, false, 1}, {false, true, 1}, {true, true, 1}, {true, false, 5}, {false, true, 5}}

// answer is what one server said to a conversation.
type answer struct {
	*http.Response
	body string
}

func (a answer) String() string { return a.Status }

// TestConformance holds all cases in all modes. Many are held at a time: some wait until
// net/http, which has refused something, closes the connection.
func TestConformance(t *testing.T) {
	testkit.SkipShort(t)
	all, servers := readCases(t), startServers(t)
	var group errgroup.Group
	group.SetLimit(32)
	for _, c := range all {
		for _, m := range modes {
			group.Go(func() error {
				answers, closed, err := hold(servers[m.withoutPieces()], c, m)
				if err != nil {
					t.Errorf("%s\n%s: %v", c.name, m, err)
					return nil
				}
				checkCase(t, c, m, servers[m.withoutPieces()].etag, answers, closed)
				return nil
			})
		}
	}
	_ = group.Wait()
	if len(all) < 200 {
		t.Errorf("only %d cases", len(all))
	}
}

func checkCase(t *testing.T, c testCase, m mode, etag string, answers []answer, closed bool) {
	fail := func(format string, args ...any) { t.Errorf("%s\n%s: %s", c.name, m, fmt.Sprintf(format, args...)) }
	same := slices.EqualFunc(answers, c.want, func(a answer, e expected) bool { return a.StatusCode == e.status })
	if !same || closed != c.closes {
		fail("answered %v, closed %t; want %v, %t", answers, closed, c.want, c.closes)
		return
	}
	for i, a := range answers {
		for _, f := range c.want[i].fields {
			name, absent := strings.CutPrefix(f[0], "!")
			value, there := strings.Join(a.Header.Values(name), ", "), len(a.Header.Values(name)) > 0
			switch {
			case name == "body":
				value, there = a.body, true
			case name == "connection" && a.Close: // ReadResponse has taken it
				value, there = "close", true
			}
			if there == absent || !absent && !matches(strings.ReplaceAll(f[1], "$etag", etag), value) {
				fail("answer %d: %s is %.300q, want %q", i+1, f[0], value, f[1])
			}
		}
		if err := always(a, c.want[i].head); err != nil {
			fail("answer %d: %v", i+1, err)
		}
	}
}

// always are the rules that every answer follows. What net/http refuses by itself is text.
func always(a answer, head bool) error {
	kind, length := a.Header.Get("Content-Type"), a.Header.Get("Content-Length")
	if strings.HasPrefix(kind, "text/plain") || kind == "" && a.StatusCode == http.StatusExpectationFailed {
		return nil
	}
	_, err := http.ParseTime(a.Header.Get("Date"))
	switch {
	case err != nil:
		return fmt.Errorf("Date: %w", err)
	case a.Header.Get("X-Request-Id") == "" || a.Header.Get("X-Content-Type-Options") != "nosniff":
		return errors.New("no id, or no nosniff")
	case a.StatusCode == http.StatusNotModified && a.body+length+kind != "":
		return errors.New("a 304 has no content and says nothing of it (RFC 9110, 15.4.5)")
	case head && a.body != "":
		return errors.New("an answer to HEAD has no content (RFC 9110, 9.3.2)")
	case !head && a.StatusCode != http.StatusNotModified && length != strconv.Itoa(len(a.body)):
		return fmt.Errorf("Content-Length %s of %d bytes", length, len(a.body))
	case a.StatusCode >= 400 && !head:
		return checkError(a)
	}
	return nil
}

// checkError looks at the error object (JSON:API 1.1, Error Objects).
func checkError(a answer) error {
	var envelope struct {
		Data   []json.RawMessage
		Errors []struct{ ID, Status, Code, Title, Detail string }
	}
	if err := json.Unmarshal([]byte(a.body), &envelope); err != nil || len(envelope.Errors) != 1 || envelope.Data == nil {
		return fmt.Errorf("no envelope: %q", a.body)
	}
	e := envelope.Errors[0]
	if e.ID != a.Header.Get("X-Request-Id") || e.Status != strconv.Itoa(a.StatusCode) || e.Code == "" || e.Title == "" || e.Detail == "" {
		return fmt.Errorf("error object %+v", e)
	}
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("ETag") != "" {
		return errors.New("an error may be stored")
	}
	return nil
}

var errTooFew = errors.New("fewer answers than were expected")

// lastRequest ends a conversation: it is answered where the connection still takes requests.
const lastRequest = "GET /nowhere HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n"

// hold holds one conversation, and finds out what becomes of the connection.
func hold(s server, c testCase, m mode) (answers []answer, closed bool, err error) {
	conn, err := s.dial()
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	fill := s.filler()
	if m.fast && !c.first { // the case begins on a connection on which the front has answered
		if _, err := io.WriteString(conn, fill.Replace(expand("$get\r\n\r\n"))); err != nil {
			return nil, false, err
		}
		if _, err := receive(in, false); err != nil {
			return nil, false, fmt.Errorf("before the case: %w", err)
		}
	}
	for _, piece := range c.pieces {
		text := []byte(fill.Replace(piece))
		size := max((len(text)+m.pieces-1)/m.pieces, 1)
		for len(text) > 0 {
			n := min(size, len(text))
			if _, err := conn.Write(text[:n]); err != nil {
				break // the server has answered and closed, as the case may want
			}
			text = text[n:]
		}
	}
	if c.halfClose {
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			return nil, false, err
		}
	}
	for _, e := range c.want {
		a, err := receive(in, e.head)
		if err != nil {
			return answers, true, errors.Join(errTooFew, err)
		}
		answers = append(answers, a)
		if a.Close {
			break // nothing may come after it
		}
	}
	if len(answers) == 0 || !answers[len(answers)-1].Close {
		_, _ = io.WriteString(conn, lastRequest) // fails where the connection is closed already
	}
	for {
		a, err := receive(in, false)
		switch {
		case err != nil:
			return answers, true, nil
		case a.Close && a.StatusCode == http.StatusNotFound: // to the last request
			return answers, false, nil
		}
		answers = append(answers, a)
	}
}

// receive reads one answer whole.
func receive(in *bufio.Reader, head bool) (answer, error) {
	method := http.MethodGet
	if head {
		method = http.MethodHead
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	return answer{resp, string(body)}, errors.Join(err, resp.Body.Close())
}
