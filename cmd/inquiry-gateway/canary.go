package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"inquiry-gateway/auth"
)

const (
	canaryTimeout = 30 * time.Second // of one request with its response
	maxCanaryList = 32 << 20         // bytes of one response
)

// canaryCommand checks from outside that no account gets another's list, and nobody without a valid key gets any. It shares no
// code with what it checks.
func canaryCommand() *cli.Command {
	return &cli.Command{
		Name:  "canary",
		Usage: "request lists of several accounts; fail if one gets another's records",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "url", Usage: "the public address, `https://HOST[:PORT][/PREFIX]`", Required: true},
			&cli.StringFlag{Name: "kind", Usage: "buyer or seller", Value: "buyer"},
			&cli.StringSliceFlag{Name: "key-file", Usage: "a `FILE` with one API key; repeat it for two or more accounts", Required: true},
			jsonFlag(),
		},
		Action: func(ctx context.Context, c *cli.Command) error {
			base, err := url.Parse(strings.TrimRight(c.String("url"), "/"))
			if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" || base.RawQuery != "" {
				return usagef("--url is %q; give the address of the API, such as https://api.example.com", c.String("url"))
			}
			run := canary{base: base.String(), kind: c.String("kind"), Failures: []string{}, Inconclusive: []string{}}
			run.client = &http.Client{Timeout: canaryTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			defer run.client.CloseIdleConnections()
			if err := checkKind(run.kind); err != nil {
				return err
			}
			if err := run.readKeys(c.StringSlice("key-file")); err != nil {
				return err
			}
			run.check(ctx)
			return errors.Join(show(c, run, run.write), run.verdict())
		},
	}
}

// canary is one run. Its findings contain no keys and nothing of a record.
type canary struct {
	Compared     int      `json:"compared"` // pairs of lists
	Failures     []string `json:"failures"`
	Inconclusive []string `json:"inconclusive"`

	base, kind string
	client     *http.Client
	lists      []canaryList
}

// canaryList is the list that one key opens.
type canaryList struct {
	file, key, etag string
	records         map[[sha256.Size]byte]int // place in the list, from 1, by hash of a record
}

func (c *canary) readKeys(files []string) error {
	if len(files) < 2 {
		return usagef("--key-file is given once; give the keys of two or more accounts, whose lists are compared")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--key-file: %w", err)
		}
		key := strings.TrimSpace(string(text))
		if err := auth.CheckKey(key); err != nil {
			return fmt.Errorf("--key-file %s: the file must hold one API key and nothing else: %w", file, err)
		}
		c.lists = append(c.lists, canaryList{file: file, key: key})
	}
	return nil
}

func (c *canary) failed(format string, args ...any) {
	c.Failures = append(c.Failures, fmt.Sprintf(format, args...))
}

func (c *canary) inconclusive(format string, args ...any) {
	c.Inconclusive = append(c.Inconclusive, fmt.Sprintf(format, args...))
}

// check sends all requests and collects what it finds.
func (c *canary) check(ctx context.Context) {
	var opened []canaryList
	for _, l := range c.lists {
		if err := c.open(ctx, &l); err != nil {
			c.inconclusive("the list of %s: %v", l.file, err)
			continue
		}
		for _, other := range opened {
			c.compare(ctx, other, l)
		}
		opened = append(opened, l)
	}
	other := kinds[1-slices.Index(kinds, c.kind)]
	c.mustRefuse(ctx, "a request without a key", c.kind, "")
	c.mustRefuse(ctx, "a request with an unknown key", c.kind, "canary-"+rand.Text())
	c.mustRefuse(ctx, "a request for "+other+" lists with the key of "+c.lists[0].file, other, c.lists[0].key)
}

