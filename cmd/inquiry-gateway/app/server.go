package app

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/connlimit"
)

// Bounds of a connection. Public requests have no body, so a slower client only occupies a connection.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	// maxStreams is the maximum number of requests in flight on an HTTP/2 connection, the least that RFC 9113, section 6.5.2,
	// recommends. Each takes about 21 KiB.
	maxStreams = 100
	// maxHeaderBytes is how much net/http reads of a request line and header fields. It is more than the gateway accepts and proxies
	// pass on, because over HTTP/2 a larger field ends the whole connection, which a proxy shares between callers.
	maxHeaderBytes = 64 << 10
)

// server is an http.Server on a listener that is already open, so that a port in use is found before anything else starts.
type server struct {
	http     *http.Server
	listener net.Listener
	front    *front.Listener // over listener; nil if http serves every request
	tls      bool
	stopping atomic.Bool // the listener is closed on purpose
}

// Listen opens an address; key names the configuration's key in the error.
func Listen(key, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s: %s is in use by another program; stop that program, or set %s to a free address", key, address, key)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", key, address, err)
	}
	return l, nil
}

// newServer returns a server with bounds. Writing a response may take writeTimeout, or any time if it is zero. HTTP/2 is served with
// and without TLS.
func newServer(l net.Listener, h http.Handler, writeTimeout time.Duration, errorLog *log.Logger) *server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &server{
		listener: l,
		http: &http.Server{
			Handler:                      h,
			ConnContext:                  connlimit.ConnContext,
			ReadHeaderTimeout:            readHeaderTimeout,
			ReadTimeout:                  readTimeout,
			WriteTimeout:                 writeTimeout,
			IdleTimeout:                  idleTimeout,
			MaxHeaderBytes:               maxHeaderBytes,
			Protocols:                    protocols,
			DisableGeneralOptionsHandler: true,
			ErrorLog:                     errorLog,
		},
	}
}

// serve serves until shutdown is called; only then it returns nil.
func (s *server) serve() error {
	l := s.listener
	if s.front != nil {
		l = s.front
	}
	err := s.http.Serve(l)
	if errors.Is(err, http.ErrServerClosed) || s.stopping.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// shutdown accepts no new connections, closes idle ones, and waits for requests in flight until ctx
// ends, then cuts them off. The front stops first, because it hands connections to http.
func (s *server) shutdown(ctx context.Context) error {
	s.stopping.Store(true)
	var err error
	if s.front != nil {
		err = s.front.Shutdown(ctx)
	}
	if err := errors.Join(err, s.http.Shutdown(ctx)); err != nil {
		return errors.Join(fmt.Errorf("requests were cut off at the end of shutdown_grace: %w", err), s.http.Close())
	}
	return nil
}

// url returns the URL of the server, with the port that it got.
func (s *server) url() string {
	if s.tls {
		return "https://" + s.listener.Addr().String()
	}
	return "http://" + s.listener.Addr().String()
}

// Serve serves h on l until ctx ends, and waits for requests in flight for the grace.
func Serve(ctx context.Context, l net.Listener, h http.Handler, grace time.Duration, logger *slog.Logger) error {
	s := newServer(l, h, 0, slog.NewLogLogger(logger.Handler(), slog.LevelWarn))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(s.serve)
	group.Go(func() error {
		<-ctx.Done()
		stop, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		return s.shutdown(stop)
	})
	return group.Wait()
}
