package app

import (
	"context"
	"time"
)

const (
	// labChannel is where the TTL labs of a fleet tell each other what is looked up; in
	// the channel's name comes the prefix first.
	labChannel = ":2:lab"
	// publishWithin bounds one message. One that is lost is missing in the figures.
	publishWithin = 500 * time.Millisecond
)

// shareLab has the TTL labs of the nodes that share Redis see the look-ups of all,
// until ctx ends. Redis gets hashes of lists, and their moments.
func (a *App) shareLab(ctx context.Context) {
	if a.redis == nil {
		return
	}
	channel := a.current.Load().cfg.Redis.Prefix + labChannel // its change needs a restart
	messages := make(chan []byte)
	go func() {
		defer close(messages)
		a.redis.Listen(ctx, func(_, payload string) {
			select {
			case messages <- []byte(payload):
			case <-ctx.Done():
			}
		}, func(bool) {}, channel)
	}()
	a.lab.Share(ctx, func(ctx context.Context, message []byte) {
		ctx, cancel := context.WithTimeout(ctx, publishWithin)
		defer cancel()
		_ = a.redis.Publish(ctx, channel, message).Err() // counted by the client; the next second has another
	}, messages, a.catcher("lab"))
}
