package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"inquiry-gateway/upstream/legacy"
)

// A value from the environment is shown as ${NAME} wherever a configuration is shown or
// talked about, because it may be a secret; here it is a part of the legacy's path.
func TestValuesOfVariablesAreNotShown(t *testing.T) {
	const secret = "t0ken-within-a-path"
	t.Setenv("PATH_TOKEN", secret)
	t.Setenv("WRONG_URL", "ftp://"+secret)
	var p *program
	p = start(t, setup{
		upstream: []string{"path: /v2/tickets", "path: /${PATH_TOKEN}/v2/tickets", "path: /v2/vendors", "path: /${PATH_TOKEN}/v2/vendors"},
		backend: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.StripPrefix("/"+secret, p.system).ServeHTTP(w, r)
		}),
		yaml:    "gateway: {trusted_proxies: [\"${PROXY}\"]}",
		prepare: func(*program) { t.Setenv("PROXY", "203.0.113.77") },
	})
	p.gets(http.StatusOK, buyerList, "buyer")
	fault(legacy.Fault{Name: legacy.FaultRefuse})(p)
	p.gets(http.StatusBadGateway, buyerList, "other-buyer")

	file := filepath.Join(p.dir, "gateway.yaml")
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(written)
	printed, _, code := command(t, "check", "--print", "-c", file)
	p.write("gateway.yaml", strings.Replace(text, "}/v2/tickets", "}/v3/tickets", 1))
	p.eventually("the file is reloaded", func() bool { return strings.Contains(p.logs.String(), "configuration reloaded") })
	p.write("wrong.yaml", strings.Replace(text, "listen: ", "listen: ${WRONG_URL} # ", 1))
	_, wrong, wrongCode := command(t, "check", "-c", filepath.Join(p.dir, "wrong.yaml"))
	for what, shown := range map[string]string{"check --print": printed, "/ops/config": string(p.ops("/ops/config").body), "the log": p.logs.String(), "an error": wrong} {
		if strings.Contains(shown, secret) || strings.Contains(shown, "203.0.113.77") {
			t.Errorf("%s shows a variable's value: %s", what, shown)
		}
	}
	if code != 0 || !strings.Contains(printed, "path: /${PATH_TOKEN}/v2/tickets") || !strings.Contains(printed, "${PROXY}") {
		t.Errorf("exit code %d: %s", code, printed)
	}
	if wrongCode != 1 || !strings.Contains(wrong, "${WRONG_URL}") {
		t.Errorf("exit code %d: %s", wrongCode, wrong)
	}
	if !strings.Contains(p.logs.String(), "/${PATH_TOKEN}/v3/tickets") {
		t.Error("the log does not show what a reload changed")
	}
}

// check asks nobody unless it is told to: a Redis that holds the keys is not asked either.
func TestCheckOpensNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = c.Close()
		}
	}()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	writeFile(t, file, "redis: {addrs: [\""+l.Addr().String()+"\"]}\nauth: {redis: {}}\n"+string(legacy.Mapping()))
	commandSays(t, 0, "good", "check", "-c", file)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if <-accepted; asked.Load() > 0 {
		t.Errorf("%d connections to Redis", asked.Load())
	}
}
