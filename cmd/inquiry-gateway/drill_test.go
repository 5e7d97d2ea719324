package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"inquiry-gateway/cmd/inquiry-gateway/config"
	"inquiry-gateway/cmd/inquiry-gateway/drill"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/upstream/legacy"
)

// noHurry is more time than any row takes: no clock decides these tests.
const noHurry = time.Minute

// drillFile writes a configuration whose real systems must not be asked; its
// sections are quick to drill.
func drillFile(t *testing.T, sections string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "gateway.yaml")
	mapping := strings.NewReplacer("timeout: 2s", "timeout: 300ms", demoLegacyURL, "http://192.0.2.1").Replace(string(legacy.Mapping()))
	writeFile(t, file, sections+"\n"+mapping)
	return file
}

const introspectedFar = `auth: {introspection: {url: "https://192.0.2.1/introspect", timeout: 300ms}}`

// The failure matrix, as the drill declares it, with the whole program: what a
// caller gets with Redis, the legacy and the key store up, slow, down or giving
// garbage, one at a time and two at once.
func TestMatrix(t *testing.T) {
	testkit.Slow(t)
	t.Parallel() // it waits for timeouts
	dir := t.TempDir()
	store, err := drill.OpenStore(t.Context(), "", dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	cfg, _, err := drilledConfig("")
	if err != nil {
		t.Fatal(err)
	}
	report, err := drill.Run(t.Context(), drill.Options{Config: cfg, Start: startDrilled, Dir: dir, Store: store, Slack: noHurry})
	if err != nil || len(report.Rows) != 87 || len(report.Trials) != 11 {
		t.Fatalf("%d rows, %d trials, %v", len(report.Rows), len(report.Trials), err)
	}
	for _, row := range report.Rows {
		if row.Problem != "" {
			t.Errorf("%+v, %s: %s", row.Cell, row.Case, row.Problem)
		}
	}
	for _, trial := range report.Trials {
		if trial.Problem != "" || trial.Asked == 0 {
			t.Errorf("%s: %d answers, %s", trial.Does, trial.Asked, trial.Problem)
		}
	}
}

func TestDrillCommand(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	file := drillFile(t, introspectedFar)
	out, errOut, code := command(t, "drill", "-c", file)
	if code != 0 || !strings.Contains(out, "\n44 of 44 rows as declared") {
		t.Fatalf("exit code %d: %s\n%s", code, errOut, out)
	}
	for _, want := range []string{
		"LEFT OUT: Redis: this gateway has none", "with the settings of " + file, "Two at once",
		"504 upstream_timeout", "503 auth_unavailable", "200 stale-error", "key; breaker open", "keys are guessed", "look-ups are answered, ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "192.0.2.1") {
		t.Error("it has met the real systems")
	}
}

func TestDrillCommandInJSON(t *testing.T) {
	testkit.Slow(t)
	t.Parallel()
	out, errOut, code := command(t, "drill", "--json", "-c", drillFile(t, "auth: {keys_file: keys.yaml}"))
	var report struct {
		OK      bool
		Keys    string
		LeftOut []string `json:"left_out"`
		Rows    []struct {
			Redis, Legacy, Keys, Case string
			OK                        bool
			Declared, Seen            struct{ Status int }
		}
		Trials []struct {
			Name  string
			OK    bool
			Asked int
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, errOut)
	}
	if !report.OK || report.Keys != "file" || len(report.LeftOut) != 2 || len(report.Rows) != 13 || len(report.Trials) != 11 {
		t.Errorf("%+v", report)
	}
	for _, row := range report.Rows {
		if !row.OK || row.Redis != "up" || row.Seen.Status != row.Declared.Status || row.Seen.Status == 0 || row.Case == "" {
			t.Errorf("%+v", row)
		}
	}
}

func TestDrillCommandFails(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://192.0.2.1:6379")
	withRedis := drillFile(t, introspectedFar+"\nredis: {addrs: [\"192.0.2.1:6379\"]}")
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"-c", drillFile(t, introspectedFar), "--timeout", "1ms"}, 1, "44 of 44 rows are not as declared"},
		{[]string{"-c", drillFile(t, introspectedFar), "--require-redis"}, 1, "this gateway has none (redis.addrs)"},
		{[]string{"-c", withRedis}, 1, "192.0.2.1:6379 is not on this machine"},
		{[]string{"-c", "/does/not/exist.yaml"}, 1, "/does/not/exist.yaml"},
		{[]string{"--nonsense"}, 2, "nonsense"},
		{[]string{"now"}, 2, "now"},
	} {
		if out, errOut, code := command(t, append([]string{"drill"}, tc.args...)...); code != tc.code || !strings.Contains(out+errOut, tc.says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s%s", tc.args, code, tc.code, tc.says, out, errOut)
		}
	}
	t.Setenv("REDIS_URL", "")
	t.Setenv("PATH", t.TempDir())
	if out, _, code := command(t, "drill", "-c", withRedis, "--timeout", "1ms"); code != 1 || !strings.Contains(out, "LEFT OUT: Redis: redis-server is not installed") {
		t.Errorf("exit code %d: %s", code, out)
	}
	commandSays(t, 1, "redis-server is not installed", "drill", "-c", withRedis, "--require-redis")
}

