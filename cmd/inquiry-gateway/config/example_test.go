package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// example gives the documented example.
func example(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile("testdata/example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestExampleLoads(t *testing.T) {
	loaded, problems := loadText(t, example(t))
	if problems != nil {
		t.Fatalf("got\n%s", strings.Join(problems, "\n"))
	}
	if len(loaded.Warnings) != 0 {
		t.Errorf("warnings: %v", loaded.Warnings)
	}
	if files := loaded.Config.Files(); len(files) != 2 || files[loaded.Config.Path()] == nil || files[loaded.Config.Auth.KeysFile] == nil {
		t.Errorf("files are %v", files)
	}
}

func TestWhatIsShownLoadsAgain(t *testing.T) {
	loaded, problems := loadText(t, example(t))
	if problems != nil {
		t.Fatal(problems)
	}
	shown := loaded.Config.String()
	for _, line := range []string{
		"listen: 127.0.0.1:8080\n", "request_timeout: 5s\n", "stale_if_error: 10m\n", "max_bytes: 256MiB\n",
		"title: subject\n", "default: null\n", `category: "{inquiry_type}"`, `"N": pending`,
	} {
		if !strings.Contains(shown, line) {
			t.Errorf("%q is not in\n%s", line, shown)
		}
	}
	again, problems := loadText(t, shown)
	if problems != nil || again.Config.Redacted() != shown {
		t.Errorf("got %v\n%s\nwant\n%s", problems, again.Config.Redacted(), shown)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	text := strings.NewReplacer(
		"headers: {X-Tenant: acme}", `headers: {X-Tenant: "${SECRET}", X-Key: hunter2}`,
		`customer: "{account}"`, `customer: "{account}", key: "${SECRET}"`,
	).Replace(example(t))
	loaded, problems := loadText(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	if got := loaded.Config.Upstream.Headers["X-Tenant"]; got != "hunter2" {
		t.Errorf("the header is %q", got)
	}
	shown := loaded.Config.Redacted()
	if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "key: ${SECRET}") || !strings.Contains(shown, "X-Key: \"[hidden]\"") {
		t.Errorf("got\n%s", shown)
	}
	for text, want := range map[string]string{
		"https://u:hunter2@h/p": "https://[hidden]@h/p", "https://h/p": "https://h/p", "u:p@h": "u:p@h", "": "",
	} {
		if got := redactURL(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// A change of the example, and where the first line of the error must point.
func TestMistakesInTheExample(t *testing.T) {
	tests := []struct{ name, old, new, want string }{
		{"typing slip", "title: subject", "titel: subject", `44:7: upstream.buyer.fields.titel: unknown key; did you mean "title"?`},
		{"field missing", "      title: subject\n", "", "43:5: upstream.buyer.fields.title: "},
		{"bad path", "title: subject", `title: "a.#(b"`, "44:14: upstream.buyer.fields.title"},
		{"bad zone", "zone: Asia/Seoul}   #", "zone: Asia/Soul}   #", "48:71: upstream.buyer.fields.created_at.zone: "},
		{"bad layout", `format: "2006-01-02 15:04:05", zone: Asia/Seoul}   #`, `format: "yyyy-mm-dd"}   #`, "48:42: upstream.buyer.fields.created_at.format: "},
		{"bad URL", "base_url: https://legacy.internal", "base_url: legacy", "24:13: upstream.base_url: "},
		{"user in URL", "base_url: https://legacy", "base_url: https://u:p@legacy", "24:13: upstream.base_url: "},
		{"legacy slower than the request", "timeout: 2s", "timeout: 6s", "25:12: upstream.timeout: 6s is more than request_timeout (5s): no answer could be waited for that long; lower it, or raise request_timeout"},
		{"custom form", "inquiry_type: {path: category, default: null}", "inquiry_type: {path: category, defalt: null}", `47:38: upstream.buyer.fields.inquiry_type.defalt: unknown key; did you mean "default"?`},
		{"unit forgotten", "buyer:  {ttl: 30s", "buyer:  {ttl: 30", "18:17: cache.buyer.ttl: wants a duration such as 30s, got the number 30; add a unit (ms, s, m, h)"},
		{"too long", "pending: {ttl: 10s}", "pending: {ttl: 1000h}", "18:99: cache.buyer.by_status.pending.ttl: "},
		{"redis", "addrs: []", "addrs: [localhost]", "15:17: redis.addrs[0]: "},
		{"goal", "jitter: 0.1", "goals: {max_outdated: 2}", "20:25: cache.goals.max_outdated: "},
		{"two sources of keys", "  # introspection: {url: https://..., client_id: gw, client_secret_file: s, timeout: 500ms, claims: {account: sub, kind: kind}}", "  introspection: {url: https://id.internal/introspect}", "9:14: auth.keys_file: more than one source of keys"},
		{"keys in no Redis", "keys_file: keys.yaml\n  # redis: {}", "redis: {}", "9:3: auth.redis: keys cannot be in a Redis that is not there"},
		{"no seller", "  seller:\n    path", "  sellers:\n    path", `52:3: upstream.sellers: unknown key; did you mean "seller"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(example(t), tt.old, tt.new, 1)
			if text == example(t) {
				t.Fatal("the example does not hold the text to replace")
			}
			_, got := loadText(t, text)
			if len(got) != 1 || !strings.HasPrefix(got[0], "gateway.yaml:"+tt.want) {
				t.Errorf("got\n%s\nwant one line that begins with\n%s", strings.Join(got, "\n"), tt.want)
			}
		})
	}
}

func TestUpstreamWithoutKeysIsEmpty(t *testing.T) {
	for _, text := range []string{"upstream:\n", "upstream: {}\n"} {
		_, got := loadText(t, text)
		if want := "gateway.yaml:1:1: upstream: is empty; add base_url, and buyer or seller or both"; !slices.Equal(got, []string{want}) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// One of the two lists may be left out, which is said; what is written for it cannot be meant.
func TestOneListOnly(t *testing.T) {
	buyerOnly, _, _ := strings.Cut(example(t), "  seller:\n    path")
	for text, want := range map[string]string{
		buyerOnly:                    "",
		buyerOnly + "  seller: {}\n": "gateway.yaml:52:3: upstream.seller: is empty; add path and fields, or leave it out",
		strings.Replace(buyerOnly, "\nupstream:", "\ncanary: {seller_keys: [token, pepper]}\nupstream:", 1): "canary.seller_keys: there is no list of sellers to ask for",
	} {
		loaded, got := loadText(t, text)
		if want == "" && len(got) == 0 {
			want, got = "no list of sellers is served, and its path is answered with 404", []string{loaded.Warnings.Error()}
		}
		if !slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(example(f))
	f.Add("upstream: {buyer: {fields: {title: [a, b], status: {values: {1: x}}}}}\n")
	f.Add("canary: &c {buyer_keys: [a, b], every: *c}\nrate_limit: {per_second: ${PORT}}\nops: {listen: ':0'}\n")
	f.Fuzz(func(t *testing.T, text string) {
		loaded, err := load(documentOf(text), Options{Env: fakeEnv, MayMiss: []string{"auth.keys_file"}})
		for _, line := range lines(err) {
			if !strings.HasPrefix(line, "gateway.yaml:") {
				t.Errorf("line %q of %q names no file", line, err)
			}
		}
		if err == nil && strings.Contains(loaded.Config.Redacted(), "cannot be shown") {
			t.Error(loaded.Config.Redacted())
		}
	})
}
