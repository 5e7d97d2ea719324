// Package redisclient opens the one client of Redis that all parts of the program share:
// cache, keys, rate and ceiling. It is tuned to fail fast, so that a Redis in trouble costs
// requests nothing: each call has a short deadline, nothing is repeated, and behind the
// breaker of a node that does not answer no call waits at all. One prober per process tries
// whether such a node is back.
//
// A caller keeps a *Client; nil stands for "no Redis" (give who wants a redis.Cmdable
// [Client.Commands], never a nil pointer in it). It
//   - runs single commands and pipelines as with go-redis, in a context of [Client.Bounded];
//   - runs Lua by [Client.Run], which is bounded already and loads the script where it is
//     not known; all keys of one call must share a slot (the same {hash tag});
//   - takes each error as "Redis said nothing": redis.Nil is an answer, everything else is
//     counted and logged here. [Passing] tells whether a write is worth another try, which
//     [Retry] does;
//   - calls with a context of [Probing] only from a goroutine of its own that asks all the
//     time anyway, never for a request that somebody waits for.
//
// Messages come by [Client.Listen]. Scripts get the time by redis.call('TIME').
package redisclient

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"inquiry-gateway/internal/setting"
)

const (
	dialTimeout = 150 * time.Millisecond // TLS included; the call itself gives up earlier
	poolWait    = 80 * time.Millisecond
	poolSize    = 64
	retryEvery  = 50 * time.Millisecond // between two tries of Retry
	pingEvery   = time.Second           // a connection that only listens
	listenAgain = 100 * time.Millisecond
)

// Client is a client of one server, of sentinels' master or of a Cluster, with a breaker for
// each node. It is safe for concurrent use. Its commands are those of go-redis.
type Client struct {
	redis.Cmdable // the hooks see every command

	client  redis.UniversalClient // the same
	timeout time.Duration         // of one call
	probed  string                // the key that the prober asks for
	metrics *metrics
	log     *slog.Logger
	denied  sync.Once // a missing permission is logged
	failed  atomic.Pointer[failure]

	trouble chan struct{} // capacity 1: a call found a node that cannot serve
	closing chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

	mu    sync.Mutex
	nodes map[*node]struct{}
}

// failure is an error of a call.
type failure struct {
	at  time.Time
	err error
}

// LastError is the newest error of a call that was made; nil: there was none.
func (c *Client) LastError() (at time.Time, err error) {
	if f := c.failed.Load(); f != nil {
		return f.at, f.err
	}
	return time.Time{}, nil
}

// Options are what a client is given besides its configuration; all may be zero.
type Options struct {
	Registerer prometheus.Registerer // nil: no metrics
	Logger     *slog.Logger
	Dial       Dial // opens the connections; nil: a [net.Dialer] does
}

// Open returns a client for the section. Redis does not need to be up. Without addresses
// both results are nil. Close ends everything that the client started.
func Open(c Config, o Options) (*Client, error) {
	if err := c.Validate(); err != nil || len(c.Addrs) == 0 {
		return nil, err
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	own := optionsOf(c)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: own.DialTimeout}).DialContext
	}
	if own.TLSConfig != nil {
		o.Dial = o.Dial.overTLS(own.TLSConfig)
	}
	own.Dialer = o.Dial
	rdb := redis.NewUniversalClient(own)
	client := &Client{
		Cmdable: rdb, client: rdb, timeout: c.Timeout, probed: c.KeyPrefix() + ":probe",
		log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), nodes: map[*node]struct{}{},
		trouble: make(chan struct{}, 1), closing: make(chan struct{}),
	}
	client.metrics = newMetrics(o.Registerer, func() float64 { return float64(client.state()) })
	rdb.AddHook(measure{client})
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		rdb.OnNewNode(client.add) // each gets its breaker when the client finds it
	case *redis.Client:
		client.add(rdb)
	}
	client.wg.Go(client.tend)
	return client, nil
}

// optionsOf is no method: whatever has a Config would know the client's types.
func optionsOf(c Config) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.mode() == modeCluster,
		Username: cmp.Or(c.UsernameFile.Secret(), c.Username), Password: c.PasswordFile.Secret(),
		SentinelUsername:      c.SentinelUsername,
		SentinelPassword:      c.SentinelPasswordFile.Secret(),
		TLSConfig:             c.TLS.config(&setting.Problems{}), // Validate has told them
		ContextTimeoutEnabled: true,
		DialTimeout:           max(dialTimeout, c.Timeout), ReadTimeout: c.Timeout, WriteTimeout: c.Timeout,
		PoolTimeout: poolWait, PoolSize: poolSize, MaxActiveConns: poolSize,
		MaxRetries: -1, DialerRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		MaxRedirects:             2, // a slot that has moved, and a master that has changed
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// Close ends the prober and the client.
func (c *Client) Close() error {
	c.once.Do(func() { close(c.closing) })
	c.wg.Wait()
	return c.client.Close()
}

// Commands is the client for who takes a redis.Cmdable; a nil client is a nil one.
func (c *Client) Commands() redis.Cmdable {
	if c == nil {
		return nil
	}
	return c
}

// Subscribe is for who follows messages on his own; [Client.Listen] says more of the connection.
func (c *Client) Subscribe(ctx context.Context, channels ...string) *redis.PubSub {
	return c.client.Subscribe(ctx, channels...)
}

// CallTimeout is redis.timeout: how long one call may take.
func (c *Client) CallTimeout() time.Duration { return c.timeout }

// Bounded gives a call of Redis the time that it may take.
func (c *Client) Bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.timeout)
}

