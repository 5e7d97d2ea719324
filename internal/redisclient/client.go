// Package redisclient opens the Redis client that all parts of the program share: cache, API keys,
// rate limits and the fleet's ceiling. A Redis in trouble must not delay requests, so each call has
// a short timeout, and a circuit breaker in front of each server fails calls at once while that
// server is unavailable.
//
// A nil *Client stands for "no Redis"; [Client.Commands] turns it into a nil redis.Cmdable.
//   - Run single commands and pipelines as with go-redis, with a context of [Client.Bounded].
//   - Run Lua scripts with [Client.Run], which is bounded already. All keys of one call must share
//     a slot (the same {hash tag}).
//   - Treat every error but redis.Nil as "Redis did not answer". It has been counted, and logged
//     where that helps. [IsRetryable] tells whether a write may succeed soon; [Retry] repeats it.
//
// Scripts get the time by redis.call('TIME').
package redisclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"inquiry-gateway/internal/setting"
)

const (
	dialTimeout   = 150 * time.Millisecond // TLS handshake included; the call itself may end earlier
	poolWait      = 80 * time.Millisecond
	poolSize      = 64
	slotsReload   = time.Second           // of a Cluster, when a call finds that a slot has moved or a node is gone
	retryInterval = 50 * time.Millisecond // of Retry
)

// Silence drops the log lines that go-redis would print on standard error, in the whole process: metrics, logs and commands
// report errors themselves.
func Silence() { redis.SetLogger(silent{}) }

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// Client is a client of one server, of the master that sentinels name, or of a Cluster, with a
// circuit breaker for each server. It is safe for concurrent use. Its commands are those of go-redis.
type Client struct {
	redis.Cmdable

	client    redis.UniversalClient // the same
	timeout   time.Duration         // of one call
	metrics   *metrics
	log       *slog.Logger
	deniedLog sync.Once // a missing permission is logged once
	lastError atomic.Pointer[callError]

	mu      sync.Mutex
	servers []weak.Pointer[server] // go-redis drops the clients of servers that have left a Cluster
}

type callError struct {
	at  time.Time
	err error
}

// LastError returns the newest error of a call that reached out to Redis; nil: there was none.
func (c *Client) LastError() (at time.Time, err error) {
	if e := c.lastError.Load(); e != nil {
		return e.at, e.err
	}
	return time.Time{}, nil
}

// Dial opens a connection, as [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// Options are what a client is given besides its configuration; all may be zero.
type Options struct {
	Registerer prometheus.Registerer // nil: no metrics
	Logger     *slog.Logger
	Dial       Dial // opens the connections, without TLS; nil: go-redis does
	SendOnce   bool // no command is retried: for writes that must not be done twice
}

