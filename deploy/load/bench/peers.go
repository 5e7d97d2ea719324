package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"

	"inquiry-gateway/deploy/load/report"
	"inquiry-gateway/internal/testkit"
)

// addPeers adds other servers that can answer the same requests out of a cache,
// where they are installed. They cannot map, so the origin behind them has the
// finished bytes. It ends when all of them have everything: a peer that does not
// answer out of its cache then answers with an error, and the run fails.
func (b *bench) addPeers(ctx context.Context) {
	if !b.peers {
		return
	}
	origin := b.startBare(ctx, "origin", "-bodies", b.path("bodies.json"), "-keys", b.path("accounts.json"))
	for _, p := range []struct {
		name, program, note string
		start               func(ctx context.Context, origin string) *server
	}{
		{"nginx, auth_request", "nginx",
			"auth_request to a service whose answers are cached for 4 hours, proxy_cache with the account in the key, one access log line per request",
			func(ctx context.Context, origin string) *server { return b.startNginx(ctx, "nginx", origin, "") }},
		{nameNginxMap, "nginx",
			"the same with the keys in a map file: a key is looked up in memory, and a change of keys needs a reload", b.startNginxMap},
		{nameVarnish, "varnishd",
			"the API key is part of the cache key and is only checked on a miss: a revoked one goes on until its lists end; its log stays in shared memory", b.startVarnish},
	} {
		if _, err := exec.LookPath(p.program); err != nil {
			b.add(groupHits, row{Row: report.Row{Name: p.name, Base: nameBare, Missing: "not installed"}})
			continue
		}
		s := p.start(ctx, origin.Addr)
		b.sameBytes(ctx, s.url)
		b.refusesStrangers(ctx, s.url)
		b.warm(ctx, s.url)
		b.add(groupHits, row{server: s, Row: report.Row{Name: p.name, Base: nameBare, Note: p.note}})
	}
	check(origin.Stop())
}

// startNginx runs nginx; keys is the path of a map file, or empty for
// auth_request.
func (b *bench) startNginx(ctx context.Context, name, origin, keys string) *server {
	dir, listen := b.path(name+".d"), freeAddr()
	check(os.Mkdir(dir, 0o700))
	file := b.write(name+".conf", "nginx.conf", map[string]any{
		"Dir": dir, "Log": b.path(name + ".log"), "Root": os.Geteuid() == 0, "Listen": listen, "Origin": origin, "Map": keys,
	})
	return b.start(ctx, testkit.Program{Name: name, Path: "nginx", Addr: listen, Args: []string{"-p", dir, "-c", file, "-e", "stderr"}}, "")
}

// startNginxMap writes the map of keys to accounts that nginx reads at its start.
func (b *bench) startNginxMap(ctx context.Context, origin string) *server {
	var keys strings.Builder
	for i, key := range b.keys {
		keys.WriteString(`"Bearer ` + key + `" ` + account(i) + ";\n")
	}
	check(os.WriteFile(b.path("nginx.keys"), []byte(keys.String()), 0o600))
	return b.startNginx(ctx, "nginx-map", origin, b.path("nginx.keys"))
}

// startVarnish runs varnishd in the foreground, with room for all lists in memory.
func (b *bench) startVarnish(ctx context.Context, origin string) *server {
	host, port, _ := net.SplitHostPort(origin) // it is both
	listen := freeAddr()
	file := b.write("varnish.vcl", "varnish.vcl", map[string]string{"Host": host, "Port": port})
	args := []string{"-F", "-n", b.path("varnish.d"), "-j", "none", "-a", listen, "-f", file, "-s", "malloc,512m"}
	return b.start(ctx, testkit.Program{Name: "varnish", Path: "varnishd", Addr: listen, Args: args}, "")
}
