package upstream

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A panic in one of the goroutines that a list has is that list's failure.
func TestPanics(t *testing.T) {
	for in, keys := range map[string]string{
		"/list": "", "p=1": "buyer: {paging: {style: page, param: p, total: n}}",
		"/n/1": `buyer: {fields: {responses: {fetch: {path: "/n/{id}", id: id, paging: {style: none}}}}}`,
	} {
		virtual(t, serveJSON(`{"n":2,"rows":[{"id":"1","t":"a",`+good+`}]}`), keys, func(t *testing.T, f *fixture) {
			c := f.another(t, f.cfg, func(o *Options) {
				o.Transport = func(network http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if strings.Contains(r.URL.String(), in) {
							panic("a bug")
						}
						return network.RoundTrip(r)
					})
				}
			})
			if got := buyer(t, c, "acme"); got != "internal" || c.BreakerState("buyer", "") != "closed" {
				t.Errorf("%s: %s", in, got)
			}
			if p, err := c.Explain(t.Context(), acme, 1, false); err != nil || asError(p.Problem).Reason != "internal" {
				t.Errorf("%s, explained: %v %v", in, p.Problem, err)
			}
			time.Sleep(f.cfg.Timeout) // until then the timer of an http.Client waits for a request that panicked
		})
	}
}

// What Explain asks for beyond a fetch has a permit, too, and a panic in it is a doubt.
func TestExplainIsBounded(t *testing.T) {
	virtual(t, pagedLegacy(20), "buyer: {paging: {style: page, param: page, total: total}}", func(t *testing.T, f *fixture) {
		var c *Client
		asked := ""
		c = f.another(t, f.cfg, func(o *Options) {
			o.Transport = func(network http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					asked += fmt.Sprintf("%s with %d permits; ", r.URL.RawQuery, c.places.inFlight.Load())
					if strings.Contains(r.URL.RawQuery, "page=2") {
						panic("a bug")
					}
					return network.RoundTrip(r)
				})
			}
		})
		x, err := c.Explain(t.Context(), acme, 1, true)
		if err != nil || x.Problem != nil || len(x.Served) != 20 || !strings.Contains(fmt.Sprint(x.Doubts), "a bug") {
			t.Errorf("%v %+v", err, x)
		}
		if want := "customer=acme&page=0 with 1 permits; customer=acme&page=1 with 1 permits; customer=acme&page=2 with 1 permits; "; asked != want {
			t.Errorf("asked for %s", asked)
		}
		time.Sleep(f.cfg.Timeout)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A panic keeps no permit of max_concurrent.
func TestAPanicKeepsNoPermit(t *testing.T) {
	virtual(t, pagedLegacy(60), "buyer: {paging: {style: page, param: page, total: total, concurrency: 4}}", func(t *testing.T, f *fixture) {
		c := f.another(t, f.cfg, func(o *Options) {
			o.Transport = func(network http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if p := r.URL.Query().Get("page"); p != "" && p != "0" {
						panic("a bug")
					}
					return network.RoundTrip(r)
				})
			}
		})
		for range 8 {
			if got := buyer(t, c, "acme"); got != "internal" || c.places.inFlight.Load() != 0 {
				t.Errorf("%s, and %v requests are under way for ever", got, c.places.inFlight.Load())
			}
		}
		time.Sleep(f.cfg.Timeout)
	})
}