// open fetches a list. An empty one cannot be compared with others.
func (c *canary) open(ctx context.Context, l *canaryList) error {
	status, header, body, err := c.ask(ctx, c.kind, l.key, "")
	var envelope struct{ Data []json.RawMessage }
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("status %d, request id %q", status, header.Get("X-Request-Id"))
	case json.Unmarshal(body, &envelope) != nil:
		return errors.New("the response is not a list")
	case len(envelope.Data) == 0:
		return errors.New("it is empty, so it cannot be compared; use an account with inquiries")
	}
	l.etag, l.records = header.Get("ETag"), map[[sha256.Size]byte]int{}
	for i, record := range envelope.Data {
		l.records[sha256.Sum256(record)] = i + 1
	}
	return nil
}

// compare looks for records of one account in the list of another, and for entity tags of one
// list that are valid for the other: a client would take the other's list for its own.
func (c *canary) compare(ctx context.Context, a, b canaryList) {
	c.Compared++
	common, first := 0, math.MaxInt
	for record, place := range a.records {
		if b.records[record] > 0 {
			common, first = common+1, min(first, place)
		}
	}
	if common > 0 {
		c.failed("%d records are in the lists of both %s and %s, first record %d of %s (if both keys are of one account, use keys of two)",
			common, a.file, b.file, first, a.file)
	}
	for _, pair := range [][2]canaryList{{a, b}, {b, a}} {
		status, _, _, err := c.ask(ctx, c.kind, pair[0].key, pair[1].etag)
		switch {
		case err != nil:
			c.inconclusive("%s with the ETag of %s: %v", pair[0].file, pair[1].file, err)
		case pair[1].etag == "":
			c.inconclusive("the list of %s comes without an ETag", pair[1].file)
		case status == http.StatusNotModified:
			c.failed("%s gets 304 for the ETag of the list of %s", pair[0].file, pair[1].file)
		case status != http.StatusOK:
			c.inconclusive("%s with the ETag of %s gets status %d", pair[0].file, pair[1].file, status)
		}
	}
}

// mustRefuse sends a request that must be refused.
func (c *canary) mustRefuse(ctx context.Context, what, kind, key string) {
	status, _, _, err := c.ask(ctx, kind, key, "")
	switch {
	case err != nil:
		c.inconclusive("%s: %v", what, err)
	case status < http.StatusBadRequest:
		c.failed("%s gets status %d; it must be refused", what, status)
	case status != http.StatusUnauthorized && status != http.StatusForbidden && (status != http.StatusNotFound || kind == c.kind):
		c.inconclusive("%s gets status %d", what, status)
	}
}

// ask sends one request and reads its response. Its error contains no key.
func (c *canary) ask(ctx context.Context, kind, key, etag string) (status int, header http.Header, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/api/v1/"+kind+"/inquiries", nil)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("User-Agent", "inquiry-gateway-canary/"+version)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if etag != "" {
		req.Header.Set("If-None-Match", etag)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, nil, nil, fmt.Errorf("no response: %w", err)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxCanaryList+1))
	if err = errors.Join(err, resp.Body.Close()); err == nil && len(body) > maxCanaryList {
		err = fmt.Errorf("the list has more than %d MiB; use accounts with short lists", maxCanaryList>>20)
	}
	return resp.StatusCode, resp.Header, body, err
}

func (c *canary) write(out io.Writer) {
	for _, text := range c.Failures {
		fmt.Fprintln(out, "failed:", printable(text))
	}
	for _, text := range c.Inconclusive {
		fmt.Fprintln(out, "inconclusive:", printable(text))
	}
	fmt.Fprintf(out, "%s of lists compared\n", plural(c.Compared, "pair"))
}

// verdict is an error unless everything could be compared and nothing failed.
func (c *canary) verdict() error {
	switch {
	case len(c.Failures) > 0:
		return errors.New("the canary failed: accounts may read each other's lists; see the runbook, Canary")
	case len(c.Inconclusive) > 0:
		return errors.New("the canary is inconclusive: not everything could be compared")
	}
	return nil
}
