package main

import (
	"fmt"

	"inquiry-gateway/deploy/load/measure"
)

// Names of the gateway's series that a load is held against.
const (
	seriesRequests = "inquiry_gateway_http_requests_total"
	seriesLookups  = "inquiry_gateway_cache_lookups_total"
)

// expectation is what the gateway should have counted for nearly every request.
type expectation struct {
	series string
	labels []string
	share  float64 // of the requests, at least
}

// expect makes a check of expectations. All answers must have been 200 or, with
// a status, that one.
func expect(status string, all ...expectation) func(measure.Series, float64) error {
	all = append(all, expectation{seriesRequests, []string{`code="` + status + `"`}, 0.999})
	return func(grown measure.Series, requests float64) error {
		counted := grown.Sum(seriesRequests)
		if counted < requests {
			return fmt.Errorf("the gateway counted %.0f requests and the load %.0f", counted, requests)
		}
		for _, e := range all {
			// The load ends by closing its connections, each with a request
			// under way at most.
			if n := grown.Sum(e.series, e.labels...); n < e.share*counted-connections {
				return fmt.Errorf("only %.0f of %.0f requests counted as %s%v", n, counted, e.series, e.labels)
			}
		}
		return nil
	}
}

func localHits() expectation {
	return expectation{seriesLookups, []string{`outcome="hit"`, `tier="local"`}, 0.999}
}

// redisHits leaves room for the few lists that the smallest in-process tier
// holds.
func redisHits() expectation {
	return expectation{seriesLookups, []string{`outcome="hit"`, `tier="redis"`}, 0.93}
}

// misses leaves room for callers that happen to wait for the same fill.
func misses() expectation {
	return expectation{seriesLookups, []string{`outcome="miss"`}, 0.95}
}
