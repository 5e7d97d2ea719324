package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	callers = 8
	// thinks is the mean time between two requests of a caller.
	thinks = 500 * time.Millisecond
)

// caller sends requests to random nodes. When and what it asks depends on nothing but the
// seed.
type caller struct {
	env    *environment
	name   string
	rng    *rand.Rand
	keep   *rand.Rand // which lists it keeps, which depends on the answers
	client *http.Client
	kept   map[string]cached // by what was asked
}

// cached is a list that the caller keeps for If-None-Match.
type cached struct {
	tag  string
	list []shown
}

// shown is a record of an answer.
type shown struct {
	Title       string `json:"title"`
	Content     string `json:"content"`
	Status      string `json:"status"`
	InquiryType string `json:"inquiry_type"`
}

// request is one request of a caller and what came of it.
type request struct {
	step       string // which caller's and which of its requests, the same in every run of the seed
	node       *node
	run        *running
	key        *key
	want       listKey
	start, end time.Time
	status     int
	code       string
	outcome    string // of Cache-Status
	age        time.Duration
	list       []shown
}

func (r *request) String() string {
	return fmt.Sprintf("%s: %s %+v, status %d %s, %q, age %v, sent at %v, answered after %v", r.step, r.run.name, r.want, r.status, r.code,
		r.outcome, r.age, r.start.Sub(r.node.env.begin), r.end.Sub(r.start))
}

func newCaller(env *environment, name string, compressed bool) *caller {
	transport := &http.Transport{DialContext: env.net.dialer(name), DisableCompression: !compressed}
	return &caller{
		env: env, name: name, rng: rngOf(env.seed, name), keep: rngOf(env.seed, name+" keeps"),
		client: &http.Client{Transport: transport}, kept: map[string]cached{},
	}
}

// startCallers has the callers ask until the environment ends.
func (env *environment) startCallers() (wait func()) {
	var all sync.WaitGroup
	for i := range callers {
		c := newCaller(env, fmt.Sprintf("caller %d", i), i%2 == 0)
		all.Go(c.run)
	}
	return all.Wait
}

func (c *caller) run() {
	defer c.client.CloseIdleConnections()
	at := time.Now()
	for n := 1; ; n++ {
		at = at.Add(time.Duration(c.rng.ExpFloat64() * float64(thinks)))
		time.Sleep(time.Until(at))
		if c.env.over() {
			return
		}
		k := c.env.keys.all[c.rng.IntN(len(c.env.keys.all))]
		want := listKey{kind: k.kind, account: k.account}
		if c.rng.IntN(3) == 0 {
			want.status = []string{"pending", "answered"}[c.rng.IntN(2)]
		}
		if c.rng.IntN(6) == 0 {
			want.inquiryType = []string{"delivery", "refund"}[c.rng.IntN(2)]
		}
		node, maxWait := c.env.nodes[c.rng.IntN(nodeCount)], 2*requestTimeout
		if c.rng.IntN(20) == 0 { // leaves early
			maxWait = time.Duration(c.rng.IntN(int(50 * time.Millisecond)))
		}
		c.ask(&request{step: fmt.Sprintf("%s request %d", c.name, n), node: node, key: k, want: want}, maxWait)
	}
}

// askOnce has a caller of its own ask a node for a list.
func (env *environment) askOnce(name string, n *node, want listKey) (wait func()) {
	var one sync.WaitGroup
	c := newCaller(env, name, len(name)%2 == 0)
	one.Go(func() {
		defer c.client.CloseIdleConnections()
		c.ask(&request{step: name, node: n, key: env.keys.pick(want.account, 0), want: want}, 2*requestTimeout)
	})
	return one.Wait
}

// ask sends one request and has its answer checked. Where the node is down or goes down
// meanwhile there is nothing to be checked.
func (c *caller) ask(r *request, maxWait time.Duration) {
	if r.run = r.node.current(); r.run == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	r.start = time.Now()
	err := c.send(ctx, r)
	r.end = time.Now()
	switch {
	case r.node.current() != r.run:
	case err == nil:
		c.env.checks.answered(r)
	case ctx.Err() != nil && maxWait < requestTimeout:
		c.env.reach("caller left")
	default:
		c.env.checks.fail("no answer: %v; %v", err, r)
	}
}

func (c *caller) send(ctx context.Context, r *request) error {
	q := url.Values{}
	if r.want.status != "" {
		q.Set("status", r.want.status)
	}
	if r.want.inquiryType != "" {
		q.Set("inquiry_type", r.want.inquiryType)
	}
	address := "http://" + r.node.address("8080") + "/api/v1/" + r.want.kind + "/inquiries?" + q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "?"), http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+r.key.id)
	asked := r.key.id + q.Encode()
	before, had := c.kept[asked]
	if had {
		req.Header.Set("If-None-Match", before.tag)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	r.status, r.outcome = res.StatusCode, res.Header.Get("Cache-Status")
	r.age, _ = time.ParseDuration(res.Header.Get("Age") + "s") // 0 where there is none
	if r.status == http.StatusNotModified {
		r.list = before.list
		c.env.reach("304")
		return nil
	}
	var envelope struct {
		Data   []shown
		Errors []struct{ Code string }
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		return fmt.Errorf("the body of status %d: %w", res.StatusCode, err)
	}
	if len(envelope.Errors) > 0 {
		r.code = envelope.Errors[0].Code
		c.env.reach("error " + r.code)
	}
	if r.list = envelope.Data; r.status == http.StatusOK && c.keep.IntN(2) == 0 {
		c.kept[asked] = cached{res.Header.Get("Etag"), r.list}
	}
	return nil
}
