package conformance

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"inquiry-gateway/cmd/inquiry-gateway/gatewaytest"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
	"inquiry-gateway/upstream/probe"
)

// tree is a checkout with its gateway.
type tree struct{ dir, binary string }

// TestCompare compares the trees that .ci/compare names: OLD, its binary, NEW, its binary. It ends the process with 0 if they behave
// alike, and with 1 if they differ.
func TestCompare(t *testing.T) {
	if flag.NArg() != 4 {
		return // .ci/compare gives them
	}
	found := compare(t, [2]tree{{flag.Arg(0), flag.Arg(1)}, {flag.Arg(2), flag.Arg(3)}}, regexp.MustCompile(""))
	if !t.Failed() {
		printDifferences(os.Stdout, found)
		os.Exit(min(1, len(found)))
	}
}

// repeats is how often a run that differs is made again: timing decides nothing, what differs must do so each time.
const repeats = 2

// compare makes the runs whose names match with both trees.
func compare(t *testing.T, trees [2]tree, only *regexp.Regexp) (all []difference) {
	var mu sync.Mutex
	made := 0
	t.Run("runs", func(t *testing.T) {
		for _, r := range allRuns(t, trees[0].dir) {
			if !only.MatchString(r.name) {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				old, now := r.observe(t, trees[0]), r.observe(t, trees[1])
				if strings.HasSuffix(r.name, allLists) && !old.hasRecords() && !now.hasRecords() {
					t.Error("neither gateway returned a record: nothing was compared")
				}
				found := diff(old, now)
				for i := 0; i < repeats && len(found) > 0; i++ {
					again := diff(r.observe(t, trees[0]), r.observe(t, trees[1]))
					found = slices.DeleteFunc(found, func(d difference) bool { return !slices.Contains(again, d) })
				}
				mu.Lock()
				defer mu.Unlock()
				all, made = append(all, found...), made+1
			})
		}
	})
	if made == 0 {
		t.Fatal("there is no such run")
	}
	return all
}

// allLists ends the name of the run that asks for every list of an example's accounts.
const allLists = ": all lists"

// run is one gateway's life: it is started with an example and asked for one thing after the other.
type run struct {
	name     string
	example  string // its file's name without .yaml; empty: the sample legacy system's mapping, for conversations
	accounts []string
	steps    []step
}

// step is a request.
type step struct {
	kind, account string // whose key is sent; without a kind the ops listener is asked
	path          string
	legacy        func() http.Handler // makes what answers from now on; nil: as before
}

// failing are the examples in front of which the legacy system fails: JSON, second requests, a session, XML, GraphQL.
var failing = []string{"odata-v4", "redmine", "directus", "soap", "graphql"}

