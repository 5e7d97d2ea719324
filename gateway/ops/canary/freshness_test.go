package canary

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseCacheStatus(t *testing.T) {
	for value, want := range map[string]cacheStatus{
		"inquiry-gateway; hit; ttl=12":                            {hit: true, left: 12 * time.Second},
		"inquiry-gateway; hit; ttl=-3; detail=stale-error":        {hit: true, left: -3 * time.Second, detail: "stale-error"},
		"inquiry-gateway; hit; ttl=-900; detail=stale-revalidate": {hit: true, left: -15 * time.Minute, detail: "stale-revalidate"},
		"inquiry-gateway; fwd=miss":                               {},
		"inquiry-gateway; fwd=miss; stored":                       {},
		"inquiry-gateway; fwd=stale; stored":                      {},
		"inquiry-gateway; fwd=miss; collapsed":                    {collapsed: true},
	} {
		if got, ok := parseCacheStatus(value); !ok || got != want {
			t.Errorf("%q: %+v, %t", value, got, ok)
		}
	}
	for _, value := range []string{
		"", "nginx; hit; ttl=1", "inquiry-gateway", "inquiry-gateway; hit", "inquiry-gateway; hit; ttl=", "inquiry-gateway; hit; ttl=-1",
		"inquiry-gateway; hit; ttl=0; detail=stale-error", "inquiry-gateway; hit; ttl=-0; detail=stale-error", "inquiry-gateway; fwd=miss; ttl=3",
		"inquiry-gateway; hit; ttl=1, other; hit", "inquiry-gateway; hit; ttl=1; key=acme", "inquiry-gateway; hit; ttl=1\n", "inquiry-gateway; hit; ttl=99999999999",
	} {
		if got, ok := parseCacheStatus(value); ok {
			t.Errorf("%q is taken for %+v", value, got)
		}
	}
}

// A list that a cache serves by the policy is never found too old, whatever its
// ttl lost by jitter and wherever in a second it was asked for.
func TestJudgeLetsPassWhatThePolicyAllows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		upTo := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(rt, name))
		}
		p := Policy{TTL: upTo("ttl", time.Hour), StaleWhileRevalidate: upTo("swr", time.Hour), StaleIfError: upTo("sie", time.Hour), Jitter: rapid.Float64Range(0, .9).Draw(rt, "jitter")}
		ttl := p.TTL - time.Duration(p.Jitter*rapid.Float64Range(0, 1).Draw(rt, "spread")*float64(p.TTL))
		state := rapid.SampledFrom([]string{"", "stale-revalidate", "stale-error"}).Draw(rt, "state")
		window := map[string]time.Duration{"": 0, "stale-revalidate": p.StaleWhileRevalidate, "stale-error": max(p.StaleWhileRevalidate, p.StaleIfError)}[state]
		age := upTo("age", ttl+window)
		a := &answer{age: age.Truncate(time.Second), from: cacheStatus{hit: true, detail: state, left: floor(ttl - age)}}
		switch {
		case state == "" && age > ttl:
			return
		case state != "": // at once where its refresh failed, and later where it had changed at the legacy
			a.from.left = min(a.from.left, -time.Second, floor(-upTo("changed ago", age)))
		}
		if problems := p.judge(a); problems != nil {
			rt.Fatalf("ttl %s, age %s: %q", ttl, age, problems)
		}
	})
}

// floor is what is left in whole seconds, as the header tells it.
func floor(d time.Duration) time.Duration {
	f := d.Truncate(time.Second)
	if f > d {
		f -= time.Second
	}
	return f
}

func TestHoldsUUID(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "6f1c2a34-1111-4222-8333-944455566677": true, "see 6F1C2A34111142228333944455566677.": true,
		"{6f1c2a34-1111-4222-8333-944455566677}": true, "6f1c2a34-1111-4222-8333-94445556667": false, "[removed]": false,
		"6f1c2a34 1111 4222 8333 944455566677": false, "x" + strings.Repeat("0", 31): false, "x" + strings.Repeat("-0", 32): true, strings.Repeat("-", 64): false,
		strings.Repeat("0", 20) + "g" + strings.Repeat("0", 20): false, "배송 6f1c2a34-1111-4222-8333-944455566677 도착": true,
	} {
		if holdsUUID(text) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
}
