package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"inquiry-gateway/internal/series"
	"inquiry-gateway/upstream/address"
	"inquiry-gateway/upstream/mapping"
	"inquiry-gateway/upstream/replay"
)

// Kept is a list that was fetched, with the replies that it was made from. It is
// immutable.
type Kept struct {
	Want    Request
	replies []keptReply // in the order in which they came
	bytes   int64
}

// keptReply is a good reply as the mapping reads it, and what it was asked by.
type keptReply struct {
	asked  string
	body   string
	header http.Header
}

// keptOverhead is about what a kept reply takes beside its body, in bytes.
const keptOverhead = 1 << 10

// kept holds the newest fetches, one for each list, within upstream.keep_replies_bytes.
type kept struct {
	mu    sync.Mutex
	limit int64
	bytes int64
	lists []*Kept // oldest first
	held  prometheus.Gauge
	most  prometheus.Gauge
}

// newKept keeps nothing until setLimit.
func newKept(reg prometheus.Registerer) *kept {
	all := series.In(reg, subsystem)
	return &kept{
		held: all.Gauge("kept_replies_bytes", "Memory of the replies that are kept for check --answers."),
		most: all.Gauge("kept_replies_limit_bytes", "The bound of it, upstream.keep_replies_bytes; 0: none are kept."),
	}
}

// setLimit bounds the memory, and lets go of what is over it.
func (k *kept) setLimit(bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limit = bytes
	k.most.Set(float64(bytes))
	k.fit()
}

// on tells whether anything is to be kept.
func (k *kept) on() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.limit > 0
}

// add keeps a fetch in the place of an older one of the same list. One that would take
// more than a quarter of all is left out.
func (k *kept) add(list *Kept) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if list.bytes > k.limit/4 {
		return
	}
	k.lists = slices.DeleteFunc(k.lists, func(old *Kept) bool {
		if old.Want == list.Want {
			k.bytes -= old.bytes
			return true
		}
		return false
	})
	k.lists, k.bytes = append(k.lists, list), k.bytes+list.bytes
	k.fit()
}

// fit lets go of the oldest lists until the others are within the limit. It needs k.mu.
func (k *kept) fit() {
	for k.bytes > k.limit {
		k.bytes -= k.lists[0].bytes
		k.lists = slices.Delete(k.lists, 0, 1)
	}
	k.held.Set(float64(k.bytes))
}

// Kept are the newest lists that were fetched, at most so many; none unless
// upstream.keep_replies_bytes asks for it. A reload keeps them.
func (c *Client) Kept(most int) []*Kept {
	c.kept.mu.Lock()
	defer c.kept.mu.Unlock()
	return slices.Clone(c.kept.lists[max(len(c.kept.lists)-most, 0):])
}

// record has the fetcher's replies kept; done is to be called when the list is good.
func (f *fetcher) record(want Request) (done func()) {
	if !f.kept.on() {
		return func() {}
	}
	var mu sync.Mutex
	list := &Kept{Want: Request{Kind: want.Kind, Account: want.Account, Status: want.Status, InquiryType: want.InquiryType}}
	f.keep = func(asked address.Request, body string, header http.Header) {
		header = header.Clone()
		for _, name := range []string{"Set-Cookie", "Content-Type", "Content-Length", "Content-Encoding"} {
			header.Del(name) // the body is decoded
		}
		mu.Lock()
		defer mu.Unlock()
		list.replies = append(list.replies, keptReply{askedFor(asked.Method, asked.URL, asked.Body), strings.Clone(body), header})
		list.bytes += int64(len(body)+len(asked.URL)+len(asked.Body)) + keptOverhead
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if len(list.replies) > 0 && len(list.replies) == int(f.requests.Load()) { // else some said that there is nothing
			f.kept.add(list)
		}
	}
}

// askedFor is the same for requests that mean the same.
func askedFor(method, address, body string) string {
	u, err := url.Parse(address)
	if err != nil {
		return method + " " + address + " " + body
	}
	return method + " " + u.Path + "?" + u.Query().Encode() + " " + body
}

// Replayed is what a configuration makes of a kept list.
type Replayed struct {
	List  List
	Err   error    // why a caller would get none
	Asked []string // the requests that it would take, sorted; they name accounts and ids
}

// Replay fetches a kept list by cfg from its replies alone: nothing is sent, and no
// secret is needed. A request that no reply is for gets the next one that is left. cfg's
// reply section is passed over, as the replies are kept as they were read.
func (k *Kept) Replay(ctx context.Context, cfg Config) (Replayed, error) {
	cfg.Auth, cfg.TLS, cfg.Retry.Attempts, cfg.KeepRepliesBytes = AuthConfig{Type: "none"}, DefaultConfig().TLS, 1, 0
	cfg.Buyer.Reply, cfg.Seller.Reply = mapping.ReplyConfig{}, mapping.ReplyConfig{}
	transport := &keptTransport{left: slices.Clone(k.replies)}
	client, err := New(cfg, Options{Transport: transport})
	if err != nil {
		return Replayed{}, err
	}
	defer client.Close()
	list, err := client.Fetch(ctx, k.Want)
	return Replayed{List: list, Err: err, Asked: slices.Sorted(slices.Values(transport.asked))}, nil
}

// keptTransport gives each reply once.
type keptTransport struct {
	mu    sync.Mutex
	left  []keptReply
	asked []string
}

// RoundTrip implements http.RoundTripper.
func (t *keptTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := replay.Body(r)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	asked := askedFor(r.Method, r.URL.String(), string(body))
	t.asked = append(t.asked, asked)
	if len(t.left) == 0 {
		return nil, errors.New("no kept reply is left for this request")
	}
	i := max(slices.IndexFunc(t.left, func(k keptReply) bool { return k.asked == asked }), 0)
	reply := t.left[i]
	t.left = slices.Delete(t.left, i, i+1)
	header := reply.header.Clone()
	header.Set("Content-Type", "application/json")
	return replay.Response(r, http.StatusOK, header, []byte(reply.body)), nil
}
