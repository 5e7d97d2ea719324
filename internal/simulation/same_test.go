package simulation

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/testkit/redistest"
)

// TestRedisAsTheRealOne sends the commands and scripts that the gateway uses to the
// model and to a real server, and compares what the client makes of the answers.
func TestRedisAsTheRealOne(t *testing.T) {
	real := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer real.Close()
	network := newNetwork(1)
	server := newRedisServer(time.Now, rngOf(1, "redis"))
	l := network.listen("redis", redisAddress)
	server.serve(l)
	model := redis.NewClient(&redis.Options{Addr: redisAddress, Dialer: func(ctx context.Context, n, a string) (net.Conn, error) {
		return network.dialer("test")(ctx, n, a)
	}})
	defer func() {
		_ = model.Close()
		_ = l.Close()
		server.disconnect()
		server.wg.Wait()
	}()
	got, want := transcript(t, model), transcript(t, real)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the model answers %s\nthe server answers %s", got[i], want[i])
		}
	}
}

// transcript is what a server answers to each command.
func transcript(t *testing.T, c *redis.Client) (lines []string) {
	ctx := t.Context()
	note := func(what string, v any, err error) {
		text := "nil"
		if err != nil && !errors.Is(err, redis.Nil) {
			text, _, _ = strings.Cut(err.Error(), " Script") // how a server names a script is its own
			text, _, _ = strings.Cut(text, " script:")
		}
		lines = append(lines, fmt.Sprintf("%s: %#v, error %s", what, v, text))
	}
	do := func(args ...any) {
		v, err := c.Do(ctx, args...).Result()
		note(fmt.Sprint(args...), v, err)
	}
	for _, line := range []string{
		"SET a 1", "GET a", "GET none", "SET a 2 NX", "SET b 1 PX 60000 NX", "SET b 1 EX 60", "SET b 1 PX 0", "SET b 1 PX x", "SET a 1 WHAT",
		"EXISTS a", "EXISTS none", "GETRANGE a 0 100", "GETRANGE none 0 5", "SET long abcdef", "GETRANGE long 1 3", "GETRANGE long 4 9",
		"INCR n", "INCR n", "INCR long", "DEL a none", "DEL a", "PEXPIRE n 60000", "PEXPIRE none 60000",
		"HSET h f v g w", "HSET h f x", "HGET h f", "HGET h none", "HGET none f", "HGET long f", "GET h", "PUBLISH nobody m",
		"XADD x MAXLEN ~ 64 5-1 b m1", "XADD x MAXLEN ~ 64 5-2 b m2", "XADD x MAXLEN ~ 64 5-2 b m3", "XADD x MAXLEN ~ 64 7-0 b m4", "XRANGE x (5-1 + COUNT 9", "XRANGE x (5-1 + COUNT 1",
		"XRANGE none (0-1 + COUNT 9", "XRANGE x (7-0 + COUNT 9", "GET x", "WAIT 0 1", "GET",
	} {
		args := []any{}
		for _, word := range strings.Fields(line) {
			args = append(args, word)
		}
		do(args...)
	}
	scripted(c, note)
	lines = append(lines, subscription(t, c)...)
	do("FLUSHALL")
	do("GET", "long")
	return lines
}

// scripted are scripts such as the gateway has, and the one that takes tokens.
func scripted(c *redis.Client, note func(string, any, error)) {
	ctx := context.Background()
	for _, s := range []struct {
		text string
		keys []string
		args []any
	}{
		{"return redis.call('GET', KEYS[1])", []string{"none"}, nil},
		{"if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end redis.call('PUBLISH', ARGV[2], ARGV[3]) return 0", []string{"long"}, []any{"other", "ch", "m"}},
		{"local e = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, tonumber(ARGV[2])) e = string.format('%.0f', e) redis.call('SET', KEYS[1], e, 'PX', ARGV[1]) return e", []string{"epoch"}, []any{60000, 1700000000123456}},
		{"if redis.call('EXISTS', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end redis.call('HSET', KEYS[1], unpack(ARGV, 2)) return 1", []string{"h2"}, []any{0, "a", "1", "b", "2"}},
		{"return {1, 'two', 3.9, false, 5}", nil, nil},
		{"return redis.call('SET', KEYS[1], 'v')", []string{"x"}, nil},
		{"return redis.call('HGET', KEYS[1], 'f')", []string{"x2"}, nil},
		{"return {redis.call('PEXPIRE', KEYS[1], ARGV[1]), true, #redis.call('TIME')}", []string{"x"}, []any{60000}},
		{"return redis.call('GET', KEYS[1])", []string{"h2"}, nil},
		{"return nosuchfunction()", nil, nil},
		{"this is no script", nil, nil},
	} {
		v, err := redis.NewScript(s.text).Run(ctx, c, s.keys, s.args...).Result()
		if err != nil && !strings.HasPrefix(err.Error(), "WRONGTYPE") && !errors.Is(err, redis.Nil) {
			err = errors.New("ERR") // the texts of the two interpreters differ
		}
		note(s.text, v, err)
	}
	b := quota.Bucket{Key: "account", Every: 20 * time.Minute, Burst: time.Hour, Low: 30 * time.Minute, Full: true}
	for _, need := range []int{1, 0, 5, 1} {
		taken, err := quota.Take(ctx, c, b, need, 2, quota.Spenders{})
		note("tokens", [2]any{taken.Tokens, taken.Level.Round(time.Minute)}, err)
	}
}

// subscription is what a subscriber hears.
func subscription(t *testing.T, c *redis.Client) (lines []string) {
	sub := c.Subscribe(t.Context(), "one", "two")
	defer sub.Close()
	hear := func() {
		m, err := sub.ReceiveTimeout(t.Context(), 5*time.Second)
		lines = append(lines, fmt.Sprintf("%T %v, error %v", m, m, err))
	}
	hear()
	hear()
	for _, channel := range []string{"one", "none", "two"} {
		n, err := c.Publish(t.Context(), channel, "hello "+channel).Result()
		lines = append(lines, fmt.Sprint(n, err))
	}
	hear()
	hear()
	return lines
}
