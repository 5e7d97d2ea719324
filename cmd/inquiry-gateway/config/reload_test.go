package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/secretfile"
	"inquiry-gateway/internal/testkit"
	"inquiry-gateway/internal/yamlfile"
)

func TestWhatIsNotLiveIsAKey(t *testing.T) {
	for name := range notLive {
		if !slices.ContainsFunc(keysOf(), func(key string) bool { return key == name || yamlfile.Under(key, name) }) {
			t.Errorf("%s is no key", name)
		}
	}
}

// effectTable is the README's table: a section all of whose keys have the same
// effect stands for them.
func effectTable() string {
	sections := map[string][]Effect{}
	for _, key := range keysOf() {
		section, _, _ := strings.Cut(key, ".")
		sections[section] = append(sections[section], effectOf(key))
	}
	names := map[Effect][]string{}
	for _, key := range keysOf() {
		name, _, _ := strings.Cut(key, ".")
		if len(slices.Compact(slices.Clone(sections[name]))) > 1 {
			name = key
		}
		if effect, name := effectOf(key), "`"+name+"`"; !slices.Contains(names[effect], name) {
			names[effect] = append(names[effect], name)
		}
	}
	return "| a change of | counts after a |\n|---|---|\n" +
		"| " + strings.Join(names[Live], ", ") + " | " + string(Live) + " |\n" +
		"| " + strings.Join(names[toggle], ", ") + " | " + string(Live) + "; " + string(toggle) + " |\n" +
		"| " + strings.Join(names[Restart], ", ") + " | " + string(Restart) + " |\n"
}

func TestDocsHaveTheEffects(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/operation.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := "<!-- reload -->\n" + effectTable() + "<!-- /reload -->\n"; !strings.Contains(string(doc), want) {
		t.Errorf("docs/operation.md does not have\n%s", want)
	}
}

// reloaded loads the example with one change, and reloads it with another.
func reloaded(t *testing.T, running, next func(text string) string) (Config, Config, []string, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "keys.yaml"), "keys: []\n")
	write(t, filepath.Join(dir, "secret"), "one secret of 16 bytes\n")
	file := write(t, filepath.Join(dir, "gateway.yaml"), running(example(t)))
	loaded, err := Load(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, next(example(t)))
	write(t, filepath.Join(dir, "secret"), "another one of 16 bytes\n")
	now, waiting, err := loaded.Config.Reload(Options{})
	return loaded.Config, now, waiting, err
}

func replacing(pairs ...string) func(string) string {
	return strings.NewReplacer(pairs...).Replace
}

func TestReloadKeepsWhatRuns(t *testing.T) {
	before, after, waiting, err := reloaded(t, replacing(`password_file: ""`, "password_file: secret", `addrs: []`, `addrs: ["h:1"]`),
		replacing(`password_file: ""`, "password_file: secret", `addrs: []`, `addrs: ["h:1"]`, "listen: 127.0.0.1:8080", "listen: 127.0.0.1:8081", "prefix: iq", "prefix: other", "request_timeout: 5s", "request_timeout: 6s"))
	if err != nil || !slices.Equal(waiting, []string{"listen", "redis.password_file", "redis.prefix"}) {
		t.Errorf("%q wait, %v", waiting, err)
	}
	if after.Listen != before.Listen || after.Redis.Prefix != "iq" || after.RequestTimeout == before.RequestTimeout {
		t.Errorf("runs %s, %s, %s", after.Listen, after.Redis.Prefix, after.RequestTimeout)
	}
	if _, again, _ := after.Reload(Options{}); !slices.Equal(again, waiting) {
		t.Errorf("the second time %q wait", again)
	}
}

func TestReloadTurnsTLSNeitherOnNorOff(t *testing.T) {
	pair := filepath.Join(t.TempDir(), "pair.pem")
	authority, err := testkit.NewAuthority("gateway")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue("gateway")
	if err != nil {
		t.Fatal(err)
	}
	write(t, pair, string(cert)+string(key))
	_, after, waiting, err := reloaded(t, replacing(), replacing(`tls: {cert_file: "", key_file: ""}               #`, "tls: {cert_file: "+pair+", key_file: "+pair+"} #"))
	if err != nil || !slices.Equal(waiting, []string{"tls.cert_file", "tls.key_file"}) || after.TLS != (secretfile.Pair{}) {
		t.Errorf("%q wait, %v, runs %+v", waiting, err, after.TLS)
	}
}

func TestSameLooksIntoFiles(t *testing.T) {
	with := replacing(`pepper_file: ""`, "pepper_file: secret", "addrs: []", "addrs: ")
	before, after, _, err := reloaded(t, with, with)
	if err != nil || before.Same(after, "auth") || !before.Same(after, "redis", "cache", "listen", "upstream") {
		t.Errorf("pepper the same: %t, redis: %t, %v", before.Same(after, "auth"), before.Same(after, "redis"), err)
	}
}

func TestEffectOfAChange(t *testing.T) {
	for change, want := range map[Change]Effect{
		{"redis.addrs[0]", "", "h:1"}:         Restart,
		{"upstream.buyer.fields.x", "a", "b"}: Live,
		{"tls.cert_file", "a", "b"}:           Live,
		{"tls.cert_file", "", "b"}:            Restart,
		{"of.another.version", "a", ""}:       Restart,
		{"listener", "a", "b"}:                Restart,
		{"request_timeout", "1s", "2s"}:       Live,
	} {
		if got := change.Effect(); got != want {
			t.Errorf("%+v: %s", change, got)
		}
	}
}
