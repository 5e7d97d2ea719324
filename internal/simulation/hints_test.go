package simulation

import (
	"context"
	"fmt"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/redisclient"
	"inquiry-gateway/internal/testkit/redisfake"
)

// A thousand hints take Redis longer than one call may take. All are marked all the same, and
// Redis does not count as away for what else there is to ask.
func TestAThousandHintsAndAShortTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond} {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v, hard %t", timeout, hard), func(t *testing.T) {
				cryptotest.SetGlobalRandom(t, 1)
				synctest.Test(t, func(t *testing.T) { aThousandHints(t, timeout, hard) })
			})
		}
	}
}

func aThousandHints(t *testing.T, timeout time.Duration, hard bool) {
	net := newNetwork(1)
	server := redisfake.New(time.Now, rngOf(1, "redis"))
	listener := net.listen("redis", redisAddress)
	server.Serve(listener)
	config := redisclient.DefaultConfig()
	config.Addrs, config.Timeout = []string{redisAddress}, timeout
	rdb, err := redisclient.Open(config, redisclient.Options{Dial: net.dialer("n0")})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := cache.New(cache.DefaultConfig(), cache.Options{Redis: rdb, Prefix: "iq", Fill: func(context.Context, cache.Key, cache.FillInfo) (cache.Content, error) {
		return cache.Content{Body: []byte("{}")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = lists.Close(context.Background())
		_ = rdb.Close()
		_ = listener.Close()
		server.Disconnect()
		server.Wait()
	}()
	time.Sleep(time.Second) // it listens
	server.With(func() { server.Slow = timeout / 100 })
	hint := cache.Hint{Hard: hard}
	for i := range cache.MaxHintIDs {
		hint.Accounts = append(hint.Accounts, fmt.Sprint("account-", i))
	}
	if marked, err := lists.Changed(t.Context(), hint); marked != cache.MaxHintIDs || err != nil {
		t.Errorf("%d are marked, %v", marked, err)
	}
	if state := lists.RedisState(); state != "ok" {
		t.Errorf("Redis is %s", state)
	}
}
