package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// run is one gateway's life: it is started with an example, is asked for things, one after the other, and stopped.
type run struct {
	name     string
	example  string // its file's name without .yaml
	accounts []string
	steps    []step
	talks    []talk // conversations that are held instead
}

// step is a request, and what the legacy system has to say meanwhile; nil: what it had to say before.
type step struct {
	replies func() (replies, error)
	kind    string // of the key; empty: no key
	account string
	method  string // empty: GET
	path    string
	header  map[string]string // $etag is the entity tag of the last answer that had one
	h2      bool
	ops     bool
}

// testCase is one of a file of examples/tests.
type testCase struct {
	Name        string  `yaml:"name"`
	Kind        string  `yaml:"kind"`
	Account     string  `yaml:"account"`
	Status      string  `yaml:"status"`
	InquiryType string  `yaml:"inquiry_type"`
	Replies     []reply `yaml:"replies"`
	Expect      struct {
		Records []any `yaml:"records"`
	} `yaml:"expect"`
}

var (
	kinds    = []string{"buyer", "seller"}
	statuses = []string{"", "pending", "answered", "closed", "nosuch"}
	types    = []string{"", "delivery", "refund", "product", "general", "nosuch"}

	// Of internal/real: the accounts, and the filters that it asks for.
	realAccounts = []string{"4711", "47", "o'brien@example.com", "ann+shop@example.com", "0815"}
	realFilters  = [][2]string{{"", ""}, {"pending", ""}, {"answered", ""}, {"closed", ""}, {"nosuch", ""}, {"", "delivery"}, {"", "refund"}, {"", "product"},
		{"", "general"}, {"pending", "delivery"}, {"closed", "refund"}}

	// failing are the examples in front of which the legacy system fails: in JSON, by second requests, in sessions, XML, GraphQL.
	failing = []string{"odata-v4", "redmine", "directus", "soap", "graphql"}
)

