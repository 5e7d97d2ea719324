package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/auth"
	"inquiry-gateway/auth/keysredis"
	"inquiry-gateway/cmd/inquiry-gateway/config"
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

// The table that `check --failures` prints is what callers get: each row of it, and all
// pairs, with the whole program and a real Redis.
func TestMatrix(t *testing.T) {
	testkit.Slow(t)
	server := redistest.Start(t)
	states := []string{stateSlow, stateDown, stateGarbage}
	var cells, rows atomic.Int64
	t.Run("cells", func(t *testing.T) {
		for source, parts := range map[string]map[string][]string{
			"introspection": {partRedis: states, partLegacy: states, partKeys: states},
			"redis":         {partRedis: states},
			"file":          {partKeys: {stateDown, stateGarbage}},
		} {
			for _, s := range situations(parts) {
				t.Run(strings.ReplaceAll(fmt.Sprint(source, s), " ", "_"), func(t *testing.T) {
					t.Parallel() // most of the time it waits for timeouts
					cells.Add(1)
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
	keys   *httptest.Server
	broken atomic.Value // how the key store fails
	rows   []failure
}

// cellNumber makes the prefixes of cells that share a Redis differ.
var cellNumber atomic.Int64

// newCell starts it with everything well.
func newCell(t *testing.T, server *redistest.Server, source string, s situation) *cell {
	c := &cell{s: s, redis: server, cable: redistest.NewProxy(t, server.Addr), prefix: fmt.Sprint("matrix-", cellNumber.Add(1))}
	quick := func(part, quick string) string { // what is well has time on a busy machine
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
		yaml: fmt.Sprintf("redis: {addrs: [%q], prefix: %q, timeout: %s}\ncache: {buyer: {%s, stale_if_error: 10m}}\n", c.cable.Addr, c.prefix, quick(partRedis, "1s"), policy),
		auth: "{keys_file: keys.yaml}", upstream: []string{"timeout: 2s", "timeout: " + quick(partLegacy, "1s")},
	}
	switch source {
	case "introspection":
		c.keys = httptest.NewServer(http.HandlerFunc(c.introspect))
		t.Cleanup(func() { c.keys.CloseClientConnections(); c.keys.Close() })
		c.setup.auth = fmt.Sprintf("{introspection: {url: %q, timeout: %s}, cache_ttl: 5m}", c.keys.URL, quick(partKeys, "1s"))
	case "redis":
		c.setup.auth = fmt.Sprintf("{redis: {timeout: %s}, cache_ttl: 5m}", quick(partRedis, "1s"))
	}
	c.setup.prepare = func(p *program) {
		c.program = p
		if source == "redis" {
			c.addKeys()
		}
	}
	c.program = start(t, c.setup)
	loaded, err := config.Load(filepath.Join(c.dir, "gateway.yaml"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.rows = failuresOf(loaded.Config)
	return c
}

// addKeys puts the sample keys into Redis.
func (c *cell) addKeys() {
	editor := keysredis.NewEditor(c.redis.Client(), c.prefix, auth.Hasher{})
	for _, who := range c.callers {
		k := who.record
		k.Kind, k.Account, k.Digest = who.kind, who.account.ID, auth.Hasher{}.Hash(c.program.keys[k.ID])
		if err := editor.Add(c.t.Context(), k, &who.account); err != nil {
			c.t.Fatal(err)
		}
	}
}

// introspect answers as RFC 7662 says, unless the key store fails.
func (c *cell) introspect(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token") // what is read whole is seen to be given up
	switch c.broken.Load() {
	case stateSlow:
		<-r.Context().Done()
	case stateGarbage:
		_, _ = io.WriteString(w, "<html>Please sign in</html>") // a gateway that left needs no answer
	default:
		account := legacy.BuyerTypical
		if token == c.program.keys["other-buyer"] {
			account = legacy.BuyerOther
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"active":true,"sub":%q,"kind":"buyer","scope":%q,"api_access":"paid"}`, account, auth.ScopeInquiriesRead)
	}
}

// keysVersion is the series of the changes that a node has taken in from Redis.
var keysVersion = regexp.MustCompile(`inquiry_gateway_auth_store_version [1-9]`)

// run lets the node learn one list, causes the situation, and asks in each way that the
// table declares. It returns how many rows it has compared.
func (c *cell) run() int64 {
	c.eventually("the list is known", func() bool { return c.get(buyerList, "buyer").status == http.StatusOK })
	if strings.Contains(c.setup.auth, "redis") {
		c.eventually("the node follows the keys in Redis", func() bool { return keysVersion.Match(c.ops("/metrics").body) })
		c.gets(http.StatusOK, buyerList, "buyer")
	}
	c.eventually("the list is in Redis", func() bool { return len(c.lists()) > 0 })
	learnt := time.Now()
	c.eventually("a ttl of 1 ms is over", func() bool { return time.Since(learnt) > 20*time.Millisecond })
	c.fail()
	compared := int64(0)
	for _, knows := range []string{knowsList, knowsRedisList, knowsNothing, knowsBreaker} {
		want, declared := stricter(c.rows, knows, c.s)
		if pair := len(c.s) > 1; !declared || pair && knows != knowsList && knows != knowsNothing {
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
	return slices.DeleteFunc(c.stored(), func(key string) bool { return !strings.Contains(key, ":buyer:") || strings.HasSuffix(key, ":lease") })
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
		fault(legacy.Fault{Name: legacy.FaultDelay, Delay: time.Hour})(c.program)
	case stateDown:
		c.backend.CloseClientConnections()
		c.backend.Close()
	case stateGarbage:
		fault(legacy.Fault{Name: legacy.FaultHTML})(c.program)
	}
	switch state := c.s[partKeys]; {
	case state == "":
	case c.keys == nil: // a keys file
		c.write("keys.yaml", map[string]string{stateDown: "", stateGarbage: "\x00garbage"}[state])
		c.eventually("the keys file is read again", func() bool {
			return !strings.Contains(string(c.ops("/metrics").body), `inquiry_gateway_auth_reloads_total{result="failed"} 0`)
		})
	case state == stateDown:
		c.keys.CloseClientConnections()
		c.keys.Close()
	default:
		c.broken.Store(state)
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
		s.prepare, s.joins = func(p *program) { p.keys = c.program.keys; p.callers = nil; p.writeKeys(c.callers) }, c.program
		return "buyer", "", start(c.t, s).get(buyerList, "buyer")
	}
	if c.s[partRedis] != "" {
		c.eventually("the breaker of Redis is open", func() bool { return c.part("redis") == "down" })
		return "buyer", "status=pending", c.get(buyerList+"?status=pending", "buyer")
	}
	for range 100 {
		if a = c.get(buyerList+"?status=pending", "buyer"); !strings.Contains(string(a.body), `"upstream_error"`) {
			break
		}
	}
	return "buyer", "status=pending", a
}

// against says how an answer differs from what is declared; a list must be the one that
// the legacy system has for that account, rendered by the same code.
func (c *cell) against(a answer, want outcome, keyID, query string) string {
	o, status := outcomes[want], a.header.Get("Cache-Status")
	stale := strings.Contains(status, "detail=stale-error")
	account := map[string]string{"buyer": legacy.BuyerTypical, "other-buyer": legacy.BuyerOther}[keyID]
	filter, err := url.ParseQuery(query)
	switch {
	case err != nil:
		return err.Error()
	case a.status != o.status || !strings.Contains(string(a.body), `"`+o.code):
		return fmt.Sprintf("%d %s, and %s is declared", a.status, a.body[:min(len(a.body), 300)], want)
	case o.code == "" && (!strings.Contains(status, o.detail) || stale != (want == outcomeStale)):
		return fmt.Sprintf("Cache-Status is %q, and %s is declared", status, want)
	case a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "":
		return "Retry-After is missing"
	case o.code == "" && string(a.body) != string(truth(c.system, auth.KindBuyer, account, filter.Get("status"), "")):
		return "the list is not the caller's, or not the right one"
	}
	return ""
}

// The table is printed with the values of the file, and nothing is asked.
func TestCheckFailures(t *testing.T) {
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "keys.yaml"), "accounts: []\nkeys: []\n")
	base := strings.Replace(string(legacy.Mapping()), demoLegacyURL, "http://192.0.2.1", 1)
	for name, tc := range map[string]struct{ yaml, says string }{
		"legacy":     {"cache: {buyer: {stale_if_error: 7m}}", "200 detail=stale-error         marked stale; for stale_if_error: 7m0s (buyer)"},
		"no stale":   {"cache: {buyer: {stale_if_error: 0s}}", "504 upstream_timeout           stale_if_error of buyers is 0s"},
		"no Redis":   {"", "Redis: none is set"},
		"Redis":      {"redis: {addrs: [\"192.0.2.1:6379\"], timeout: 200ms}", "at most 300ms later"},
		"keys there": {"redis: {addrs: [\"192.0.2.1:6379\"]}\nauth: {redis: {}}", "503 auth_unavailable           keys are in this Redis"},
		"asked keys": {"auth: {introspection: {url: \"https://192.0.2.1/x\"}, cache_ttl: 0s}", "503 auth_unavailable           ttl is 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".yaml")
			writeFile(t, file, tc.yaml+"\n"+base)
			commandSays(t, 0, tc.says, "check", "--failures", "-c", file)
			commandSays(t, 0, `"part":"legacy system","state":"slow","node_knows":"list"`, "check", "--failures", "--json", "-c", file)
		})
	}
}

// stricter is what a caller gets while two parts fail: the later outcome of the two.
func stricter(rows []failure, knows string, parts map[string]string) (worst outcome, declared bool) {
	for _, row := range rows {
		if row.Knows == knows && parts[row.Part] == row.State {
			worst, declared = max(worst, row.outcome), true
		}
	}
	return worst, declared
}
