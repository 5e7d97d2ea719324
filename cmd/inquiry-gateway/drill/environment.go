package drill

import (
	"context"
	"errors"
	"fmt"
	"inquiry-gateway/internal/redisclient"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/upstream/legacy"
)

const (
	// keyLife is for how long keys and lists are known at the least, and drillLife
	// for how long they are of any use: a drill takes less.
	keyLife   = 5 * time.Minute
	drillLife = time.Hour
	// never is longer than anybody waits.
	never = time.Hour
	// relaxedTimeout is what a part that is well gets on a busy machine: its timeout is
	// not what is drilled then.
	relaxedTimeout = 2 * time.Second
	// grace is for what a gateway still does when it is stopped.
	grace = time.Second
)

// environment is what a gateway depends on, all of it the drill's own, and the gateway.
type environment struct {
	*run
	callers
	dir    string
	prefix string // of what is in Redis
	system *legacy.Server
	legacy *server
	redis  *proxy // nil: without Redis
	keys   keyStore
	config config.Config
	client *client

	gateway  Gateway
	baseline time.Duration // the least that a fetch took, everything being well
	found    string        // by a trial, beside the answers

	mu       sync.Mutex
	gateways []Gateway // all that were started
}

// close ends everything that the environment runs. What the gateways may still wait
// for ends before them.
func (e *environment) close(ctx context.Context) error {
	e.client.close()
	e.keys.close()
	if e.legacy != nil {
		e.legacy.close()
	}
	var errs []error
	for _, g := range e.gateways {
		errs = append(errs, g.Stop())
	}
	errs = append(errs, os.RemoveAll(e.dir))
	if e.redis != nil {
		e.redis.close()
		errs = append(errs, e.Store.clear(ctx, e.prefix))
	}
	return errors.Join(errs...)
}

// newEnvironment makes one where all is well, without a gateway yet, and the
// configuration of one. What of the settings is taken is named here; all else has its
// default. On an error, too, it must be closed.
func (r *run) newEnvironment(ctx context.Context, c Cell) (e *environment, err error) {
	e = &environment{
		run: r, prefix: fmt.Sprintf("%s-%d", r.prefix, r.environments.Add(1)), system: legacy.New(legacy.Options{Seed: 1, Inquiries: 300}),
		keys: keyStore{close: func() {}}, config: r.settings(), client: newClient(r.terms.requestLimit + soon),
	}
	if e.dir, err = os.MkdirTemp(r.Dir, "environment-"); err != nil {
		return e, err
	}
	if e.callers, err = newCallers(); err != nil {
		return e, err
	}
	if e.legacy, err = serve(e.system); err != nil {
		return e, err
	}
	e.config.Upstream.BaseURL = e.legacy.url()
	if err = e.addRedis(); err != nil {
		return e, err
	}
	if err = e.addKeys(ctx); err != nil {
		return e, err
	}
	e.relaxTimeouts(c)
	return e, nil
}

// relaxTimeouts gives time to the parts whose slowness is not drilled.
func (e *environment) relaxTimeouts(c Cell) {
	away := func(s State) bool { return s == Slow || s == Down }
	more := func(timeout *time.Duration, drilled bool) {
		if !drilled {
			*timeout = max(*timeout, relaxedTimeout)
		}
	}
	more(&e.config.Redis.Timeout, away(c.Redis))
	more(&e.config.Upstream.Timeout, c.Legacy == Slow) // down, it refuses connections at once
	e.config.Upstream.Timeout = min(e.config.Upstream.Timeout, e.config.RequestTimeout)
	if i := e.config.Auth.Introspection; i != nil {
		more(&i.Timeout, away(c.Keys))
	}
	if k := e.config.Auth.Redis; k != nil {
		more(&k.Timeout, away(c.Redis))
	}
}

