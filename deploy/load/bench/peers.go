package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"inquiry-gateway/deploy/load/report"
)

// peerRows are other servers that can answer the same requests out of a cache,
// where they are installed. They cannot map, so the origin behind them has the
// finished bytes.
func (s *stand) peerRows(ctx context.Context, base string) ([]*row, error) {
	var err error
	s.origin, err = s.startSimple(ctx, "origin", "backend", "-bodies", s.fixture.path("bodies.json"), "-keys", s.fixture.path("accounts.json"))
	if err != nil {
		return nil, err
	}
	var rows []*row
	for _, p := range []struct {
		name, program, note string
		start               func(context.Context, string) (*process, error)
	}{
		{"nginx", "nginx", "auth_request to a service whose answers are cached for 4 hours, proxy_cache with the account in the key, one access log line per request", s.startNginx},
		{"Varnish", "varnishd", "the API key is part of the cache key and is only checked on a miss: a revoked one goes on until its lists end; its log stays in shared memory", s.startVarnish},
	} {
		r := &row{Row: report.Row{Name: p.name, Group: groupHits, Base: base, Note: p.note}, bytes: s.whole(), origin: s.origin}
		rows = append(rows, r)
		program, err := exec.LookPath(p.program)
		if err != nil {
			r.Missing, r.Note = "not installed", ""
			continue
		}
		server, err := p.start(ctx, program)
		if err != nil {
			return nil, err
		}
		url := "http://" + server.addr
		r.servers = []*process{server}
		if err := s.sameBytes(ctx, url); err != nil {
			return nil, err
		}
		if err := s.refusesStrangers(ctx, url); err != nil {
			return nil, err
		}
		if err := s.warm(ctx, url); err != nil {
			return nil, err
		}
		if r.load, err = s.wrkOf(p.program, url, connections, nil); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// refusesStrangers makes sure that a peer does the work it is compared for.
func (s *stand) refusesStrangers(ctx context.Context, url string) error {
	response, _, err := s.get(ctx, url+target(""), "nobodys-key")
	if err == nil && response.StatusCode != 401 {
		err = fmt.Errorf("%s answers %s to a key that does not exist", url, response.Status)
	}
	return err
}

func (s *stand) startNginx(ctx context.Context, program string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	file := s.fixture.path("nginx.conf")
	if err := os.WriteFile(file, []byte(nginxConfig(s.dir, addr, s.origin.addr)), 0o600); err != nil {
		return nil, err
	}
	p := &process{name: "nginx", addr: addr}
	return p, s.crew.start(ctx, p, program, "-p", s.dir, "-c", file, "-e", "stderr")
}

func nginxConfig(dir, listen, origin string) string {
	user := ""
	if os.Geteuid() == 0 {
		user = "user root;" // the temporary folder belongs to whoever runs this
	}
	return fmt.Sprintf(`%[1]s
daemon off;
worker_processes auto;
pid %[2]s/nginx.pid;
error_log stderr error;
events { worker_connections 1024; }
http {
  access_log %[2]s/nginx.log;
  client_body_temp_path %[2]s/nginx-body;
  proxy_temp_path %[2]s/nginx-proxy;
  fastcgi_temp_path %[2]s/nginx-fastcgi;
  uwsgi_temp_path %[2]s/nginx-uwsgi;
  scgi_temp_path %[2]s/nginx-scgi;
  proxy_cache_path %[2]s/nginx-lists levels=1:2 keys_zone=lists:32m max_size=2g inactive=4h use_temp_path=off;
  proxy_cache_path %[2]s/nginx-auth levels=1:2 keys_zone=auth:8m max_size=64m inactive=4h use_temp_path=off;
  keepalive_requests 100000000;
  sendfile on;
  tcp_nopush on;
  upstream origin { server %[4]s; keepalive 16; }
  server {
    listen %[3]s;
    location /api/ {
      auth_request /auth;
      auth_request_set $account $upstream_http_x_account;
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_cache lists;
      proxy_cache_key "$account $uri $args";
      proxy_cache_valid 200 4h;
      add_header X-Cache-Status $upstream_cache_status;
    }
    location = /auth {
      internal;
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass_request_body off;
      proxy_cache auth;
      proxy_cache_key $http_authorization;
      proxy_cache_valid 204 4h;
    }
  }
}
`, user, dir, listen, origin)
}

func (s *stand) startVarnish(ctx context.Context, program string) (*process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	file := s.fixture.path("varnish.vcl")
	if err := os.WriteFile(file, []byte(varnishConfig(s.origin.addr)), 0o644); err != nil {
		return nil, err
	}
	p := &process{name: "varnish", addr: addr}
	return p, s.crew.start(ctx, p, program, "-F", "-n", s.fixture.path("varnish"), "-j", "none", "-a", addr, "-f", file, "-s", "malloc,512m")
}

// varnishConfig makes a key's lists its own. The origin answers 401 to a key
// that is not good, which is kept no longer than an answer takes.
func varnishConfig(origin string) string {
	host, port := splitAddr(origin)
	return fmt.Sprintf(`vcl 4.1;
backend origin { .host = "%s"; .port = "%s"; }
sub vcl_recv {
  if (!req.http.Authorization) { return (synth(401)); }
  return (hash);
}
sub vcl_hash { hash_data(req.http.Authorization); }
sub vcl_backend_response {
  if (beresp.status == 200) { set beresp.ttl = 4h; } else { set beresp.uncacheable = true; set beresp.ttl = 1s; }
  return (deliver);
}
`, host, port)
}
