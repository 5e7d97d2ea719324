package drill

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"inquiry-gateway/internal/redissub"
)

// soon is how long what must happen may take on a busy machine: a redis-server
// starts, a list gets known, a breaker opens.
const soon = 10 * time.Second

// Store is a Redis to drill with. The drill's own proxies stand between it and
// the gateways, and it is used under prefixes of the drill only.
type Store struct {
	What string // for a person

	client redissub.Client
	url    redissub.URL
	stop   func() error
}

// ErrNoStore is what OpenStore returns when there is no Redis to be had.
var ErrNoStore = errors.New("redis-server is not installed and REDIS_URL is not set")

// OpenStore uses the Redis at url, which must be on this machine; without a url
// it runs a redis-server with its files in dir, if one is installed. Close ends
// what it started.
func OpenStore(ctx context.Context, url, dir string) (*Store, error) {
	if url != "" {
		return storeAt(ctx, url)
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrNoStore
	}
	// A socket in a folder of its own: no port to find, and nobody else can ask.
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--appendonly", "no", "--daemonize", "no")
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("redis-server: %w", err)
	}
	s := newStore("a redis-server of the drill's own", redissub.URL{Network: "unix", Addr: socket})
	s.stop = func() error {
		err := s.client.Close()
		_ = cmd.Process.Kill() // it keeps nothing that would need an orderly end
		_ = cmd.Wait()         // killed
		return err
	}
	if err := poll(ctx, func() error { return s.client.Ping(ctx).Err() }); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server does not answer: %w", err), s.Close())
	}
	return s, nil
}

// storeAt is a Redis that runs already.
func storeAt(ctx context.Context, url string) (*Store, error) {
	u, err := redissub.ParseURL(url)
	if err != nil {
		return nil, err
	}
	host, _, err := net.SplitHostPort(u.Addr)
	if ip, parseErr := netip.ParseAddr(host); err != nil || host != "localhost" && (parseErr != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("REDIS_URL: %s is not on this machine; the drill uses no other: unset it, or start one here", u.Addr)
	}
	if u.TLS {
		return nil, errors.New("REDIS_URL: the drill does not speak TLS to Redis; give redis:// instead of rediss://")
	}
	s := newStore("the Redis of REDIS_URL, under a prefix of the drill's own", u)
	s.stop = s.client.Close
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("REDIS_URL: %w", err), s.Close())
	}
	return s, nil
}

// newStore does not retry: an error of Redis is the drill's to report.
func newStore(what string, u redissub.URL) *Store {
	return &Store{What: what, client: u.Open(), url: u}
}

// poll calls try until it returns nil, or returns its last error when ctx ends
// or it should have happened.
func poll(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-tick.C:
		}
	}
}

// Close ends what OpenStore started.
func (s *Store) Close() error { return s.stop() }

// dial opens a connection for a proxy.
func (s *Store) dial() (net.Conn, error) { return net.Dial(s.url.Network, s.url.Addr) }

// keys lists what is under a prefix.
func (s *Store) keys(ctx context.Context, prefix string) ([]string, error) {
	var keys []string
	all := s.client.Scan(ctx, 0, prefix+":*", 1000).Iterator()
	for all.Next(ctx) {
		keys = append(keys, all.Val())
	}
	return keys, all.Err()
}

// corrupt replaces all that is under a prefix by bytes that no gateway wrote.
func (s *Store) corrupt(ctx context.Context, prefix string) error {
	keys, err := s.keys(ctx, prefix)
	for _, key := range keys {
		err = errors.Join(err, s.client.Set(ctx, key, "\x00garbage", redis.KeepTTL).Err())
	}
	return err
}

// clear removes all that is under a prefix.
func (s *Store) clear(ctx context.Context, prefix string) error {
	keys, err := s.keys(ctx, prefix)
	if err != nil || len(keys) == 0 {
		return err
	}
	return s.client.Del(ctx, keys...).Err()
}

// proxy is a way to Redis that can be stalled or cut. It is safe for concurrent
// use; close ends all that it runs.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	stalled  atomic.Bool
	open     context.Context // ends when all connections are cut
	cut      context.CancelFunc
	wg       sync.WaitGroup
}

// newProxy listens on a free port; dial reaches the Redis behind it.
func newProxy(dial func() (net.Conn, error)) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, dial: dial}
	p.open, p.cut = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// addr is where the gateway finds its Redis.
func (p *proxy) addr() string { return p.listener.Addr().String() }

// stall keeps every further answer back: connections stay, and new ones come
// about.
func (p *proxy) stall() { p.stalled.Store(true) }

// end cuts all connections and refuses new ones.
func (p *proxy) end() {
	_ = p.listener.Close() // a second time says that it is closed
	p.cut()
}

// close waits until nothing of the proxy runs any more.
func (p *proxy) close() {
	p.end()
	p.wg.Wait()
}

// accept joins each connection with one to Redis, until end closes the listener.
func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close() // Redis is away, which is what the client should see
			continue
		}
		both := sync.OnceFunc(func() { _, _ = client.Close(), server.Close() }) // nobody needs them any more
		stop := context.AfterFunc(p.open, both)
		p.wg.Go(func() { defer both(); _, _ = io.Copy(server, client) }) // any error ends both
		p.wg.Go(func() { defer stop(); defer both(); p.answer(client, server) })
	}
}

// answer copies what Redis says until either end is closed, or, while the proxy is
// stalled, until the connections are cut.
func (p *proxy) answer(client io.Writer, server io.Reader) {
	buf := make([]byte, 16<<10)
	for {
		n, err := server.Read(buf)
		if p.stalled.Load() && n > 0 {
			<-p.open.Done()
			return
		}
		if _, wrong := client.Write(buf[:n]); wrong != nil || err != nil {
			return
		}
	}
}