// settings are those of the drilled configuration that decide its moments.
func (r *run) settings() config.Config {
	from, c := r.Config, config.Default()
	c.Listen, c.Ops.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.RequestTimeout, c.ShutdownGrace = from.RequestTimeout, grace
	c.Cache.Buyer, c.Cache.Jitter = from.Cache.Buyer, from.Cache.Jitter
	// A list has to be known when the trouble comes, however short its ttl is; and
	// with more of that the rest must not be more than a configuration may have.
	b := &c.Cache.Buyer
	b.TTL, b.ByStatus = max(b.TTL, keyLife), nil
	b.StaleWhileRevalidate, b.StaleIfError = min(b.StaleWhileRevalidate, drillLife), min(b.StaleIfError, drillLife)
	c.Upstream = r.mapping
	c.Upstream.Timeout, c.Upstream.Retry, c.Upstream.Breaker = from.Upstream.Timeout, from.Upstream.Retry, from.Upstream.Breaker
	return c
}

// addRedis puts the proxy between the gateway and the store, which other environments
// use at the same time under other prefixes.
func (e *environment) addRedis() (err error) {
	if !e.terms.redis {
		return nil
	}
	if e.redis, err = newProxy(e.Store.dial); err != nil {
		return err
	}
	c := redisclient.DefaultConfig()
	c.Addrs, c.Prefix, c.Timeout = []string{e.redis.addr()}, e.prefix, e.Config.Redis.Timeout
	c.Username, c.DB = e.Store.url.Username, e.Store.url.DB
	if e.Store.url.Password != "" {
		c.PasswordFile = secretfile.New("redis-password", e.Store.url.Password)
	}
	e.config.Redis = c
	return err
}

// addKeys keeps the keys where the drilled gateway keeps them. Keys in a Redis that
// cannot be drilled are in a file.
func (e *environment) addKeys(ctx context.Context) (err error) {
	switch from := e.Config.Auth; {
	case e.terms.keys == FromIntrospection:
		e.keys, err = inAuthServer(*from.Introspection, e.callers)
	case e.terms.keys == FromRedis && e.terms.redis:
		e.keys, err = inRedis(ctx, *from.Redis, e.Store, e.prefix, e.callers)
	default:
		e.keys, err = inFile(ctx, filepath.Join(e.dir, "keys.yaml"), e.callers)
	}
	e.config.Auth = e.keys.config
	return err
}

// inject puts the parts into the states of a cell, all at once and for good: no part of
// an environment gets well again.
func (e *environment) inject(ctx context.Context, c Cell) error {
	var errs []error
	switch c.Redis {
	case Slow:
		e.redis.stall()
	case Down:
		e.redis.end()
	case Garbage:
		errs = append(errs, e.Store.corrupt(ctx, e.prefix))
	}
	switch c.Legacy {
	case Slow:
		errs = append(errs, e.system.SetFault(legacy.Fault{Name: legacy.FaultDelay, Delay: never}))
	case Down:
		e.legacy.close()
	case Garbage:
		errs = append(errs, e.system.SetFault(legacy.Fault{Name: legacy.FaultHTML}))
	}
	if c.Keys != Up {
		errs = append(errs, e.keys.inject(c.Keys))
	}
	return errors.Join(errs...)
}

// server is an HTTP server on a free port of this machine.
type server struct {
	listener net.Listener
	http     *http.Server
	wg       sync.WaitGroup
}

// serve starts a server; close ends it.
func serve(h http.Handler) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &server{listener: l, http: &http.Server{Handler: h, ReadHeaderTimeout: soon, ErrorLog: log.New(io.Discard, "", 0)}}
	s.wg.Go(func() { _ = s.http.Serve(l) }) // it ends with close, which is no error
	return s, nil
}

// url is where the gateway finds the server.
func (s *server) url() string { return "http://" + s.listener.Addr().String() }

// close cuts all connections, and refuses new ones. It may be called twice.
func (s *server) close() {
	_ = s.http.Close() // of a listener that nobody needs any more
	s.wg.Wait()
}
