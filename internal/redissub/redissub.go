// Package redissub hears channels of Redis.
//
// Parts hold their client of Redis as a redis.Cmdable and subscribe here, so that
// none of their types leads to a client's own struct: a package in which one does
// compiles 1,500 methods for it, for two seconds.
package redissub

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client is a client that its owner closes. Every client of go-redis is one.
type Client interface {
	redis.Cmdable
	Close() error
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