// Open returns a client for the section. Redis does not need to be up. Without addresses
// both results are nil.
func Open(c Config, o Options) (*Client, error) {
	if err := c.Validate(); err != nil || len(c.Addrs) == 0 {
		return nil, err
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	options := optionsOf(c)
	if o.Dial != nil {
		options.Dialer = o.Dial
	}
	if o.SendOnce {
		options.MaxRetries = -1
	}
	client := &Client{timeout: c.Timeout, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	client.metrics = newMetrics(o.Registerer, func() float64 { return float64(client.worstState()) })
	switch c.mode() {
	case modeCluster:
		cluster := options.Cluster()
		cluster.ClusterStateReloadInterval = slotsReload
		rdb := redis.NewClusterClient(cluster)
		rdb.OnNewNode(client.addServer)
		client.client = rdb
	case modeSentinel:
		client.client = redis.NewFailoverClient(options.Failover())
	default:
		client.client = redis.NewClient(options.Simple())
	}
	client.client.AddHook(callHook{client.measured})
	if one, ok := client.client.(*redis.Client); ok {
		client.addServer(one) // after measured, which counts skipped calls, too
	}
	client.Cmdable = client.client
	return client, nil
}

// optionsOf is a function so that Config does not expose go-redis' types.
func optionsOf(c Config) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.mode() == modeCluster,
		Username: cmp.Or(c.UsernameFile.Secret(), c.Username), Password: c.PasswordFile.Secret(),
		SentinelUsername:      c.SentinelUsername,
		SentinelPassword:      c.SentinelPasswordFile.Secret(),
		TLSConfig:             c.TLS.config(&setting.Problems{}), // Validate has reported the problems
		ContextTimeoutEnabled: true,
		DialTimeout:           max(dialTimeout, c.Timeout), ReadTimeout: c.Timeout, WriteTimeout: c.Timeout,
		PoolTimeout: poolWait, PoolSize: poolSize, MaxActiveConns: poolSize,
		MaxRetries:      3, // a retry costs nothing where a pooled connection turns out to be dead
		DialerRetries:   1,
		MinRetryBackoff: -1, MaxRetryBackoff: -1,
		MaxRedirects:             2, // a slot that has moved, and a master that has changed
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Close closes all connections.
func (c *Client) Close() error { return c.client.Close() }

// Commands returns the client as a redis.Cmdable, and nil for a nil client.
func (c *Client) Commands() redis.Cmdable {
	if c == nil {
		return nil
	}
	return c
}

// CallTimeout is redis.timeout: how long one call may take.
func (c *Client) CallTimeout() time.Duration { return c.timeout }

// Bounded returns a context that ends after CallTimeout.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Run runs a script within CallTimeout, in one round trip once Redis has the script.
func (c *Client) Run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	return script.Run(ctx, c.Cmdable, keys, args...)
}

// Retry repeats an idempotent write until it succeeds, fails with an error that a retry cannot
// cure, or ctx ends. It returns the last error of the write.
func Retry(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !IsRetryable(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryInterval):
		}
	}
}

// isDenied tells whether Redis refused a call because its user lacks a permission.
func isDenied(err error) bool {
	return redis.IsPermissionError(err) || err != nil && strings.Contains(err.Error(), "can't run this command") // the latter: in a script
}

// isUnavailable tells a server that cannot serve from one that answered, possibly with an error
// about this one command.
func isUnavailable(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	if _, answered := errors.AsType[redis.Error](err); !answered {
		return true
	}
	return redis.IsLoadingError(err) || redis.IsClusterDownError(err) || redis.IsMasterDownError(err) || redis.IsAuthError(err)
}

// IsRetryable tells whether a write may succeed soon: Redis is unavailable, or another server is
// about to take over.
func IsRetryable(err error) bool {
	_, moved := redis.IsMovedError(err)
	_, ask := redis.IsAskError(err)
	return isUnavailable(err) || moved || ask ||
		redis.IsReadOnlyError(err) || redis.IsTryAgainError(err) || redis.IsNoReplicasError(err)
}

// ResultOf is the result of a call, as in metrics and spans: ok, skipped (its breaker is open),
// canceled, timeout or error.
func ResultOf(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil), redis.HasErrorPrefix(err, "NOSCRIPT"): // Run sends the script's text next
		return "ok"
	case errors.Is(err, errSkipped):
		return "skipped"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	return "error"
}

// URL is what a URL of a Redis says.
type URL struct {
	Addr, Username, Password string
	TLS                      bool
}

// ParseURL reads redis://[user:password@]host:port, and rediss:// likewise. It refuses a database
// number: installations share a Redis by their prefix. No error quotes the URL, which may hold a password.
func ParseURL(text string) (URL, error) {
	o, err := redis.ParseURL(text)
	problem := "cannot be read"
	if err == nil && o.DB != 0 {
		problem = "names a database, and the gateway uses database 0 only"
	}
	if err != nil || o.DB != 0 {
		return URL{}, fmt.Errorf("REDIS_URL %s; write it as redis://[user:password@]host:port, with %%2F for / in a password", problem)
	}
	return URL{o.Addr, o.Username, o.Password, o.TLSConfig != nil}, nil
}
