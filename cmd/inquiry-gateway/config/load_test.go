package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// folder is a configuration's folder with all the files that a test names.
func folder(t *testing.T, gatewayYAML string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"keys.yaml", "pepper", "token", "tls.pem", "tls.key", "legacy.ca"} {
		write(t, filepath.Join(dir, name), "content-of-"+name+"\n")
	}
	for name, text := range map[string]string{"blank": " \n", "words": "one two\n", "key": "k\n", "same-key": "k\r\n"} {
		write(t, filepath.Join(dir, name), text)
	}
	return write(t, filepath.Join(dir, "gateway.yaml"), gatewayYAML)
}

func loadText(t *testing.T, text string) (Loaded, []string) {
	t.Helper()
	path := folder(t, text)
	loaded, err := Load(path, Options{Env: fakeEnv})
	got := lines(err)
	for i := range got {
		got[i] = strings.ReplaceAll(got[i], filepath.Dir(path)+"/", "")
		got[i] = strings.ReplaceAll(got[i], filepath.Dir(path), "FOLDER")
	}
	return loaded, got
}

func TestLoadReports(t *testing.T) {
	const missing = "gateway.yaml:1:1: upstream: missing; add the section with base_url, and buyer or seller or both"
	tests := []struct {
		name, yaml string
		want       []string
	}{
		{"no upstream", "listen: 127.0.0.1:1\n", []string{missing}},
		{"no port", "listen: localhost\n", []string{missing,
			`gateway.yaml:1:9: listen: wants host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535, got the text "localhost"`}},
		{"bare IPv6", "listen: \"::1:80\"\n", []string{missing,
			`gateway.yaml:1:9: listen: wants host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535, got the quoted text "::1:80"`}},
		{"URL", "ops: {listen: 'http://a:80'}\n", []string{missing,
			`gateway.yaml:1:15: ops.listen: wants host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535, got the quoted text "http://a:80"`}},
		{"port too large", "listen: a:65536\n", []string{missing,
			`gateway.yaml:1:9: listen: wants host:port such as 127.0.0.1:8080 or [::1]:8080, with a port from 0 (any free one) to 65535, got the text "a:65536"`}},
		{"one address twice", "listen: :9090\n", []string{missing,
			"gateway.yaml:1:1: ops.listen: is the address of listen (:9090) too; give it another port"}},
		{"ops open", "ops:\n  listen: 0.0.0.0:9090\n", []string{missing,
			"gateway.yaml:2:11: ops.listen: 0.0.0.0:9090 can be reached from other machines; set ops.token_file, or listen on 127.0.0.1"}},
		{"ops open to readers", "ops:\n  listen: 0.0.0.0:9090\n  read_token_file: token\n", []string{missing,
			"gateway.yaml:2:11: ops.listen: 0.0.0.0:9090 can be reached from other machines; set ops.token_file, or listen on 127.0.0.1",
			"gateway.yaml:3:20: ops.read_token_file: keeps nobody out without ops.token_file; set that too, or leave this out"}},
		{"one token for all", "ops: {token_file: key, read_token_file: same-key}\n", []string{missing,
			"gateway.yaml:1:41: ops.read_token_file: holds the token of ops.token_file, so whoever reads metrics could purge; make another one"}},
		{"certificate alone", "tls: {cert_file: tls.pem}\n", []string{missing,
			"gateway.yaml:1:1: tls.key_file: missing; cert_file is set, add the file of its private key"}},
		{"key alone", "tls:\n  key_file: tls.key\n", []string{missing,
			"gateway.yaml:1:1: tls.cert_file: missing; key_file is set, add the file of its certificate"}},
		{"no times", "request_timeout: 0s\nshutdown_grace: 0\nshutdown_delay: -1s\nmax_connections: 0\n", []string{missing,
			`gateway.yaml:1:18: request_timeout: wants more than 0s, got the text "0s"`, "gateway.yaml:2:17: shutdown_grace: wants more than 0s, got the number 0", "gateway.yaml:3:17: shutdown_delay: wants a duration of 0s or more, got the text \"-1s\"",
			"gateway.yaml:4:18: max_connections: wants 1 or more, got the number 0"}},
		{"unknown choice", "gateway: {unknown_parameters: drop}\n", []string{missing,
			`gateway.yaml:1:31: gateway.unknown_parameters: wants reject or ignore, got the text "drop"`}},
		{"proxies", "gateway:\n  trusted_proxies:\n    - 10.0.0.0/8\n    - fe80::1\n    - 10.0.0.0/33\n    - proxy.local\n", []string{missing,
			`gateway.yaml:5:7: gateway.trusted_proxies[2]: wants an address or network such as 10.0.0.1 or 10.0.0.0/8, got the text "10.0.0.0/33"`,
			`gateway.yaml:6:7: gateway.trusted_proxies[3]: wants an address or network such as 10.0.0.1 or 10.0.0.0/8, got the text "proxy.local"`}},
		{"log", "log: {sample_hits: -1, access_keys: plain}\n", []string{missing,
			"gateway.yaml:1:20: log.sample_hits: wants 0 or more, got the number -1",
			`gateway.yaml:1:37: log.access_keys: wants hashed, got the text "plain"`}},
		{"log with too few hits", "log: {sample_hits: 10, access_keys: hashed}\n", []string{missing,
			"gateway.yaml:1:20: log.sample_hits: a log without all hits tells the TTL lab of too few; leave it out, or leave out log.access_keys"}},
		{"ttl of known keys", "auth: {redis: {}, cache_ttl: 1h}\nredis: {addrs: ['a:1']}\n", []string{
			`gateway.yaml:1:30: auth.cache_ttl: wants 0s to 10m, got the text "1h"`, missing}},
		{"no source of keys", "auth: {keys_file: ''}\n", []string{
			"gateway.yaml:1:19: auth.keys_file: no source of keys is set: set one of keys_file, redis, introspection", missing}},
		{"file missing", "auth:\n  keys_file: nokeys.yaml\n", []string{missing,
			"gateway.yaml:2:14: auth.keys_file: nokeys.yaml: no such file; check the path; a first key makes the file: keys new -c FILE --kind buyer --account ID --api-access paid"}},
		{"file is a folder", "auth: {pepper_file: .}\n", []string{missing,
			"gateway.yaml:1:21: auth.pepper_file: FOLDER: is a folder; name a file"}},
		{"file is blank", "auth: {pepper_file: blank}\n", []string{missing,
			"gateway.yaml:1:21: auth.pepper_file: blank: is empty"}},
		{"file is a device", "auth: {pepper_file: /dev/null}\n", []string{missing,
			"gateway.yaml:1:21: auth.pepper_file: /dev/null: is not a regular file; it must be one, because it is read again at a reload"}},
		{"one canary key", "canary: {buyer_keys: [token]}\n", []string{missing,
			"gateway.yaml:1:10: canary.buyer_keys: wants at least two keys, of two accounts: a list is compared with another's"}},
		{"a canary key twice", "canary:\n  seller_keys:\n    - token\n    - ./token\n", []string{missing,
			"gateway.yaml:4:7: canary.seller_keys[1]: is the file of canary.seller_keys[0] too; name a key of another account"}},
		{"canary keys in two files are one", "canary:\n  buyer_keys: [key, same-key]\n", []string{missing,
			"gateway.yaml:2:21: canary.buyer_keys[1]: same-key holds the same key as canary.buyer_keys[0]; use a key of another account"}},
		{"canary key with more in its file", "canary: {buyer_keys: [token, words]}\n", []string{missing,
			"gateway.yaml:1:30: canary.buyer_keys[1]: words: wants one API key and nothing else"}},
		{"canary key without a file", "canary: {buyer_keys: [token, '', nokey]}\n", []string{missing,
			"gateway.yaml:1:30: canary.buyer_keys[1]: is empty; name the file of a key",
			"gateway.yaml:1:34: canary.buyer_keys[2]: nokey: no such file; check the path"}},
		{"canary too often", "canary: {every: 500ms}\n", []string{missing, `gateway.yaml:1:17: canary.every: wants 1s to 5m, got the text "500ms"`}},
		{"canary too seldom", "canary: {every: 1h}\n", []string{missing, `gateway.yaml:1:17: canary.every: wants 1s to 5m, got the text "1h"`}},
		{"a slip hides what follows from it", "ops:\n  listen: 0.0.0.0:9090\n  tokenfile: token\nauth:\n  key_file: x\nrequest_timeout: 0\nshutdown_grace: x\n", []string{missing,
			"gateway.yaml:2:11: ops.listen: 0.0.0.0:9090 can be reached from other machines; set ops.token_file, or listen on 127.0.0.1",
			`gateway.yaml:3:3: ops.tokenfile: unknown key; did you mean "token_file"?`,
			`gateway.yaml:5:3: auth.key_file: unknown key; did you mean "keys_file"?`,
			"gateway.yaml:6:18: request_timeout: wants more than 0s, got the number 0",
			`gateway.yaml:7:17: shutdown_grace: wants a duration such as 30s or 1h30m (units ms, s, m, h), got the text "x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			loaded, got := loadText(t, tt.yaml)
			if loaded.Config.Listen != "" {
				t.Error("a configuration came with the error")
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestLoadRefusesWhatIsNoConfiguration(t *testing.T) {
	dir := t.TempDir()
	tests := []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "none.yaml"), "no such file; check the path"},
		{"folder", dir, "is a folder; name a file"},
		{"device", "/dev/null", "is not a regular file; it must be one, because it is read again at a reload"},
		{"large", write(t, filepath.Join(dir, "large"), strings.Repeat("#", 256<<10+1)),
			"is larger than 256 KiB; is this the right file?"},
		{"not UTF-8", write(t, filepath.Join(dir, "latin"), "listen: \xe9\n"), "is not UTF-8 text; save it as UTF-8"},
		{"binary", write(t, filepath.Join(dir, "binary"), "a\x00b"), "holds a NUL byte; is this the right file?"},
		{"empty", write(t, filepath.Join(dir, "empty"), ""), "is empty; it needs at least an upstream section"},
		{"only a mark", write(t, filepath.Join(dir, "bom"), "\ufeff"), "is empty; it needs at least an upstream section"},
	}
	for _, tt := range tests {
		_, err := Load(tt.path, Options{Env: fakeEnv})
		if want := tt.path + ": " + tt.want; err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", tt.name, err, want)
		}
	}
}

func TestLoadNamesADefaultFile(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "gateway.yaml"), "listen: :1\n")
	_, err := Load(path, Options{})
	want := path + ":1:1: auth.keys_file: " + filepath.Dir(path) + "/keys.yaml (the default): no such file; check the path; a first key makes the file: keys new -c FILE --kind buyer --account ID --api-access paid"
	if !slices.Contains(lines(err), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLoadTakesAByteOrderMark(t *testing.T) {
	_, got := loadText(t, "\ufefflisten: x\n")
	if len(got) != 2 || !strings.HasPrefix(got[1], "gateway.yaml:1:9: listen: ") {
		t.Errorf("got %q", got)
	}
}

// Where keys are looked for far away and callers may come through a proxy, it
// matters whose address a caller has.
func TestWarnsOfUnknownProxies(t *testing.T) {
	const redis, introspection = "redis: {}", "introspection: {url: 'https://id.example/i'}"
	for _, tt := range []struct {
		listen, auth, proxies string
		warns                 bool
	}{
		{"0.0.0.0:8080", redis, "[]", true},
		{":8080", introspection, "[]", true},
		{"10.0.0.1:8080", redis, "[10.0.0.0/8]", false},
		{"0.0.0.0:8080", redis, "[127.0.0.1]", false},
		{"127.0.0.1:8080", redis, "[]", false},
		{"localhost:8080", introspection, "[]", false},
		{"0.0.0.0:8080", "keys_file: keys.yaml", "[]", false},
	} {
		text := strings.NewReplacer("listen: 127.0.0.1:8080", "listen: '"+tt.listen+"'", "trusted_proxies: []", "trusted_proxies: "+tt.proxies,
			"keys_file: keys.yaml", tt.auth, "addrs: []", "addrs: ['a:1']").Replace(example(t))
		loaded, problems := loadText(t, text)
		if problems != nil {
			t.Fatalf("%+v: %v", tt, problems)
		}
		warned := len(loaded.Warnings) == 1 && strings.Contains(loaded.Warnings[0].Error(), "gateway.trusted_proxies: is empty")
		if warned != tt.warns || !warned && len(loaded.Warnings) > 0 {
			t.Errorf("%+v: %v", tt, loaded.Warnings)
		}
	}
}

// What the gateway takes on trust is told: whose list it is, and which zone times are of.
func TestWarnsOfWhatIsNotSaid(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"owner: customer.id", "# owner: customer.id", "upstream.buyer.owner: missing: the gateway cannot see"},
		{", zone: Asia/Seoul", "", "upstream.buyer.fields.created_at: the times name no zone and are read as UTC"},
		{"zone: Asia/Seoul", "zone: UTC", ""},
		{`format: "2006-01-02 15:04:05", zone: Asia/Seoul`, `format: "2006-01-02 15:04:05 -0700"`, ""},
	} {
		loaded, problems := loadText(t, strings.Replace(example(t), tt.old, tt.new, 1))
		if problems != nil || len(loaded.Warnings) > 1 || (len(loaded.Warnings) == 1) != (tt.want != "") ||
			tt.want != "" && !strings.Contains(loaded.Warnings[0].Error(), tt.want) {
			t.Errorf("%s: got %v and the warnings %v", tt.new, problems, loaded.Warnings)
		}
	}
}

// A body is a tree of the writer's own: what is wrong in it is told at its line, and
// variables are put in, but not shown.
func TestABodyIsDecodedAsItIsWritten(t *testing.T) {
	body := "    method: POST\n    body:\n      query: {terms: [{customer: '{account}'}, {state: ['{status}']}]}\n      tenant: ${SECRET}\n      size: 5\n"
	text := strings.Replace(example(t), "    filtering: upstream ", body+"    filtering: upstream ", 1)
	loaded, problems := loadText(t, text)
	if problems != nil {
		t.Fatal(problems)
	}
	tree, _ := loaded.Config.Upstream.Buyer.Body.(map[string]any)
	if tree["tenant"] != "hunter2" || tree["size"] != uint64(5) {
		t.Errorf("decoded as %#v", tree)
	}
	if shown := loaded.Config.Redacted(); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "tenant: ${SECRET}") {
		t.Errorf("shown as\n%s", shown)
	}
	line := 1 + strings.Count(text[:strings.Index(text, "      query: {terms")], "\n")
	want := fmt.Sprintf("gateway.yaml:%d:57: upstream.buyer.body.query.terms[1].state[0]: unknown placeholder {statsu}; known here: {account}, {status}, {inquiry_type}", line)
	if _, got := loadText(t, strings.Replace(text, "'{status}'", "'{statsu}'", 1)); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