// behind starts gateways whose answers pass through change.
func behind(t *testing.T, change func(*http.Response)) func(context.Context, config.Config) (drill.Gateway, error) {
	return func(ctx context.Context, cfg config.Config) (drill.Gateway, error) {
		g, err := startDrilled(ctx, cfg)
		if err != nil {
			return g, err
		}
		target, err := url.Parse(g.URL)
		if err != nil {
			return g, err
		}
		front := httputil.NewSingleHostReverseProxy(target)
		transport := &http.Transport{DisableCompression: true}
		front.Transport, front.ModifyResponse = transport, func(r *http.Response) error { change(r); return nil }
		server := httptest.NewServer(front)
		t.Cleanup(func() { server.Close(); transport.CloseIdleConnections() })
		g.URL = server.URL
		return g, nil
	}
}

// A gateway that does not do what is declared is found out, and nothing else is.
func TestDrillFindsWhatIsWrong(t *testing.T) {
	testkit.Slow(t)
	nothing := func(*http.Response) {}
	for name, tc := range map[string]struct {
		change func(*http.Response)
		matrix func(drill.Matrix)
		wrong  string // what the problem of a row says
		rows   func(drill.Row) bool
	}{
		"another declaration": {
			change: nothing,
			matrix: func(m drill.Matrix) { m[drill.Legacy][drill.Down][drill.Cold] = drill.Expectation{Outcome: drill.Miss} },
			wrong:  "it is 502 upstream_error, and 200 miss is declared; the gateway's log: legacy system: upstream (connect)",
			rows: func(r drill.Row) bool {
				return r.Legacy == drill.Down && r.Keys == drill.Up && r.Case == drill.Cold
			},
		},
		"401 for a key that cannot be checked": {
			change: func(r *http.Response) {
				if r.StatusCode == http.StatusServiceUnavailable && r.Header.Get("Retry-After") == "2" {
					r.StatusCode = http.StatusUnauthorized
				}
			},
			wrong: "it is 401 auth_unavailable, and 503 auth_unavailable is declared",
			rows:  func(r drill.Row) bool { return r.Keys != drill.Up && r.Case == drill.Cold },
		},
		"a list changed while the legacy is away": {
			change: func(r *http.Response) {
				if strings.HasSuffix(r.Header.Get("Cache-Status"), "stale-error") {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(`{"data":[],"meta":{},"errors":[]}`)), -1
					r.Header.Del("Content-Length")
				}
			},
			wrong: "the list is not the caller's",
			rows:  func(r drill.Row) bool { return r.Legacy != drill.Up && r.Case == drill.Warm },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for timeouts
			loaded, err := config.Load(drillFile(t, introspectedFar), config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			o := drill.Options{Config: loaded.Config, Start: behind(t, tc.change), Dir: t.TempDir(), Matrix: drill.Declared(), Slack: noHurry, WithoutTrials: true}
			if tc.matrix != nil {
				tc.matrix(o.Matrix)
			}
			report, err := drill.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, row := range report.Rows {
				if strings.Contains(row.Problem, tc.wrong) != tc.rows(row) || (row.Problem == "") == tc.rows(row) {
					t.Errorf("%+v, %s: %q", row.Cell, row.Case, row.Problem)
				}
			}
			var text bytes.Buffer
			if report.WriteText(&text); report.OK || report.Err() == nil || !strings.Contains(text.String(), "\nWRONG: ") || !strings.Contains(text.String(), tc.wrong) {
				t.Errorf("%v: %s", report.Err(), text.String())
			}
		})
	}
}
