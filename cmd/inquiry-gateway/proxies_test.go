package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/internal/testkit/redistest"
	"inquiry-gateway/upstream/legacy"
)

// sharedCache is a program that stores what it may, started in front of the
// gateway. Both are set up to store as eagerly as their configuration allows
// without being told to ignore what the gateway says.
type sharedCache struct {
	program string
	args    func(dir, listen, backend string) []string
	config  string // its file, with LISTEN, BACKEND and DIR to be filled in
}

var sharedCaches = map[string]sharedCache{
	"nginx": {
		program: "nginx",
		args: func(dir, _, _ string) []string {
			return []string{"-c", filepath.Join(dir, "config"), "-p", dir, "-e", filepath.Join(dir, "error.log")}
		},
		config: `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  proxy_cache_path DIR/store keys_zone=lists:1m;
  server {
    listen LISTEN;
    location / { proxy_pass http://BACKEND; proxy_cache lists; proxy_cache_valid any 1h; add_header X-Shared-Cache $upstream_cache_status; }
  }
}`,
	},
	"varnish": {
		program: "varnishd",
		args: func(dir, listen, _ string) []string {
			return []string{"-F", "-a", listen, "-f", filepath.Join(dir, "config"), "-n", filepath.Join(dir, "work"), "-s", "malloc,16m", "-j", "none", "-T", "none"}
		},
		// Varnish's own rules would pass a request with Authorization on; without
		// them it is the answer alone that decides.
		config: `vcl 4.1;
backend default { .host = "BACKHOST"; .port = "BACKPORT"; }
sub vcl_recv { return (hash); }
sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Shared-Cache = "HIT"; } }`,
	},
}

// A shared cache between gateway and callers stores no reply, neither a list nor
// an error: the second caller of the same URL gets its own.
func TestSharedCachesStoreNothing(t *testing.T) {
	t.Parallel() // it waits
	for name, c := range sharedCaches {
		t.Run(name, func(t *testing.T) {
			p := start(t, setup{})
			front := c.start(t, strings.TrimPrefix(p.app.URL(), "http://"))
			want := map[string][]byte{
				"buyer":       truth(p.system, "buyer", legacy.BuyerTypical, "", ""),
				"other-buyer": truth(p.system, "buyer", legacy.BuyerOther, "", ""),
			}
			asked := 0
			for range 3 {
				for _, key := range []string{"buyer", "other-buyer", "unpaid", "", "expired"} {
					r := p.request(http.MethodGet, buyerList, key)
					r.URL.Host = front
					a := p.do(r)
					asked++
					if body, ok := want[key]; ok && (a.status != http.StatusOK || !bytes.Equal(a.body, body)) || !ok && a.status < 400 {
						t.Fatalf("key %q: %d %.200s", key, a.status, a.body)
					}
					if got := a.header.Get("X-Shared-Cache"); got == "HIT" {
						t.Errorf("key %q: the shared cache answered", key)
					}
				}
			}
			p.eventually("every request has reached the gateway", func() bool { // a record follows its answer
				return strings.Count(p.logs.String(), `"endpoint":"buyer_inquiries"`) == asked
			})
		})
	}
}

// start runs the program and gives the address that it listens on. A program
// that is not installed fails the test: the check would be worth nothing.
func (c sharedCache) start(t *testing.T, backend string) string {
	t.Helper()
	bin, err := exec.LookPath(c.program)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
			if _, statErr := os.Stat(filepath.Join(dir, c.program)); statErr == nil {
				bin, err = filepath.Join(dir, c.program), nil
			}
		}
	}
	if err != nil {
		t.Fatalf("%s is not installed; make test installs it where it may, from Debian's packages nginx and varnish", c.program)
	}
	dir, listen := t.TempDir(), redistest.FreeAddr(t)
	host, port, err := net.SplitHostPort(backend)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("LISTEN", listen, "BACKEND", backend, "BACKHOST", host, "BACKPORT", port, "DIR", dir).Replace(c.config)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(bin, c.args(dir, listen, backend)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); <-ended })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := answers(ctx, &url.URL{Scheme: "http", Host: listen, Path: "/openapi.json"}); err != nil {
		t.Fatalf("%s does not answer: %v\n%s", c.program, err, said.String())
	}
	return listen
}

// answers waits until the URL does.
func answers(ctx context.Context, u *url.URL) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(r)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