// Run runs a script within CallTimeout, in one round trip where Redis knows it already.
func (c *Client) Run(ctx context.Context, script *redis.Script, keys []string, args ...any) *redis.Cmd {
	ctx, cancel := c.Bounded(ctx)
	defer cancel()
	return script.Run(ctx, c.Cmdable, keys, args...)
}

// Retry repeats a write that may be done twice, until it works, fails for good or ctx
// ends. It returns the last error of the write. A fail-over takes seconds, and a purge
// must outlast it.
func Retry(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !Passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryEvery):
		}
	}
}

// Listen calls hear for each message of the channels until ctx ends, and connected with
// true whenever the channels are subscribed to, and false when the connection was lost:
// messages between the two are lost. Both are called by Listen's own goroutine. A
// connection that breaks without a word is found out within two seconds.
func (c *Client) Listen(ctx context.Context, hear func(channel, payload string), connected func(bool), channels ...string) {
	for ctx.Err() == nil {
		sub := c.client.Subscribe(ctx, channels...)
		stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
		for asked := false; ; {
			m, err := sub.ReceiveTimeout(ctx, pingEvery)
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() && !asked { // no message for a while
				asked, err = true, sub.Ping(ctx)
			} else if err == nil {
				asked = false
			}
			if err != nil {
				break
			}
			switch m := m.(type) {
			case *redis.Subscription:
				if m.Count == len(channels) {
					connected(true)
				}
			case *redis.Message:
				hear(m.Channel, m.Payload)
			}
		}
		stop()
		_ = sub.Close()
		connected(false)
		select {
		case <-ctx.Done():
		case <-time.After(listenAgain):
		}
	}
}

// Dial opens a connection, as [net.Dialer.DialContext] does.
type Dial func(ctx context.Context, network, addr string) (net.Conn, error)

// overTLS does the handshake here and not in go-redis, so that the deadline of the dial
// bounds it, too.
func (d Dial) overTLS(config *tls.Config) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := d(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		own := config.Clone()
		own.ServerName, _, _ = net.SplitHostPort(addr) // go-redis gives no other addresses
		conn := tls.Client(raw, own)
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return conn, nil
	}
}

// brokenConn is a connection that did not come about. Only what is here is ever called.
type brokenConn struct {
	net.Conn
	err error
}

func (c brokenConn) Read([]byte) (int, error)         { return 0, c.err }
func (c brokenConn) Write([]byte) (int, error)        { return 0, c.err }
func (c brokenConn) Close() error                     { return nil }
func (c brokenConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c brokenConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c brokenConn) SetDeadline(time.Time) error      { return nil }
func (c brokenConn) SetReadDeadline(time.Time) error  { return nil }
func (c brokenConn) SetWriteDeadline(time.Time) error { return nil }

// SyscallConn has go-redis throw it away where its call has given up before it came: it stays in
// the pool else, and fails one long after.
func (c brokenConn) SyscallConn() (syscall.RawConn, error) { return nil, c.err }

// pooledConn is a connection that go-redis keeps. go-redis looks at the socket of an idle one
// before it uses it, but not through TLS, and a server that died without a word shows nothing
// there. So where one connection turns out to be broken, those from before are not used again:
// each would fail one call.
type pooledConn struct {
	net.Conn
	node   *node
	opened time.Time
}

// SyscallConn gives the socket, or an error for a connection that is not to be used again.
func (c pooledConn) SyscallConn() (syscall.RawConn, error) {
	if lost := c.node.lost.Load(); lost != nil && c.opened.Before(*lost) {
		return nil, net.ErrClosed
	}
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return unseen{}, nil
}

// unseen is a socket that nothing can be seen of.
type unseen struct{ syscall.RawConn }

func (unseen) Read(func(fd uintptr) bool) error { return nil }

var errSkipped = errors.New("redis is skipped: its breaker is open")

// denied tells whether Redis refused for want of a permission.
func denied(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && (strings.HasPrefix(reply.Error(), "NOPERM") || strings.Contains(reply.Error(), "can't run this command"))
}

// outage tells a Redis that cannot serve from one that answered, be it with an error about
// this one command.
func outage(err error) bool {
	if err == nil || errors.Is(err, redis.Nil) {
		return false
	}
	reply, ok := errors.AsType[redis.Error](err)
	return !ok || begins(reply, "LOADING", "CLUSTERDOWN", "MASTERDOWN", "WRONGPASS", "NOAUTH", "ERR invalid password")
}

// Passing tells whether a write may work soon: Redis is away, or another server is about to
// take it.
func Passing(err error) bool {
	return outage(err) || begins(err, "READONLY", "MOVED", "ASK", "TRYAGAIN", "NOREPLICAS")
}

// begins tells whether an error of Redis has one of these codes.
func begins(err error, codes ...string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return strings.HasPrefix(err.Error(), code) })
}

// ResultOf is the word for how a call ended, as in metrics and spans: ok, skipped (the
// breaker kept it away), canceled, timeout or error.
func ResultOf(err error) string {
	var timeout net.Error
	switch {
	case err == nil, errors.Is(err, redis.Nil), begins(err, "NOSCRIPT"): // the last: Run sends the text then
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

// ParseURL reads redis://[user:password@]host:port, and rediss:// likewise. Installations share
// a Redis by their prefix, so that it has no number of a database.
func ParseURL(text string) (URL, error) {
	o, err := redis.ParseURL(text)
	what := "cannot be read" // err quotes the URL, whose password may be anywhere in it
	if err == nil && o.DB != 0 {
		what = "names a database, and the gateway uses database 0 only"
	}
	if err != nil || o.DB != 0 {
		return URL{}, fmt.Errorf("REDIS_URL %s; write it as redis://[user:password@]host:port, with %%2F for / in a password", what)
	}
	return URL{o.Addr, o.Username, o.Password, o.TLSConfig != nil}, nil
}
