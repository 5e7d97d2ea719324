package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"inquiry-gateway/internal/testkit/program"
)

// gateway is a running gateway of a tree.
type gateway struct {
	*program.Process
	url, ops string
	etag     string // of the last answer that had one
	client   *http.Client
	h2       *http.Client
}

var serving = regexp.MustCompile(`"msg":"serving".*"listen":"(http://[^"]+)","ops":"(http://[^"]+)"`)

// startGateway serves a configuration file.
func startGateway(ctx context.Context, binary, file string) (*gateway, error) {
	p, err := program.Start(ctx, program.Command{Name: "gateway", Path: binary, Args: []string{"serve", "-c", file}, Dir: filepath.Dir(file)})
	if err != nil {
		return nil, err
	}
	m, err := p.Await(ctx, serving)
	if err != nil {
		p.Kill()
		return nil, err
	}
	h2 := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	return &gateway{Process: p, url: m[1], ops: m[2], client: &http.Client{Transport: &http.Transport{DisableCompression: true}, Timeout: time.Minute},
		h2: &http.Client{Transport: h2, Timeout: time.Minute}}, nil
}

// key is the key of an account.
func key(kind, account string) string {
	return fmt.Sprintf("compare_%x", sha256.Sum256([]byte(kind+account)))
}

// keysFile has a key of both kinds for each account. Some accounts are refused, as their names say, and some have a plan.
func keysFile(accounts []string) string {
	var known, keys strings.Builder
	all := slices.Concat(accounts, []string{"unpaid", "revoked", "no-scope", "expired"})
	slices.Sort(all)
	for _, a := range slices.Compact(all) {
		access, scopes, more := "paid", `["inquiries:read"]`, ""
		switch a {
		case "unpaid":
			access = "none"
		case "revoked":
			more = ", revoked: true"
		case "no-scope":
			scopes = "[]"
		case "expired":
			more = ", expires_at: 2020-01-01T00:00:00Z"
		}
		plan, _, limited := strings.Cut(a, "-")
		if !limited || plan != "tight" {
			plan = ""
		}
		fmt.Fprintf(&known, "  - {id: %q, api_access: %s, plan: %q}\n", a, access, plan)
		for _, kind := range kinds {
			fmt.Fprintf(&keys, "  - {id: %q, sha256: %x, kind: %s, account: %q, scopes: %s%s}\n", key(kind, a)[:20], sha256.Sum256([]byte(key(kind, a))), kind, a, scopes, more)
		}
	}
	return "accounts:\n" + known.String() + "keys:\n" + keys.String()
}

// ask takes the run's steps.
func (r run) ask(ctx context.Context, g *gateway, l *legacy) (answers []answer, err error) {
	for _, s := range r.steps {
		if s.replies != nil {
			replies, err := s.replies()
			if err != nil {
				return nil, err
			}
			l.mu.Lock()
			l.replies = replies
			l.mu.Unlock()
		}
		a, err := g.ask(ctx, s)
		if err != nil {
			return nil, err
		}
		answers = append(answers, a)
	}
	return answers, nil
}

func (g *gateway) ask(ctx context.Context, s step) (answer, error) {
	base, client := g.url, g.client
	if s.ops {
		base = g.ops
	}
	if s.h2 {
		client = g.h2
	}
	req, err := http.NewRequestWithContext(ctx, cmp.Or(s.method, http.MethodGet), base+s.path, nil)
	if err != nil {
		return answer{}, err
	}
	a := answer{name: strings.TrimSpace(strings.Join([]string{req.Method, s.path, s.kind, s.account}, " "))}
	if s.kind != "" {
		req.Header.Set("Authorization", "Bearer "+key(s.kind, s.account))
	}
	for name, value := range s.header {
		req.Header.Set(name, strings.ReplaceAll(value, "$etag", g.etag))
		a.name += fmt.Sprintf(" %s: %.40s", name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		a.fields = map[string]string{"status": "no answer"}
		return a, ctx.Err()
	}
	body, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		a.fields = map[string]string{"status": "no whole answer"}
		return a, ctx.Err()
	}
	g.etag = cmp.Or(resp.Header.Get("Etag"), g.etag)
	a.fields = fieldsOf(resp, body, s.ops)
	return a, nil
}

// metrics are the series at the end, with masked values, once they stay the same: the last request may still be counted.
func (g *gateway) metrics(ctx context.Context) (series map[string]string, err error) {
	for range 20 {
		before := series
		if series, err = g.scrape(ctx); err != nil || maps.Equal(before, series) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return series, err
}

func (g *gateway) scrape(ctx context.Context) (map[string]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := g.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	series := map[string]string{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		line := lines.Text()
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			series[line[:i]] = maskMetric(line[:i], line[i+1:])
		}
	}
	return series, nil
}

// stop ends the gateway and returns its log.
func (g *gateway) stop() (log []map[string]string, err error) {
	g.client.CloseIdleConnections()
	g.h2.CloseIdleConnections()
	if err := g.Stop(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(g.Log())
	for line := range strings.Lines(string(text)) {
		var record map[string]any
		fields := map[string]string{}
		if json.Unmarshal([]byte(line), &record) != nil {
			fields["text"] = maskText(line)
		}
		flatten("", record, func(path, value string) { fields[path] = maskLog(path, value) })
		log = append(log, fields)
	}
	return log, err
}

// sortedKeys are the keys of both maps.
func sortedKeys[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
