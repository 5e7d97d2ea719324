package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"inquiry-gateway/cache/redistier"
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

// environment is what a gateway depends on, all of it the drill's own.
type environment struct {
	dir     string
	prefix  string
	callers callers
	system  *legacy.Server
	legacy  *server
	store   *Store // nil: without Redis
	redis   *proxy
	keys    keyStore
	config  config.Config
}

// close ends everything that the environment runs.
func (w *environment) close(ctx context.Context) error {
	if w.keys.close != nil {
		w.keys.close()
	}
	if w.legacy != nil {
		w.legacy.close()
	}
	err := os.RemoveAll(w.dir)
	if w.redis != nil {
		w.redis.close()
		err = errors.Join(err, w.store.clear(ctx, w.prefix))
	}
	return err
}

// newEnvironment makes one where all is well, and the configuration of a gateway in
// it. What of the settings is taken is named here; all else has its default.
func (r *run) newEnvironment(ctx context.Context, c Cell) (w *environment, err error) {
	w = &environment{system: legacy.New(legacy.Options{Seed: 1, Inquiries: 300}), prefix: fmt.Sprintf("%s-%d", r.prefix, r.environments.Add(1))}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close(ctx))
		}
	}()
	if w.dir, err = os.MkdirTemp(r.Dir, "environment-"); err != nil {
		return w, err
	}
	if w.callers, err = newCallers(); err != nil {
		return w, err
	}
	if w.legacy, err = serve(w.system); err != nil {
		return w, err
	}
	w.config = r.settings()
	w.config.Upstream.BaseURL = w.legacy.url()
	if err = w.addRedis(r); err != nil {
		return w, err
	}
	if err = w.addKeys(ctx, r); err != nil {
		return w, err
	}
	w.relaxTimeouts(c)
	return w, nil
}

// relaxTimeouts gives time to the parts whose slowness is not drilled.
func (w *environment) relaxTimeouts(c Cell) {
	away := func(s State) bool { return s == Slow || s == Down }
	more := func(timeout *time.Duration, drilled bool) {
		if !drilled {
			*timeout = max(*timeout, relaxedTimeout)
		}
	}
	more(&w.config.Redis.Timeout, away(c.Redis))
	more(&w.config.Upstream.Timeout, c.Legacy == Slow) // down, it refuses connections at once
	w.config.Upstream.Timeout = min(w.config.Upstream.Timeout, w.config.RequestTimeout)
	if i := w.config.Auth.Introspection; i != nil {
		more(&i.Timeout, away(c.Keys))
	}
	if k := w.config.Auth.Redis; k != nil {
		more(&k.Timeout, away(c.Redis))
	}
}

// settings are those of the drilled configuration that decide its moments.
func (r *run) settings() config.Config {
	from, c := r.Config, config.Default()
	c.Listen, c.Ops.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.RequestTimeout, c.ShutdownGrace = from.RequestTimeout, grace
	c.Cache.Buyer, c.Cache.Jitter = from.Cache.Buyer, from.Cache.Jitter
	c.Cache.FleetCoalescing = from.Cache.FleetCoalescing
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
func (w *environment) addRedis(r *run) (err error) {
	if !r.terms.redis {
		return nil
	}
	w.store = r.Store
	if w.redis, err = newProxy(w.store.dial); err != nil {
		return err
	}
	c := redistier.DefaultConfig()
	c.Addrs, c.Prefix, c.Timeout = []string{w.redis.addr()}, w.prefix, r.Config.Redis.Timeout
	c.Username, c.DB = w.store.url.Username, w.store.url.DB
	if w.store.url.Password != "" {
		c.PasswordFile = secretfile.New("redis-password", w.store.url.Password)
	}
	w.config.Redis = c
	return err
}

// addKeys keeps the keys where the drilled gateway keeps them. Keys in a Redis that
// cannot be drilled are in a file.
func (w *environment) addKeys(ctx context.Context, r *run) (err error) {
	switch from := r.Config.Auth; {
	case r.terms.keys == FromIntrospection:
		w.keys, err = inAuthServer(*from.Introspection, w.callers)
	case r.terms.keys == FromRedis && r.terms.redis:
		w.keys, err = inRedis(ctx, *from.Redis, w.store, w.prefix, w.callers)
	default:
		w.keys, err = inFile(ctx, filepath.Join(w.dir, "keys.yaml"), w.callers)
	}
	w.config.Auth = w.keys.config
	return err
}

// inject puts the parts into the states of a cell.
func (w *environment) inject(ctx context.Context, c Cell) error {
	var errs []error
	switch c.Redis {
	case Slow:
		w.redis.stall()
	case Down:
		w.redis.end()
	case Garbage:
		errs = append(errs, w.store.corrupt(ctx, w.prefix))
	}
	switch c.Legacy {
	case Slow:
		errs = append(errs, w.system.SetFault(legacy.Fault{Name: legacy.FaultDelay, Delay: never}))
	case Down:
		w.legacy.close()
	case Garbage:
		errs = append(errs, w.system.SetFault(legacy.Fault{Name: legacy.FaultHTML}))
	}
	if c.Keys != Up {
		errs = append(errs, w.keys.inject(c.Keys))
	}
	return errors.Join(errs...)
}

// server is an HTTP server on a free port of this machine.
type server struct {
	listener net.Listener
	http     *http.Server
	once     sync.Once
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

// close cuts all connections, and refuses new ones.
func (s *server) close() {
	s.once.Do(func() {
		_ = s.http.Close() // of a listener that nobody needs any more
		s.wg.Wait()
	})
}
