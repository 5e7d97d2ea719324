package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestWhatIsShownLoadsAgain(t *testing.T) {
	c := good(t, example(t))
	if len(c.Warnings()) != 0 {
		t.Errorf("warnings: %v", c.Warnings())
	}
	shown := c.String()
	for _, line := range []string{
		"listen: 127.0.0.1:8080\n", "request_timeout: 5s\n", "stale_if_error: 10m\n", "max_bytes: 256MiB\n",
		"title: subject\n", "default: null\n", `category: "{inquiry_type}"`, "N: pending",
	} {
		if !strings.Contains(shown, line) {
			t.Errorf("%q is not in\n%s", line, shown)
		}
	}
	shown = strings.Replace(shown, `X-Tenant: "[hidden]"`, "X-Tenant: acme", 1)
	if again := strings.Replace(good(t, shown).Redacted(), `X-Tenant: "[hidden]"`, "X-Tenant: acme", 1); again != shown {
		t.Errorf("got\n%s\nwant\n%s", again, shown)
	}
}

// A change of a text is seen whatever the text is, and what is shown loads as what was loaded.
func TestDiffSeesEachText(t *testing.T) {
	const key = "upstream.seller.fields.inquiry_type.default"
	before, err := parsed(example(t))
	must(t, err)
	for _, text := range []string{
		"? unknown", "\n", "a\n", "x\n\n  y\n", " a ", "- x", "a: b", "#x", "%x", "\t", "a\tb", "null", "~", "yes", "1", "010", "1.10", ".nan",
		"", "|", "x\u2028y", "\u0085", "\ufeff", `"`, "'", "*a", "&a", "!t", "---", "...", "[hidden]", "2027-01-01", strings.Repeat("long words ", 30),
	} {
		after, err := parsed(example(t, "default: general", "default: "+strconv.QuoteToASCII(text)))
		must(t, err)
		changes, err := Diff(before.Redacted(), after.Redacted())
		if err != nil || !slices.Equal(changes, []Change{{key, "general", text}}) {
			t.Errorf("%q: %+v, %v", text, changes, err)
		}
		again, err := parsed(strings.Replace(after.Redacted(), `X-Tenant: "[hidden]"`, "X-Tenant: acme", 1))
		if got := again.Upstream.Seller.Fields.InquiryType.Default.Value; err != nil || got != text {
			t.Errorf("%q is shown and loaded as %q, %v", text, got, err)
		}
	}
	if changes, err := Diff(before.Redacted(), "a: ["); err == nil {
		t.Errorf("what is no YAML has the changes %v", changes)
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	c := good(t, example(t, "headers: {X-Tenant: acme}", `headers: {X-Tenant: "${SECRET}", X-Key: hunter2}`,
		`customer: "{account}"`, `customer: "{account}", key: "${SECRET}"`))
	if got := c.Upstream.Headers["X-Tenant"]; got != "hunter2" {
		t.Errorf("the header is %q", got)
	}
	shown := c.Redacted()
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

// What came from a variable is a text, never null, and shown by the variable's name.
func TestVariablesAreShownByName(t *testing.T) {
	for _, name := range []string{"NULL", "TILDE", "EMPTY"} {
		for _, form := range []string{"inquiry_type: {path: category, default: '${" + name + "}'}",
			"inquiry_type:\n        path: category\n        default: ${" + name + "}"} {
			c := good(t, example(t, "inquiry_type: {path: category, default: general}", form))
			if got := c.Upstream.Seller.Fields.InquiryType.Default; got.Null || got.Value != environment[name] {
				t.Errorf("%s: %+v", form, got)
			}
			if shown := c.Redacted(); !strings.Contains(shown, "default: ${"+name+"}") {
				t.Errorf("not shown by its name:\n%s", shown)
			}
		}
	}
}

// What the gateway takes on trust is told: whose list it is, which zone times are of, and
// where callers may come through a proxy, whose address they have.
func TestWarnings(t *testing.T) {
	const owner, zone = "upstream.buyer.owner: missing: the gateway cannot check", "upstream.buyer.fields.created_at: times without a zone are read as UTC"
	const proxies, redis, keys = "gateway.trusted_proxies: is empty, although", "redis: {}", "keys_file: keys.yaml"
	const public, remote = "listen: 127.0.0.1:8080", "addrs: ['a:1']"
	for _, tt := range []struct {
		pairs []string
		want  string
	}{
		{[]string{"owner: customer.id", "# owner: customer.id"}, owner},
		{[]string{", zone: Asia/Seoul", ""}, zone},
		{[]string{"zone: Asia/Seoul", "zone: UTC"}, ""},
		{[]string{`format: "2006-01-02 15:04:05", zone: Asia/Seoul`, `format: "2006-01-02 15:04:05 -0700"`}, ""},
		{[]string{"shutdown_grace: 20s", "shutdown_grace: 4s"}, "shutdown_grace: 4s is less than request_timeout (5s)"},
		{[]string{"trusted_proxies: []", "trusted_proxies: ['::/0']"}, "gateway.trusted_proxies[0]: ::/0 trusts every client"},
		{[]string{public, "listen: 0.0.0.0:8080", keys, redis, "addrs: []", remote}, proxies},
		{[]string{public, "listen: :8080", keys, "introspection: {url: 'https://id.example/i'}"}, proxies},
		{[]string{public, "listen: 10.0.0.1:8080", keys, redis, "addrs: []", remote, "trusted_proxies: []", "trusted_proxies: [127.0.0.1]"}, ""},
		{[]string{keys, redis, "addrs: []", remote}, ""},
		{[]string{public, "listen: 0.0.0.0:8080"}, ""},
	} {
		warnings := good(t, example(t, tt.pairs...)).Warnings()
		if (len(warnings) == 1) != (tt.want != "") || tt.want != "" && !strings.Contains(warnings.Error(), tt.want) {
			t.Errorf("%q: the warnings are %v, want %q", tt.pairs, warnings, tt.want)
		}
	}
}

// One of the two lists may be left out, which is said; what is written for it cannot be meant.
func TestOneListOnly(t *testing.T) {
	buyerOnly, _, _ := strings.Cut(example(t), "  seller:\n    path")
	if warned := good(t, buyerOnly).Warnings().Error(); !strings.Contains(warned, "no list of sellers is served: its path responds with 404") {
		t.Errorf("the warning is %q", warned)
	}
	for text, want := range map[string]string{
		buyerOnly + "  seller: {}\n": "upstream.seller: is empty; add path and fields, or leave it out to serve",
	} {
		if _, got := loadText(t, text); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A body is a tree of the writer's own: variables are put in, but not shown.
func TestABodyIsDecodedAsItIsWritten(t *testing.T) {
	c := good(t, example(t, "    items: result.items ", "    method: POST\n    body:\n      tenant: ${SECRET}\n      size: 5\n    items: result.items "))
	if tree, _ := c.Upstream.Buyer.Body.(map[string]any); tree["tenant"] != "hunter2" || tree["size"] != 5 {
		t.Errorf("decoded as %#v", tree)
	}
	if shown := c.Redacted(); strings.Contains(shown, "hunter2") || !strings.Contains(shown, "tenant: ${SECRET}") {
		t.Errorf("shown as\n%s", shown)
	}
}

// Files are named from the configuration's folder or absolute, read, and watched. What is not set has none.
func TestNamedFiles(t *testing.T) {
	elsewhere := write(t, filepath.Join(t.TempDir(), "ca"), "content-of-ca\n")
	c := good(t, example(t, `pepper_file: ""`, "pepper_file: token", `password_file: ""`, "password_file: "+elsewhere))
	dir := filepath.Dir(c.Path())
	for file, want := range map[string]string{
		c.Auth.KeysFile.Path(): dir + "/keys.yaml", c.Auth.PepperFile.Path(): dir + "/token", c.Redis.PasswordFile.Path(): elsewhere,
	} {
		if file != want || c.Files()[file] == nil {
			t.Errorf("%s: want %s, of %v", file, want, c.Files())
		}
	}
	if text := c.Auth.PepperFile.Text(); text != "content-of-token\n" || len(c.Files()) != 4 {
		t.Errorf("%q, %d files", text, len(c.Files()))
	}
}

// A command that makes files may load a configuration that names them. No other file may miss.
func TestFilesThatMayMiss(t *testing.T) {
	path := write(t, filepath.Join(t.TempDir(), "gateway.yaml"), example(t))
	want := filepath.Dir(path) + "/keys.yaml: no such file; check the path; the first key creates it: keys new -c FILE --kind buyer --account ID --api-access paid"
	if _, err := Load(path, Options{}); len(lines(err)) != 1 || !strings.HasSuffix(err.Error(), "auth.keys_file: "+want) {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := Load(path, Options{KeysMayMiss: true}); err != nil {
		t.Error(err)
	}
	_, err := Load(write(t, path, "listen: :1\n"), Options{})
	if want := ":1:1: auth.keys_file: " + strings.Replace(want, ": no such", " (the default): no such", 1); !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSecretsOpenToEverybodyAreAWarning(t *testing.T) {
	path := folder(t, example(t, `pepper_file: ""`, "pepper_file: token", `tls: {ca_file: ""`, "tls: {ca_file: legacy.ca"))
	for _, name := range []string{"token", "keys.yaml", "legacy.ca"} { // of which one is secret
		must(t, os.Chmod(filepath.Join(filepath.Dir(path), name), 0o644))
	}
	c, err := Load(path, Options{})
	if want := "auth.pepper_file: " + "every user of this machine can read " + filepath.Dir(path) + "/token; set its mode to 640 or 600"; len(c.Warnings()) != 1 ||
		!strings.HasSuffix(c.Warnings()[0].Error(), want) {
		t.Errorf("got %v and warnings %v, want %q", err, c.Warnings(), want)
	}
}

func TestWhatIsNoConfigurationIsRefused(t *testing.T) {
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): ": no such file; check the path",
		dir:                             ": is a folder; name a file",
		"/dev/null":                     ": is not a regular file; it must be one, because it is read again at a reload",
		write(t, filepath.Join(dir, "large"), strings.Repeat("#", 256<<10+1)): ": is larger than 256 KiB; is this the right file?",
		write(t, filepath.Join(dir, "latin"), "listen: \xe9\n"):               ":1:9: is not UTF-8 text; save it as UTF-8",
		write(t, filepath.Join(dir, "binary"), "a\x00b"):                      ":1:2: holds the control character U+0000; is this the right file?",
		write(t, filepath.Join(dir, "bom"), "\ufeff"):                         ": is empty; add at least an upstream section",
	} {
		if _, err := Load(path, Options{}); err == nil || err.Error() != path+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, got := loadText(t, "\ufefflisten: x\n"); len(got) != 2 || !strings.HasPrefix(got[1], "gateway.yaml:1:9: listen: ") {
		t.Errorf("with a byte order mark: %q", got)
	}
}

func FuzzLoad(f *testing.F) {
	f.Add(example(f))
	f.Add("upstream: {buyer: {fields: {title: [a, b], status: {values: {1: x}}}}}\n")
	f.Add("log: &l {sample_hits: *l}\nrate_limit: {per_second: ${PORT}}\nops: {listen: ':0'}\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parsed(text)
		for _, line := range lines(err) {
			if !strings.HasPrefix(line, "gateway.yaml:") {
				t.Errorf("line %q of %q names no file", line, err)
			}
		}
		if err == nil && strings.Contains(c.Redacted(), "cannot be shown") {
			t.Error(c.Redacted())
		}
	})
}
