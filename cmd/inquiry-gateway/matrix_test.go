package main

import (
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// situation is what fails, by part.
type situation map[string]string

// situations are all with one or two of the parts in trouble.
func situations(parts map[string][]string) (all []situation) {
	names := []string{partRedis, partLegacy, partKeys}
	for i, one := range names {
		for _, state := range parts[one] {
			all = append(all, situation{one: state})
			for _, two := range names[i+1:] {
				for _, other := range parts[two] {
					all = append(all, situation{one: state, two: other})
				}
			}
		}
	}
	return all
}

// cells counts those that were started: their prefixes in the Redis that they share differ.
var cells atomic.Int64

// docs/failures.md says what callers get: each cell of it, and all pairs, with the whole program and a
// real Redis.
func TestMatrix(t *testing.T) {
	testkit.SkipShort(t)
	server := redistest.Start(t)
	states := []string{stateSlow, stateDown, stateGarbage}
	var rows atomic.Int64
	t.Run("cells", func(t *testing.T) {
		for source, parts := range map[string]map[string][]string{
			"introspection": {partRedis: states, partLegacy: states, partKeys: states},
			"redis":         {partRedis: states},
			"file":          {partKeys: {stateDown, stateGarbage}},
		} {
			for _, s := range situations(parts) {
				t.Run(strings.ReplaceAll(fmt.Sprint(source, s), " ", "_"), func(t *testing.T) {
					t.Parallel() // most of the time it waits for timeouts
					rows.Add(newCell(t, server, source, s).run())
				})
			}
		}
	})
	if cells.Load() != 36+3+2 || rows.Load() < 90 {
		t.Errorf("%d situations, %d rows", cells.Load(), rows.Load())
	}
}

// cell is a gateway and all that it depends on, in one situation.
type cell struct {
	*program
	s      situation
	setup  setup
	redis  *redistest.Server
	cable  *redistest.Proxy
	prefix string
	keys   *authServer // nil where keys are elsewhere
	rows   []failure
}

// newCell starts it with everything well.
func newCell(t *testing.T, server *redistest.Server, source string, s situation) *cell {
	c := &cell{s: s, redis: server, cable: redistest.NewProxy(t, server.Addr), prefix: fmt.Sprint("matrix-", cells.Add(1))}
	timeout := func(part, quick string) string { // what is well has time on a busy machine
		if s[part] != "" {
			return quick
		}
		return "4s"
	}
	policy := "ttl: 5m"
	if s[partLegacy] != "" {
		policy = "ttl: 1ms, stale_while_revalidate: 0s" // lists must be stale when it fails
	}
	c.setup = setup{
		redis:    fmt.Sprintf("{addrs: [%q], prefix: %q, timeout: %s}", c.cable.Addr, c.prefix, timeout(partRedis, "1s")),
		yaml:     fmt.Sprintf("cache: {buyer: {%s, stale_if_error: 10m}}", policy),
		upstream: []string{"timeout: 2s", "timeout: " + timeout(partLegacy, "1s")},
	}
	switch source {
	case "introspection":
		c.keys, c.setup = introspecting(t, timeout(partKeys, "1s"), "cache_ttl: 5m", c.setup)
	case "redis":
		c.setup.auth = "{redis: {}, cache_ttl: 5m}"
	}
	c.program = start(t, c.setup)
	if source == "redis" {
		c.addKeys()
	}
	c.rows = declared(t, map[string]map[string]string{
		"introspection": {partRedis: "Redis", partLegacy: "legacy system", partKeys: "authorization server"},
		"redis":         {partRedis: "Redis with the keys"},
		"file":          {partKeys: "keys file"},
	}[source])
	return c
}

// addKeys puts the sample keys into Redis.
func (c *cell) addKeys() {
	editor := keysredis.NewEditor(c.redis.Client(), c.prefix, auth.Hasher{})
	for _, who := range c.callers {
		k := who.Record
		k.Kind, k.Account, k.Digest = who.Kind, who.Account.ID, auth.Hasher{}.Hash(c.program.keys[k.ID])
		must(c.t, editor.Add(c.t.Context(), k, &who.Account))
	}
}

// run lets the node learn one list, causes the situation, and asks in each way that the
// table declares. It returns how many rows it has compared.
func (c *cell) run() int64 {
	c.comesToGet(http.StatusOK, buyerList, "buyer")
	if strings.Contains(c.setup.auth, "redis") {
		c.readsChanges(c.redis.Client(), c.prefix) // one that is still to come would make the node ask again
		c.gets(http.StatusOK, buyerList, "buyer")
	}
	c.eventually("the list is in Redis", func() bool {
		if len(c.lists()) > 0 {
			return true
		}
		c.get(buyerList, "buyer") // on a busy machine the first one may not have been stored
		return false
	})
	learnt := time.Now()
	c.eventually("a ttl of 1 ms is over", func() bool { return time.Since(learnt) > 20*time.Millisecond })
	c.fail()
	compared := int64(0)
	for _, knows := range []string{knowsList, knowsRedisList, knowsNothing, knowsBreaker} {
		want, found := stricter(c.rows, knows, c.s)
		if pair := len(c.s) > 1; !found || pair && knows != knowsList && knows != knowsNothing {
			continue
		}
		compared++
		for range map[bool]int{true: 3, false: 1}[knows == knowsList] {
			key, query, a := c.ask(knows)
			if problem := c.against(a, want, key, query); problem != "" {
				c.t.Errorf("%v, the node knows %s: %s", c.s, knows, problem)
			}
		}
	}
	return compared
}

// lists are the keys of lists in Redis.
func (c *cell) lists() []string {
	return slices.DeleteFunc(c.stored(), func(key string) bool {
		return !strings.Contains(key, ":buyer:") || strings.Contains(key, ":lease:")
	})
}

// stored is all that the gateway has in Redis.
func (c *cell) stored() (all []string) {
	for keys := c.redis.Client().Scan(c.t.Context(), 0, c.prefix+":*", 1000).Iterator(); keys.Next(c.t.Context()); {
		all = append(all, keys.Val())
	}
	return all
}

// fail causes the situation.
func (c *cell) fail() {
	switch c.s[partRedis] {
	case stateSlow:
		c.cable.Delay(5 * time.Second)
	case stateDown:
		c.cable.Cut()
	case stateGarbage:
		for _, key := range c.stored() {
			c.redis.Client().Set(c.t.Context(), key, "\x00garbage", redis.KeepTTL)
		}
	}
	switch c.s[partLegacy] {
	case stateSlow:
		c.fault(legacy.Fault{Name: legacy.FaultDelay, Delay: time.Hour})
	case stateDown:
		c.backend.CloseClientConnections()
		c.backend.Close()
	case stateGarbage:
		c.fault(legacy.Fault{Name: legacy.FaultGarbage})
	}
	switch state := c.s[partKeys]; {
	case state == "":
	case c.keys == nil: // a keys file
		c.write("keys.yaml", map[string]string{stateDown: "", stateGarbage: "\x00garbage"}[state])
		c.eventually("the keys file is read again", func() bool { return c.metric(`inquiry_gateway_auth_reloads_total{result="failed"}`) > 0 })
	case state == stateDown:
		c.keys.CloseClientConnections()
		c.keys.Close()
	case state == stateSlow:
		c.keys.answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	default:
		c.keys.answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>Please sign in</html>") })
	}
}

// ask asks as a caller of whom the node knows so much.
func (c *cell) ask(knows string) (keyID, query string, a answer) {
	switch knows {
	case knowsList:
		return "buyer", "", c.get(buyerList, "buyer")
	case knowsNothing:
		return "other-buyer", "", c.get(buyerList, "other-buyer")
	case knowsRedisList:
		s := c.setup
		s.joins, s.prepare = c.program, func(p *program) {
			p.keys, p.callers = c.program.keys, nil
			p.writeKeys(c.callers...)
		}
		return "buyer", "", start(c.t, s).get(buyerList, "buyer")
	}
	if c.s[partRedis] != "" {
		c.eventually("the breaker of Redis is open", func() bool { return c.part("redis") == "down" })
		return "buyer", "status=pending", c.get(buyerList+"?status=pending", "buyer")
	}
	for i := range 100 {
		keyID, query = []string{"buyer", "other-buyer"}[i%2], filterQuery(1+i/2)
		if a = c.get(buyerList+"?"+query, keyID); !strings.Contains(string(a.body), `"upstream_error"`) {
			break
		}
	}
	return keyID, query, a
}

// against says how an answer differs from what is declared; a list must be the one that
// the legacy system has for that account, rendered by the same code.
func (c *cell) against(a answer, o response, keyID, query string) string {
	status := a.header.Get("Cache-Status")
	stale := strings.Contains(status, "detail=stale-error")
	account := map[string]string{"buyer": legacy.BuyerTypical, "other-buyer": legacy.BuyerOther}[keyID]
	switch {
	case a.status != o.status || a.status != http.StatusOK && !strings.Contains(string(a.body), `"`+o.says+`"`):
		return fmt.Sprintf("%d %s, and %v is declared", a.status, a.body[:min(len(a.body), 300)], o)
	case o.status == http.StatusOK && (!strings.Contains(status, o.says) || stale != (o.says == "detail=stale-error")):
		return fmt.Sprintf("Cache-Status is %q, and %v is declared", status, o)
	case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "":
		return "Retry-After is missing"
	case o.status == http.StatusOK && !c.isTruth(a, auth.KindBuyer, account, query):
		return "the list is not the caller's, or not the right one"
	}
	return ""
}

// stricter is what a caller gets while two parts fail: the worse response of the two.
func stricter(rows []failure, knows string, parts map[string]string) (worst response, found bool) {
	for _, row := range rows {
		if row.knows == knows && parts[row.part] == row.state && (!found || row.response.rank > worst.rank) {
			worst, found = row.response, true
		}
	}
	return worst, found
}

// What can fail, how, and what a node has when a caller asks, as the document calls it.
const (
	partRedis, partLegacy, partKeys                       = "redis", "legacy system", "key store"
	stateSlow, stateDown, stateGarbage                    = "slow", "down", "garbage"
	knowsList, knowsRedisList, knowsNothing, knowsBreaker = "list", "list in Redis", "nothing", "breaker open"
)

// response is what a caller gets: the status with the error's code, or with a part of Cache-Status.
type response struct {
	status int
	says   string
	rank   int // in the document's list; a larger one is worse
}

// failure is one cell of the document's table.
type failure struct {
	part, state, knows string
	response           response
}

// declared reads the rows of docs/failures.md about some parts, which have these names there.
func declared(t *testing.T, parts map[string]string) (declared []failure) {
	text, err := os.ReadFile("../../docs/failures.md")
	must(t, err)
	saysResponse := regexp.MustCompile("^(\\d{3}) `([^`]*)`")
	var columns []string // what the node has, by column
	var rows [][]string
	ranks := map[string]int{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		found := saysResponse.FindStringSubmatch(cells[0])
		switch {
		case len(cells) == 2 && found != nil:
			ranks[found[2]] = len(ranks)
		case len(cells) > 2 && columns == nil:
			columns = cells[2:]
		case len(cells) > 2:
			rows = append(rows, cells)
		}
	}
	for _, cells := range rows {
		name, _, _ := strings.Cut(cells[0], " (")
		for part, called := range parts {
			if called != name {
				continue
			}
			for i, knows := range columns {
				found := saysResponse.FindStringSubmatch(cells[2+i])
				if found == nil {
					continue
				}
				status, err := strconv.Atoi(found[1])
				must(t, err)
				rank, listed := ranks[found[2]]
				if !listed {
					t.Fatalf("%s is not in the list of responses", cells[2+i])
				}
				for _, state := range strings.Split(cells[1], ", ") {
					declared = append(declared, failure{part, state, knows, response{status, found[2], rank}})
				}
			}
		}
	}
	return declared
}
