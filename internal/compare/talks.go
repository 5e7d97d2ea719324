package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	sampleLegacy "inquiry-gateway/upstream/legacy"
)

// talk is a conversation of internal/conformance/testdata: pieces that are sent, and to which requests answers come.
type talk struct {
	name      string
	pieces    []string
	halfClose bool
	heads     []bool // each answer is to HEAD
}

var (
	caseName = regexp.MustCompile(`(?m)^-- (.*) --$`)
	repeated = regexp.MustCompile(`\$x(\d+)`)
	keyOf    = regexp.MustCompile(`\{([a-z-]+)\}`)
)

// talksOf are the conversations of a tree, for one gateway.
func talksOf(dir string) (run, error) {
	const list = "/api/v1/buyer/inquiries"
	short := strings.NewReplacer("$get", "GET "+list+" HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {buyer}", "$auth", "Authorization: Bearer {buyer}",
		"$list", list, "$seller", "/api/v1/seller/inquiries")
	expand := func(text string) string {
		return repeated.ReplaceAllStringFunc(short.Replace(text), func(s string) string {
			n, _ := strconv.Atoi(s[2:]) // digits
			return strings.Repeat("x", n)
		})
	}
	r := run{name: "conversations", example: "legacy", accounts: []string{sampleLegacy.BuyerTypical, sampleLegacy.BuyerEmpty, sampleLegacy.SellerTypical},
		steps: []step{{kind: "seller", account: sampleLegacy.SellerTypical, path: "/api/v1/seller/inquiries"}, {kind: "buyer", account: sampleLegacy.BuyerTypical, path: list}}}
	files, err := filepath.Glob(filepath.Join(dir, "internal/conformance/testdata/*.txt"))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return r, err
		}
		found := caseName.FindAllSubmatchIndex(text, -1)
		for i, at := range found {
			end := len(text)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			t, piece := talk{name: string(text[at[2]:at[3]])}, ""
			for line := range strings.Lines(string(text[at[1]:end])) {
				line = strings.TrimSuffix(line, "\n")
				switch mark, rest, _ := strings.Cut(line, " "); {
				case mark == ">":
					piece += expand(rest) + "\r\n"
				case strings.HasPrefix(line, `>"`):
					raw, err := strconv.Unquote(line[1:])
					if err != nil {
						return r, fmt.Errorf("%s: %s: %w", file, line, err)
					}
					piece += expand(raw)
				case line == "piece":
					t.pieces, piece = append(t.pieces, piece), ""
				case line == "half-close":
					t.halfClose = true
				case mark == "<":
					t.heads = append(t.heads, strings.HasPrefix(rest, "HEAD "))
				}
			}
			t.pieces = append(t.pieces, piece)
			r.accounts = append(r.accounts, tight(len(r.talks)))
			r.talks = append(r.talks, t)
		}
	}
	return r, err
}

// tight is a conversation's own account with a low rate.
func tight(i int) string { return fmt.Sprint("tight-", i) }

// hold holds the run's conversations, many at a time: some wait until the gateway closes the connection.
func (r run) hold(ctx context.Context, g *gateway) (answers []answer, err error) {
	all := make([][]answer, len(r.talks))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, t := range r.talks {
		group.Go(func() (err error) {
			all[i], err = g.hold(ctx, t, map[string]string{
				"buyer": key("buyer", sampleLegacy.BuyerTypical), "empty": key("buyer", sampleLegacy.BuyerEmpty), "seller": key("seller", sampleLegacy.SellerTypical),
				"unpaid": key("buyer", "unpaid"), "no-scope": key("buyer", "no-scope"), "expired": key("buyer", "expired"), "revoked": key("buyer", "revoked"), "tight": key("buyer", tight(i)),
			})
			return err
		})
	}
	err = group.Wait()
	return slices.Concat(all...), err
}

// hold holds a conversation and says what was answered.
func (g *gateway) hold(ctx context.Context, t talk, keys map[string]string) (answers []answer, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	for _, piece := range t.pieces {
		piece = keyOf.ReplaceAllStringFunc(strings.ReplaceAll(piece, "$etag", strings.TrimPrefix(g.etag, "W/")), func(s string) string { return cmp.Or(keys[s[1:len(s)-1]], s) })
		if _, err := io.WriteString(conn, piece); err != nil {
			break // the gateway has answered and closed
		}
	}
	if t.halfClose {
		_ = conn.(*net.TCPConn).CloseWrite() // an error: it is closed already
	}
	in, closed := bufio.NewReader(conn), false
	receive := func(head bool) map[string]string {
		resp, err := http.ReadResponse(in, &http.Request{Method: map[bool]string{true: http.MethodHead, false: http.MethodGet}[head]})
		if err != nil {
			return nil
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil
		}
		closed = resp.Close
		return fieldsOf(resp, body, false)
	}
	add := func(fields map[string]string) {
		answers = append(answers, answer{name: fmt.Sprintf("%s, answer %d", t.name, len(answers)+1), fields: fields})
	}
	for _, head := range t.heads {
		if closed {
			break
		}
		add(receive(head))
	}
	if !closed { // a last request, which is answered where the connection still takes some
		_, _ = io.WriteString(conn, "GET /nowhere HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n") // an error: it is closed
	}
	for fields := receive(false); fields != nil; fields = receive(false) {
		add(fields)
	}
	return answers, nil
}

// namesOf are, for each message of a log, the names of its fields. Of what many refused callers do the gateway logs a part,
// and which part that is varies where conversations are held at the same time.
func namesOf(log []map[string]string) (all []map[string]string) {
	known := map[string]map[string]string{}
	for _, line := range log {
		msg := line["msg"]
		if known[msg] == nil {
			known[msg] = map[string]string{"msg": msg}
			all = append(all, known[msg])
		}
		for name := range line {
			if name != "msg" {
				known[msg][name] = ""
			}
		}
	}
	return all
}
