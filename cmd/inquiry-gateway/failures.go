package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/upstream"
)

// What a gateway depends on, and how a part can fail.
const (
	partRedis  = "redis"
	partLegacy = "legacy system"
	partKeys   = "key store"

	stateSlow    = "slow" // past its timeout
	stateDown    = "down"
	stateGarbage = "garbage" // it answers, and nothing of the answer can be right
)

// What a node knows when a caller asks.
const (
	knowsList      = "list"          // the list, in the process, and the key
	knowsRedisList = "list in Redis" // it has just started
	knowsNothing   = "nothing"
	knowsBreaker   = "breaker open" // not the list, but the key, and that the part fails
)

// outcome is what a caller gets. The order counts: of two parts that fail at once the
// later outcome, which is the stricter one, is what a caller gets.
type outcome int

const (
	outcomeHit outcome = iota
	outcomeMiss
	outcomeStale
	outcomeTooSlow
	outcomeFailed
	outcomeInvalid
	outcomeUnavailable
	outcomeKeysUnavailable
)

// outcomes are the answers as HTTP has them: status, and the error's code or what
// Cache-Status says.
var outcomes = [...]struct {
	status       int
	code, detail string
}{
	outcomeHit:             {200, "", "hit"},
	outcomeMiss:            {200, "", "fwd=miss"},
	outcomeStale:           {200, "", "detail=stale-error"},
	outcomeTooSlow:         {504, "upstream_timeout", ""},
	outcomeFailed:          {502, "upstream_error", ""},
	outcomeInvalid:         {502, "upstream_invalid_response", ""},
	outcomeUnavailable:     {503, "upstream_unavailable", ""},
	outcomeKeysUnavailable: {503, "auth_unavailable", ""},
}

// String is the answer in a few words.
func (o outcome) String() string {
	return strconv.Itoa(outcomes[o].status) + " " + cmp.Or(outcomes[o].code, outcomes[o].detail)
}

// failure is one row of the declared table: what a caller gets while one part fails.
type failure struct {
	Part   string `json:"part"`
	State  string `json:"state"`
	Knows  string `json:"node_knows"`
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"` // of the error
	Says   string `json:"says"`           // with the values of the configuration

	outcome outcome
}

// failuresOf is the table for one configuration: the legacy system, Redis where there is
// one, and the key store. The test TestMatrix causes each row, and all pairs.
func failuresOf(c config.Config) (rows []failure) {
	add := func(part, state, knows string, o outcome, format string, args ...any) {
		rows = append(rows, failure{part, state, knows, outcomes[o].status, outcomes[o].code, fmt.Sprintf(format, args...), o})
	}
	u := c.Upstream
	var served []string // stale_if_error of the lists that there are; the row is about the first
	var first time.Duration
	for i, kind := range u.Kinds() {
		stale := map[string]time.Duration{"buyer": c.Cache.Buyer.StaleIfError, "seller": c.Cache.Seller.StaleIfError}[kind]
		if i == 0 {
			first = stale
		}
		served = append(served, fmt.Sprintf("%s (%s)", stale, kind))
	}
	for _, cold := range []struct {
		state string
		o     outcome
		says  string
	}{
		{stateSlow, outcomeTooSlow, fmt.Sprintf("after upstream.timeout (%s), at the latest after request_timeout (%s)", u.Timeout, c.RequestTimeout)},
		{stateDown, outcomeFailed, fmt.Sprintf("after at most %d requests, and at the latest after request_timeout (%s)", u.Attempts, c.RequestTimeout)},
		{stateGarbage, outcomeInvalid, "nothing of the reply is served or stored"},
	} {
		warm, says := outcomeStale, "marked stale; for stale_if_error: "+strings.Join(served, ", ")
		if first == 0 {
			warm, says = cold.o, "stale_if_error of "+u.Kinds()[0]+"s is 0s: no stale list is served"
		}
		add(partLegacy, cold.state, knowsList, warm, "%s", says)
		if len(c.Redis.Addrs) > 0 {
			add(partLegacy, cold.state, knowsRedisList, warm, "%s", says)
		}
		add(partLegacy, cold.state, knowsNothing, cold.o, "%s", cold.says)
		if cold.state == stateDown {
			add(partLegacy, cold.state, knowsBreaker, outcomeUnavailable, "when at least %d requests within %s failed, which are %g of all; then a probe at least every %s",
				u.Breaker.MinRequests, upstream.BreakerWindow, u.Breaker.FailureRatio, u.Breaker.OpenFor)
		}
	}
	if len(c.Redis.Addrs) > 0 {
		wait := fmt.Sprintf("at most %s later (1.5 times redis.timeout)", c.Redis.Timeout*3/2)
		cold, says := outcomeMiss, wait
		if c.Auth.Redis != nil {
			cold, says = outcomeKeysUnavailable, "keys are in this Redis (auth.redis); "+keyUnchecked
		}
		for _, state := range []string{stateSlow, stateDown} {
			add(partRedis, state, knowsList, outcomeHit, "%s", wait)
			add(partRedis, state, knowsRedisList, cold, "%s", says)
			add(partRedis, state, knowsNothing, cold, "%s", says)
			add(partRedis, state, knowsBreaker, outcomeMiss, "at most %s later", 5*time.Millisecond)
		}
		if c.Auth.Redis == nil {
			says = "what is in Redis is refused, and the list is fetched"
		}
		add(partRedis, stateGarbage, knowsList, outcomeHit, "from the process")
		add(partRedis, stateGarbage, knowsRedisList, cold, "%s", says)
		add(partRedis, stateGarbage, knowsNothing, cold, "%s", says)
	}
	switch i := c.Auth.Introspection; {
	case i != nil:
		for _, state := range []string{stateSlow, stateDown, stateGarbage} {
			ttl := c.Auth.TTL()
			warm, says := outcomeHit, fmt.Sprintf("a known key stays good for its ttl (%s)", ttl)
			if ttl == 0 {
				warm, says = outcomeKeysUnavailable, "ttl is 0s: each request asks the key store"
			}
			add(partKeys, state, knowsList, warm, "%s", says)
			add(partKeys, state, knowsNothing, outcomeKeysUnavailable, "after at most %s; %s", i.Timeout, keyUnchecked)
		}
	case c.Auth.Redis == nil:
		for _, state := range []string{stateDown, stateGarbage} {
			add(partKeys, state, knowsList, outcomeHit, "the keys that were read stay good; a node cannot start")
			add(partKeys, state, knowsNothing, outcomeMiss, "the keys that were read stay good; a node cannot start")
		}
	}
	return rows
}

// keyUnchecked is what a key that cannot be checked never gets.
const keyUnchecked = "never 401, and never let in"

// writeFailures prints the table for a person.
func writeFailures(out io.Writer, c config.Config, rows []failure) {
	fmt.Fprintf(out, "What callers get while a part fails, with the values of %s. Nothing is asked.\n", c.Path())
	fmt.Fprintln(out, "If two parts fail, the stricter of the two answers counts.")
	if len(c.Redis.Addrs) == 0 {
		fmt.Fprintln(out, "Redis: none is set (redis.addrs); each node has its own lists and limits.")
	}
	table := [][]string{{"FAILS", "HOW", "THE NODE KNOWS", "CALLERS GET", ""}}
	for i, row := range rows {
		part, state := row.Part, row.State
		if i > 0 && rows[i-1].Part == part {
			if part = ""; rows[i-1].State == state {
				state = ""
			}
		}
		table = append(table, []string{part, state, row.Knows, row.outcome.String(), row.Says})
	}
	writeTable(out, table)
}