// allRuns are the conversations, and for each example its saved replies and its recording.
func allRuns(t *testing.T, dir string) []run {
	all := []run{{name: "conversations"}}
	files, err := filepath.Glob(filepath.Join(dir, "examples/tests/*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal("no examples/tests/*.yaml in ", dir, err)
	}
	for _, file := range files {
		example, folder := strings.TrimSuffix(filepath.Base(file), ".yaml"), filepath.Dir(file)
		text, err := os.ReadFile(file)
		var tests []probe.Test
		if err == nil {
			err = yaml.Unmarshal(text, &tests)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		address := addressOf(t, filepath.Join(dir, "examples", example+".yaml"))
		lists := run{name: example + allLists, example: example, accounts: []string{"unpaid"}, steps: []step{{path: "/livez"}, {path: "/readyz"}, {path: "/ops/config"}}}
		for i, test := range tests {
			if strings.Contains(test.Account, " ") {
				continue // no key can be for it
			}
			path := listPath(test.Kind, test.Status, test.InquiryType)
			first, again := step{test.Kind, test.Account, path, func() http.Handler { return saved(t, test, folder, address) }}, step{test.Kind, test.Account, path, nil}
			all = append(all, run{example + ": " + test.Name, example, []string{test.Account}, []step{first, again}})
			isFirst := !slices.ContainsFunc(tests[:i], func(other probe.Test) bool { return other.Kind == test.Kind })
			if isFirst {
				lists.accounts, lists.steps = append(lists.accounts, test.Account), append(lists.steps, matrix(first)...)
			}
			if i == 0 && slices.Contains(failing, example) {
				all = append(all, failureRuns(example, test, first)...)
			}
		}
		all = append(all, lists)
		if _, err := os.Stat(recordingOf(example)); err == nil {
			all = append(all, recordingRun(example, func() http.Handler { return recorded(t, example) }))
		}
	}
	return all
}

// addressOf returns scheme and host of the system that an example is for.
func addressOf(t *testing.T, example string) string {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`base_url: (https?://[^/\s]+)`).FindSubmatch(text)
	if found == nil {
		t.Fatal("no base_url in ", example)
	}
	return string(found[1])
}

// matrix asks for every list of an account, without a key and as an account that has not paid, and what the gateway would do.
func matrix(first step) []step {
	steps := []step{first, {first.kind, first.account, first.path, nil}, {first.kind, "nobody", first.path, nil}, {first.kind, "unpaid", first.path, nil},
		{path: "/ops/explain?kind=" + first.kind + "&account=" + url.QueryEscape(first.account)}}
	for _, status := range []string{"", "pending", "answered", "closed", "nosuch"} {
		for _, inquiryType := range []string{"", "delivery", "refund", "product", "general", "nosuch"} {
			steps = append(steps, step{first.kind, first.account, listPath(first.kind, status, inquiryType), nil})
		}
	}
	return steps
}

// failureRuns ask for lists that are known and for ones that are not while the legacy system fails, and after it.
func failureRuns(example string, test probe.Test, first step) (all []run) {
	known, unknown := first, listPath(test.Kind, "closed", "")
	known.legacy = nil
	for _, name := range slices.Sorted(maps.Keys(failures)) {
		all = append(all, run{example + ": fails, " + name, example, []string{test.Account, "other"}, []step{
			first, {test.Kind, test.Account, unknown, func() http.Handler { return failures[name] }}, {test.Kind, test.Account, unknown, nil}, {test.Kind, "other", first.path, nil}, known,
			{test.Kind, "other", unknown, first.legacy}, {path: "/readyz"},
		}})
	}
	return all
}

// recordingRun asks for what was asked for when the recording was made, by internal/real.
func recordingRun(example string, legacy func() http.Handler) run {
	all := run{name: example + ": recording", example: example, accounts: []string{"4711", "47", "o'brien@example.com", "ann+shop@example.com", "0815"}}
	for _, kind := range []string{"buyer", "seller"} {
		for _, account := range all.accounts {
			for _, filters := range []string{"/", "pending/", "answered/", "closed/", "nosuch/", "/delivery", "/refund", "/product", "/general", "pending/delivery", "closed/refund"} {
				status, inquiryType, _ := strings.Cut(filters, "/")
				all.steps = append(all.steps, step{kind, account, listPath(kind, status, inquiryType), nil})
			}
		}
	}
	all.steps[0].legacy = legacy
	return all
}

func listPath(kind, status, inquiryType string) string {
	query := url.Values{}
	for name, value := range map[string]string{"status": status, "inquiry_type": inquiryType} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return "/api/v1/" + kind + "/inquiries?" + query.Encode()
}

// forCases is the configuration in front of the sample legacy system, as in startGateway but that all lists are kept.
const forCases = `listen: 127.0.0.1:0
ops: {listen: 127.0.0.1:0}
auth: {keys_file: keys.yaml}
request_timeout: 1m
cache: {buyer: {ttl: 1h}, seller: {ttl: 1h}}
rate_limit: {plans: {tight: {per_second: 0.01, burst: 2}}}
`

// changedLines are the lines of an example that cannot stay: addresses, and bounds that depend on time.
var changedLines = []struct{ old, new string }{
	{`\b(base_url|token_url): https?://[^/\s]+`, "$1: LEGACY"}, {`listen: 127\.0\.0\.1:\d+`, "listen: 127.0.0.1:0"},
	{`(?m)^rate_limit: \{per_second: \d+, burst: \d+\}`, "rate_limit: {per_second: 10000, burst: 10000}"},
}

// configure writes a configuration into a folder: the tree's own but for changedLines. There is none if the tree does not have the example.
func (r run) configure(t *testing.T, dir string, tr tree, legacyURL string) (keys map[string]string, ok bool) {
	path, before, callers := "examples/"+r.example+".yaml", "", callers()
	if r.example == "" {
		path, before = "upstream/legacy/mapping.yaml", forCases
	}
	for _, a := range slices.Compact(slices.Sorted(slices.Values(r.accounts))) {
		callers = append(callers, gatewaytest.Paid("buyer", "buyer:"+a, a), gatewaytest.Paid("seller", "seller:"+a, a))
	}
	text, err := os.ReadFile(filepath.Join(tr.dir, path))
	if err != nil {
		return nil, false
	}
	config := string(text)
	for _, c := range changedLines {
		config = regexp.MustCompile(c.old).ReplaceAllString(config, c.new)
	}
	if strings.HasSuffix(r.name, "slow") {
		config = regexp.MustCompile(`(?m)^  timeout: \d+s$`).ReplaceAllString(config, "  timeout: 1s")
	}
	keys = map[string]string{}
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"gateway.yaml": before + "shutdown_delay: 0s\n" + strings.ReplaceAll(config, "LEGACY", legacyURL), "keys.yaml": gatewaytest.KeysFile(t, callers, keys),
		"secrets/legacy-password": password + "\n", "secrets/legacy-token": "a token\n",
	} {
		testkit.Write(t, filepath.Join(dir, name), text)
	}
	return keys, true
}

// observe makes the run with a tree and says what was seen.
func (r run) observe(t *testing.T, tr tree) observation {
	l, dir := startReplayer(t), t.TempDir()
	o := observation{run: r.name, dir: dir, facts: map[fact][]string{}}
	keys, ok := r.configure(t, dir, tr, l.URL)
	if !ok {
		o.add("example", r.example, "missing")
		return o
	}
	p, public, ops := gatewaytest.Serve(t, tr.binary, filepath.Join(dir, "gateway.yaml"), dir)
	s := server{address: strings.TrimPrefix(public, "http://"), ops: ops, keys: keys}
	if r.example == "" {
		l.use(legacy.New(legacy.Options{}))
		o.converse(t, s)
	}
	for _, step := range r.steps {
		if step.legacy != nil {
			l.use(step.legacy())
		}
		base, isOps := public, step.kind == ""
		if isOps {
			base = ops
		}
		resp, body := get(t, base+step.path, keys[step.kind+":"+step.account])
		o.answer(resp, body, strings.TrimSpace(step.path+" "+step.account), isOps)
	}
	series := ""
	for before, i := "-", 0; series != before && i < 20; i++ { // until the last request is counted
		_, body := get(t, ops+"/metrics", "")
		before, series = series, string(body)
		series = regexp.MustCompile(`(?m)^(go|process|promhttp)_.*\n`).ReplaceAllString(series, "")
		time.Sleep(50 * time.Millisecond)
	}
	o.metrics(series)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	log := testkit.Read(t, p.Log())
	if o.requests(l); r.example != "" { // of many refused callers the gateway logs only some
		o.log(log)
	}
	return o
}

func get(t *testing.T, url, key string) (*http.Response, []byte) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	req.Header.Set("Accept-Encoding", "identity")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// converse holds the conversations.
func (o observation) converse(t *testing.T, s server) {
	s.tight = new(atomic.Int64)
	s.store(t)
	for _, c := range readCases(t) {
		answers, closed, _ := hold(s, c, mode{pieces: 1}) // too few answers are a difference
		o.add("connection closed", c.name, fmt.Sprint(closed))
		for n, a := range answers {
			o.answer(a.Response, []byte(a.body), fmt.Sprintf("%s, answer %d", c.name, n+1), false)
		}
	}
}
