package simulation

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/quota"
	"inquiry-gateway/internal/testkit/redismodel"
	"inquiry-gateway/internal/testkit/redistest"
)

//go:embed testdata/redis.txt
var conversation string

// TestRedisAsTheRealOne sends the forms of commands and scripts that the gateway uses to the
// model and to a real server, and compares what the client makes of the answers. What the
// model gets wrong, every seed would believe.
func TestRedisAsTheRealOne(t *testing.T) {
	real := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr})
	defer real.Close()
	network, server := newNetwork(1), redismodel.New(time.Now, rngOf(1, "redis"))
	l := network.listen("redis", redisAddress)
	server.Serve(l)
	model := redis.NewClient(&redis.Options{Addr: redisAddress, Dialer: network.dialer("test")})
	defer func() {
		_ = model.Close()
		_ = l.Close()
		server.Disconnect()
		server.Wait()
	}()
	got, want := transcript(t.Context(), model), transcript(t.Context(), real)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the model answers %s\nthe server answers %s", got[i], want[i])
		}
	}
}

// transcript is what a server answers: to the commands, to a script that takes tokens, and to
// a subscriber.
func transcript(ctx context.Context, c *redis.Client) (lines []string) {
	note := func(what string, v any, err error) {
		text := "nil"
		if err != nil && !errors.Is(err, redis.Nil) {
			text, _, _ = strings.Cut(err.Error(), " ") // only the code is not the interpreter's
		}
		lines = append(lines, fmt.Sprintf("%s: %#v, error %s", what, v, text))
	}
	for line := range strings.Lines(conversation) {
		var args []any
		command, script, isScript := strings.Cut(strings.TrimSpace(line), " | ")
		for word := range strings.FieldsSeq(command) {
			args = append(args, word)
		}
		if isScript {
			args = append([]any{args[0], script}, args[1:]...)
		}
		v, err := c.Do(ctx, args...).Result()
		note(line, v, err)
	}
	b := quota.Bucket{Key: "account", Every: 20 * time.Minute, Burst: time.Hour, Low: 30 * time.Minute}
	for _, need := range []int{1, 0, 5, 1} {
		taken, err := quota.Take(ctx, c, b, need, 2, quota.Spenders{})
		note("tokens", [2]any{taken.Tokens, taken.Level.Round(time.Minute)}, err)
	}
	sub := c.Subscribe(ctx, "one", "two")
	defer sub.Close()
	receive := func() {
		m, err := sub.ReceiveTimeout(ctx, 5*time.Second)
		note("message", fmt.Sprint(m), err)
	}
	receive()
	receive()
	for _, channel := range []string{"one", "none", "two"} {
		n, err := c.Publish(ctx, channel, "hello "+channel).Result()
		note("publish", n, err)
	}
	receive()
	receive()
	return lines
}
