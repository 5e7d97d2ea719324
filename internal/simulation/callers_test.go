package simulation

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

const (
	callers = 8
	// thinkTime is the mean time between two requests of a caller. While the fleet recovers, when
	// less is promised, it is recoveryFactor times that.
	thinkTime      = 500 * time.Millisecond
	recoveryFactor = 4
)

// caller sends requests to random nodes. When and what it asks depends on nothing but the
// seed.
type caller struct {
	env   *environment
	name  string
	rng   *rand.Rand
	keep  *rand.Rand // which lists it keeps, which depends on the answers
	gzip  bool
	conns map[string]*wire  // by address
	kept  map[string]cached // by what was asked
}

// wire is a connection to a node that is used for one request after the other.
type wire struct {
	net.Conn
	in *bufio.Reader
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
	return &caller{
		env: env, name: name, rng: rngOf(env.seed, name), keep: rngOf(env.seed, name+" keeps"),
		gzip: compressed, conns: map[string]*wire{}, kept: map[string]cached{},
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
	defer c.close()
	at := time.Now()
	for n := 1; ; n++ {
		pause := c.rng.ExpFloat64() * float64(thinkTime)
		if c.env.checks.recovers(at) {
			pause *= recoveryFactor
		}
		at = at.Add(time.Duration(pause))
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
		defer c.close()
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
	case r.end.Sub(r.start) >= maxWait && maxWait < requestTimeout:
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
	path := strings.TrimSuffix("/api/v1/"+r.want.kind+"/inquiries?"+q.Encode(), "?")
	head := fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", path, r.node.address("8080"), r.key.id)
	asked := r.key.id + path
	before, had := c.kept[asked]
	if had {
		head += "If-None-Match: " + before.tag + "\r\n"
	}
	if c.gzip {
		head += "Accept-Encoding: gzip\r\n"
	}
	res, body, err := c.exchange(ctx, r.node.address("8080"), head+"\r\n")
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

// exchange sends a request and reads the answer. One that a connection of before took to its
// end without a byte of an answer is sent again, as clients do.
func (c *caller) exchange(ctx context.Context, address, request string) (res *http.Response, body []byte, err error) {
	for {
		w, reused := c.conns[address], true
		if w == nil {
			conn, err := c.env.net.dialer(c.name)(ctx, "tcp", address)
			if err != nil {
				return nil, nil, err
			}
			w, reused = &wire{conn, bufio.NewReaderSize(conn, 2048)}, false
			c.conns[address] = w
		}
		if deadline, ok := ctx.Deadline(); ok {
			_ = w.SetDeadline(deadline)
		}
		if _, err = w.Write([]byte(request)); err == nil {
			if _, err = w.in.Peek(1); err == nil {
				res, body, err = w.answer()
				reused = false
			}
		}
		if err != nil || res.Close {
			_ = w.Close()
			delete(c.conns, address)
		}
		if err == nil || !reused || errors.Is(err, os.ErrDeadlineExceeded) {
			return res, body, err
		}
	}
}

func (w *wire) answer() (*http.Response, []byte, error) {
	res, err := http.ReadResponse(w.in, nil)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(res.Body)
	if err == nil && res.Header.Get("Content-Encoding") == "gzip" {
		var plain *gzip.Reader
		if plain, err = gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, err = io.ReadAll(plain)
		}
	}
	return res, body, err
}

func (c *caller) close() {
	for _, w := range c.conns {
		_ = w.Close()
	}
}
