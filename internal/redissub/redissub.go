// Package redissub hears channels of Redis, and opens clients for URLs.
//
// Parts hold their client of Redis as a redis.Cmdable and subscribe here, so that
// none of their types leads to a client's own struct: a package in which one does
// compiles 1,500 methods for it, for two seconds.
package redissub

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a client that its owner closes. Every client of go-redis is one.
type Client interface {
	redis.Cmdable
	Close() error
}

// URL is what a URL of a Redis says.
type URL struct {
	Network, Addr, Username, Password string
	DB                                int
	TLS                               bool
}

// ParseURL reads redis://[user:password@]host:port[/db], and rediss:// likewise.
func ParseURL(text string) (URL, error) {
	o, err := redis.ParseURL(text)
	if err != nil {
		return URL{}, fmt.Errorf("REDIS_URL: %w; write it as redis://[user:password@]host:port[/db]", err)
	}
	return URL{o.Network, o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil}, nil
}

// Open makes a client that tries nothing twice. It does not speak TLS.
func (u URL) Open() Client {
	return redis.NewClient(&redis.Options{Network: u.Network, Addr: u.Addr, Username: u.Username, Password: u.Password, DB: u.DB,
		DisableIdentity: true, MaxRetries: -1, DialerRetries: 1})
}

// Messages hears the channels. It gives a *redis.Subscription each time when a
// channel is subscribed to, on a new connection, too, and a *redis.Message for each
// message. The connection is tested each ping; 0: every 3 seconds. stop ends it and
// closes the channel. rdb must be a client, and no pipeline.
func Messages(ctx context.Context, rdb redis.Cmdable, ping time.Duration, channels ...string) (messages <-chan any, stop func() error) {
	var options []redis.ChannelOption
	if ping > 0 {
		options = append(options, redis.WithChannelHealthCheckInterval(ping))
	}
	sub := rdb.(interface {
		Subscribe(ctx context.Context, channels ...string) *redis.PubSub
	}).Subscribe(ctx, channels...)
	return sub.ChannelWithSubscriptions(options...), sub.Close
}

// Each calls hear with each of what [Messages] gives until ctx ends.
func Each(ctx context.Context, rdb redis.Cmdable, hear func(message any), channels ...string) {
	messages, stop := Messages(ctx, rdb, 0, channels...)
	defer func() { _ = stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages:
			if !ok {
				return
			}
			hear(m)
		}
	}
}