// runsOf are the runs for the saved replies and conversations of a tree, and for the recordings.
func runsOf(dir string) (all []run, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "examples/tests/*.yaml"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s has no examples/tests/*.yaml", dir))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var cases []testCase
		if err := yaml.Unmarshal(text, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		example := strings.TrimSuffix(filepath.Base(file), ".yaml")
		all = append(all, casesOf(example, filepath.Dir(file), cases)...)
		all = append(all, matrixOf(example, filepath.Dir(file), cases))
		if slices.Contains(failing, example) {
			all = append(all, failuresOf(example, filepath.Dir(file), cases)...)
		}
		replies, err := recorded(example)
		if err != nil {
			return nil, err
		}
		if replies != nil {
			all = append(all, recordingOf(example, replies))
		}
	}
	talks, err := talksOf(dir)
	if err != nil {
		return nil, err
	}
	return append(all, talks), nil
}

// casesOf asks for the list of each case twice.
func casesOf(example, folder string, cases []testCase) (all []run) {
	for i, c := range cases {
		if strings.Contains(c.Account, " ") {
			continue // no key can be for it
		}
		get := step{kind: c.Kind, account: c.Account, path: listPath(c.Kind, c.Status, c.InquiryType), replies: c.replies(folder)}
		again := get
		again.replies = nil
		all = append(all, run{name: fmt.Sprintf("%s/case %d, %s", example, i+1, c.Name), example: example, accounts: []string{c.Account}, steps: []step{get, again}})
	}
	return all
}

func (c testCase) replies(folder string) func() (replies, error) {
	return func() (replies, error) { return saved(c.Replies, folder) }
}

// matrixOf asks for every list, and for what is refused.
func matrixOf(example, folder string, cases []testCase) run {
	r := run{name: example + "/all lists", example: example}
	for _, kind := range kinds {
		i := slices.IndexFunc(cases, func(c testCase) bool {
			return c.Kind == kind && len(c.Expect.Records) > 0 && c.Status+c.InquiryType == ""
		})
		if i < 0 {
			continue
		}
		account, first := cases[i].Account, cases[i].replies(folder)
		r.accounts = append(r.accounts, account)
		for _, status := range statuses {
			for _, inquiryType := range types {
				r.steps = append(r.steps, step{replies: first, kind: kind, account: account, path: listPath(kind, status, inquiryType)})
				first = nil
			}
		}
		plain := listPath(kind, "", "")
		get := func(change func(*step)) {
			s := step{kind: kind, account: account, path: plain}
			change(&s)
			r.steps = append(r.steps, s)
		}
		header := func(name, value string) func(*step) {
			return func(s *step) { s.header = map[string]string{name: value} }
		}
		path := func(path string) func(*step) { return func(s *step) { s.path = path } }
		get(func(*step) {})
		get(header("If-None-Match", "$etag"))
		get(header("If-None-Match", `W/"other", *`))
		get(header("Accept-Encoding", "gzip"))
		get(header("Accept-Encoding", "zstd"))
		get(header("Accept-Encoding", "br;q=1, identity;q=0"))
		get(header("X-Request-Id", "caller-1"))
		get(func(s *step) { s.method = http.MethodHead })
		get(func(s *step) { s.h2 = true })
		get(func(s *step) { s.kind = "" })
		get(func(s *step) { s.account = "unpaid" })
		get(func(s *step) { s.account = "revoked" })
		get(func(s *step) { s.account = "no-scope" })
		get(path(listPath(map[string]string{"buyer": "seller", "seller": "buyer"}[kind], "", "")))
		get(path(plain + "?status=a%20b"))
		get(path(plain + "?status=a&status=b"))
		get(path(plain + "?state=pending"))
		get(path(plain + "?status=%zz"))
		get(path("/api/v1/" + kind + "/nothing"))
		get(header("Authorization", "Bearer iqb_000000000000000000000000000000000000"))
		get(header("Authorization", "Basic YTpi"))
		get(func(s *step) { s.method = http.MethodPost })
		get(func(s *step) { s.method = http.MethodOptions })
	}
	r.steps = append(r.steps, step{path: "/"}, step{path: "/livez", ops: true}, step{path: "/readyz", ops: true}, step{path: "/ops/config", ops: true})
	for _, kind := range kinds {
		if len(r.accounts) > 0 {
			r.steps = append(r.steps, step{path: "/ops/explain?kind=" + kind + "&account=" + url.QueryEscape(r.accounts[0]), ops: true})
		}
	}
	return r
}

// failuresOf asks, while the legacy system fails in one way, for lists that are known and for ones that are not.
func failuresOf(example, folder string, cases []testCase) (all []run) {
	c := cases[0]
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		fails := func() (replies, error) {
			return func(*http.Request, string) *reply { f := failures[name]; return &f }, nil
		}
		get := func(status string) step {
			return step{kind: c.Kind, account: c.Account, path: listPath(c.Kind, status, "")}
		}
		known, fail, recovered := get(""), get("closed"), get("")
		known.replies, fail.replies, recovered.replies = c.replies(folder), fails, c.replies(folder)
		other := step{kind: c.Kind, account: "other", path: listPath(c.Kind, "", "")}
		all = append(all, run{name: example + "/fails, " + name, example: example, accounts: []string{c.Account, "other"},
			steps: []step{known, fail, get("closed"), other, get(""), recovered, get("closed"), {path: "/readyz", ops: true}}})
	}
	return all
}

// recordingOf asks for what was asked for when the recording was made.
func recordingOf(example string, replay replies) run {
	r := run{name: example + "/recording", example: example, accounts: realAccounts}
	for _, kind := range kinds {
		for _, account := range realAccounts {
			for _, f := range realFilters {
				r.steps = append(r.steps, step{replies: func() (replies, error) { return replay, nil }, kind: kind, account: account, path: listPath(kind, f[0], f[1])})
			}
		}
	}
	return r
}

// listPath is the path and query of a list.
func listPath(kind, status, inquiryType string) string {
	query := url.Values{}
	for name, value := range map[string]string{"status": status, "inquiry_type": inquiryType} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return strings.TrimSuffix("/api/v1/"+kind+"/inquiries?"+query.Encode(), "?")
}

var (
	origin    = regexp.MustCompile(`\b(base_url|token_url): https?://[^/\s]+`)
	listen    = regexp.MustCompile(`listen: 127\.0\.0\.1:\d+`)
	rateLimit = regexp.MustCompile(`(?m)^rate_limit: \{per_second: \d+, burst: \d+\}`)
	timeout   = regexp.MustCompile(`(?m)^  timeout: \d+s$`)
)

// configure writes an example's configuration into a folder: with addresses of the loopback interface, and bounds that
// a run does not meet. Everything else is the tree's own.
func (r run) configure(t tree, dir, legacyURL string) (file string, err error) {
	path := "examples/" + r.example + ".yaml"
	if r.talks != nil {
		path = "upstream/legacy/mapping.yaml"
	}
	text, err := os.ReadFile(filepath.Join(t.dir, path))
	if err != nil {
		return "", err
	}
	config := origin.ReplaceAllString(string(text), "$1: "+legacyURL)
	config = listen.ReplaceAllString(config, "listen: 127.0.0.1:0")
	config = rateLimit.ReplaceAllString(config, "rate_limit: {per_second: 10000, burst: 10000}")
	if strings.HasSuffix(r.name, "slow") {
		config = timeout.ReplaceAllString(config, "  timeout: 1s")
	}
	if r.talks != nil { // as in internal/conformance, but that every list is kept for an hour
		config = `listen: 127.0.0.1:0
ops: {listen: 127.0.0.1:0}
auth: {keys_file: keys.yaml, unknown_keys: {per_second: 1000, burst: 1000}}
request_timeout: 1m
cache: {buyer: {ttl: 1h}, seller: {ttl: 1h}}
rate_limit: {plans: {tight: {per_second: 0.01, burst: 2}}}
` + config
	}
	files := map[string]string{r.example + ".yaml": "shutdown_delay: 0s\n" + config, "keys.yaml": keysFile(r.accounts), "secrets/legacy-password": "a word\n", "secrets/legacy-token": "a token\n"}
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, r.example+".yaml"), nil
}

// observe makes the run with a tree, in an empty folder.
func (r run) observe(ctx context.Context, t tree, dir string) (seen observation, err error) {
	l := startLegacy(r.talks != nil)
	defer l.Close()
	file, err := r.configure(t, dir, l.URL)
	if errors.Is(err, os.ErrNotExist) {
		return observation{answers: []answer{{name: "the example", fields: map[string]string{"exists": "no"}}}}, nil
	}
	if err != nil {
		return seen, err
	}
	g, err := startGateway(ctx, t.binary, file)
	if err != nil {
		return seen, err
	}
	defer g.Kill()
	seen.answers, err = r.ask(ctx, g, l)
	if err == nil && r.talks != nil {
		seen.answers, err = r.hold(ctx, g)
	}
	if err != nil {
		return seen, err
	}
	if seen.metrics, err = g.metrics(ctx); err != nil {
		return seen, err
	}
	if seen.log, err = g.stop(); err != nil {
		return seen, err
	}
	if r.talks != nil {
		seen.log = namesOf(seen.log)
	}
	seen.requests = l.seen
	return seen, nil
}
