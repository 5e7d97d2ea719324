package redistier

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"inquiry-gateway/internal/invalid"
	"inquiry-gateway/internal/redissub"
)

const (
	dialTimeout = 150 * time.Millisecond // TLS included; the call itself gives up earlier
	poolWait    = 80 * time.Millisecond
	poolSize    = 64
)

// Open returns a client for the section, tuned to fail fast: every call is
// bounded, nothing is retried, and a breaker skips a Redis that does not
// answer. Redis does not need to be up. Without addresses both results are nil.
// The client's Close ends everything that it started. dial opens the connections;
// nil: a [net.Dialer] does.
func Open(c Config, reg prometheus.Registerer, log *slog.Logger, dial Dial) (redissub.Client, error) {
	if err := c.Validate(); err != nil || len(c.Addrs) == 0 {
		return nil, err
	}
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Prefix = cmp.Or(c.Prefix, defaultPrefix)
	o := optionsOf(c)
	if dial == nil {
		dial = (&net.Dialer{Timeout: o.DialTimeout}).DialContext
	}
	if o.TLSConfig != nil {
		dial = dial.overTLS(o.TLSConfig)
	}
	o.Dialer = dial.unfailing(o.DialTimeout)
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	return guard(redis.NewUniversalClient(o), c, reg, log), nil
}

// optionsOf is no method: whatever has a Config would know the client's types.
func optionsOf(c Config) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs: c.Addrs, DB: c.DB, MasterName: c.MasterName, IsClusterMode: c.mode() == modeCluster,
		Username: cmp.Or(c.UsernameFile.Secret(), c.Username), Password: c.PasswordFile.Secret(),
		SentinelUsername:      c.SentinelUsername,
		SentinelPassword:      c.SentinelPasswordFile.Secret(),
		TLSConfig:             c.TLS.config(&invalid.Problems{}), // Validate has told them
		ContextTimeoutEnabled: true,
		DialTimeout:           max(dialTimeout, c.Timeout), ReadTimeout: c.Timeout, WriteTimeout: c.Timeout,
		PoolTimeout: poolWait, PoolSize: poolSize, MaxActiveConns: poolSize,
		MaxRetries: -1, DialerRetries: 1, MinRetryBackoff: -1, MaxRetryBackoff: -1,
		MaxRedirects:             2, // a slot that has moved, and a master that has changed
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// config is nil without TLS.
func (t TLS) config(p *invalid.Problems) *tls.Config {
	if t == (TLS{}) {
		return nil
	}
	c := t.Files.Config("tls", p)
	c.ServerName = t.ServerName
	return c
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
		if own.ServerName == "" {
			own.ServerName, _, _ = net.SplitHostPort(addr) // go-redis gives no other addresses
		}
		c := tls.Client(raw, own)
		if err := c.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return c, nil
	}
}

// unfailing connects for go-redis. It never fails: where there is no connection it returns one on which every call fails.
// go-redis counts failed dials, and after as many as its pool is large it tries
// no more than once a second; a node whose Redis is back must not wait for
// that.
func (d Dial) unfailing(timeout time.Duration) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return orBroken(d(ctx, network, addr))
	}
}

// orBroken makes a connection of a failure to connect.
func orBroken(c net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return brokenConn{err}, nil
	}
	return c, nil
}

// brokenConn is a connection that did not come about.
type brokenConn struct{ err error }

func (c brokenConn) Read([]byte) (int, error)         { return 0, c.err }
func (c brokenConn) Write([]byte) (int, error)        { return 0, c.err }
func (c brokenConn) Close() error                     { return nil }
func (c brokenConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c brokenConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c brokenConn) SetDeadline(time.Time) error      { return nil }
func (c brokenConn) SetReadDeadline(time.Time) error  { return nil }
func (c brokenConn) SetWriteDeadline(time.Time) error { return nil }
