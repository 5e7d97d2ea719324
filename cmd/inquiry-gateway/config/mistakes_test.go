package config

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"inquiry-gateway/internal/yamlfile"
)

// manyMistakes has one mistake in each line that bears a mark.
const manyMistakes = `listen: localhost                                  # no port
max_connections: 0                                 # bound
shutdown_grace: 20                                 # unit
request_timout: 5s                                 # slip
ops: {listen: "127.0.0.1:90900"}                   # port
gateway:
  unknown_parameters: drop                         # choice
  docs: yes                                        # no truth value
  trusted_proxies: [10.0.0.0/8, proxy.local]       # no network
rate_limit:
  per_second: many                                 # no number
log:
  sample_hits: -1                                  # bound
  access_keys: plain                               # choice
  access_keys: hashed                              # twice
redis:
  addrs: [redis]                                   # no port
  mode: both                                       # choice
  timeout: 1m                                      # bound
  tls: {enabled: maybe}                            # no truth value
cache:
  jitter: 2                                        # bound
  max_entry_bytes: 1                               # bound
  max_bytes: 16 Mb                                 # unit
  buyer: {ttl: 30}                                 # unit
  seller: [30s]                                    # a list
  goals: {max_outdated: 1%}                        # no number
canary:
  every: 1h                                        # bound
upstream:
  base_url: legacy                                 # no URL
  timeout: ${NOPE}                                 # variable
  max_records: "10"                                # quoted
  auth: {type: digest}                             # choice
  breaker: {failure_ratio: 1.5, min_request: 9}    # bound
  buyer:
    query: {a: [b]}                                # a list
    paging: {style: pages}                         # choice
    fields:
      title: COMPLETE_ME                           # draft's mark
      status: {path: state, valuse: {}}            # slip
      created_at: {path: at, zone: Asia/Soul}      # zone
  seller: nothing                                  # a text
`

// Each mistake of a file is told at its line, all of them in one run.
func TestAllMistakesAreTold(t *testing.T) {
	_, err := load(documentOf(manyMistakes), Options{Env: fakeEnv, MayMiss: []string{"auth.keys_file"}})
	text, marked := "\n"+strings.Join(lines(err), "\n"), 0
	for i, line := range strings.Split(manyMistakes, "\n") {
		if strings.Contains(line, "#") {
			marked++
			if !strings.Contains(text, fmt.Sprintf("\ngateway.yaml:%d:", i+1)) {
				t.Errorf("line %d is not told of: %s", i+1, line)
			}
		}
	}
	if marked < 31 {
		t.Errorf("only %d mistakes", marked)
	}
	if t.Failed() {
		t.Log(text)
	}
}

// goWords are what nobody who writes a YAML file should have to know.
var goWords = regexp.MustCompile(`\b(interface|struct|map\[|\[\]|uint\d*|int\d+|float\d+|bool|nil|reflect|strconv|time\.Duration|unmarshal|goroutine|ast\.|yaml\.)`)

// Values put into the example at random never give a word of Go, and a mark of draft's is
// never good.
func TestNoMessageIsOfGo(t *testing.T) {
	text := strings.Split(example(t), "\n")
	values := []string{"[a]", "{a: b}", "[[a], {b: c}]", "-1", "1.5", "1e999", "'5'", "null", "~", "true", "|\n  x", "*a", "${PORT}", "!!int 5", "COMPLETE_ME", "[COMPLETE_ME]", "\"\\u0000\"", "9999999999999999999999"}
	random := rand.New(rand.NewPCG(1, 2))
	value := regexp.MustCompile(`: +[^{\s#][^#,{}]*`)
	for range 800 {
		mutant := append([]string{}, text...)
		i, put := random.IntN(len(mutant)), values[random.IntN(len(values))]
		places := value.FindAllStringIndex(mutant[i], -1)
		if len(places) == 0 {
			continue
		}
		at := places[random.IntN(len(places))]
		mutant[i] = mutant[i][:at[0]] + ": " + put + " " + mutant[i][at[1]:]
		_, err := load(documentOf(strings.Join(mutant, "\n")), Options{Env: fakeEnv, MayMiss: []string{"auth.keys_file"}})
		for _, line := range lines(err) {
			if _, message, _ := strings.Cut(line, ": "); goWords.MatchString(message) {
				t.Errorf("%q: %s", mutant[i], line)
			}
		}
		if before, _, _ := strings.Cut(mutant[i], "#"); err == nil && strings.Contains(before, "COMPLETE_ME") {
			t.Errorf("%q is good", mutant[i])
		}
	}
}

// What came from a variable is shown as the variable, however short it is, and is a text,
// never null.
func TestVariablesAreShownByName(t *testing.T) {
	env := map[string]string{"PORT": "7", "HOST": "db", "MODE": "x", "ZONE": "Q", "NULL": "null", "TILDE": "~", "EMPTY": "", "SLOW": "6s", "USER": "u", "QUICK": "5s"}
	load := func(text string) (Loaded, string) {
		doc := newDocument(yamlfile.Parse("gateway.yaml", text, func(name string) (string, bool) { v, ok := env[name]; return v, ok }))
		doc.Path = "/etc/gw/gateway.yaml"
		loaded, err := load(doc, Options{MayMiss: []string{"auth.keys_file"}})
		return loaded, strings.Join(lines(err), "\n")
	}
	change := func(old, new string) string {
		text := strings.Replace(example(t), old, new, 1)
		if text == example(t) {
			t.Fatalf("%q is not in the example", old)
		}
		return text
	}
	for _, tt := range []struct{ old, new, want, secret string }{
		{"max_records: 10000", "max_records: ${PORT}", "", `"7"`},
		{"prefix: iq", "prefix: iq, timeout: ${SLOW}", "", "6s"},
		{"max_records: 10000", "max_records: ${MODE}", "got the value of ${MODE}", `"x"`},
		{"addrs: []", `addrs: ["${HOST}"]`, "got the value of ${HOST}", `"db"`},
		{"mode: auto", `mode: "${MODE}"`, "got the value of ${MODE}", `"x"`},
		{"  timeout: 2s", "  timeout: ${SLOW}", "upstream.timeout: ${SLOW} is more than request_timeout", "6s"},
		{"request_timeout: 5s", "request_timeout: ${QUICK}\nshutdown_delay: ${USER}", "got the value of ${USER}", `"u"`},
		{"zone: Asia/Seoul}   #", `zone: "${ZONE}"}   #`, "upstream.buyer.fields.created_at.zone: ", `"Q"`},
	} {
		_, got := load(change(tt.old, tt.new))
		if !strings.Contains(got, tt.want) || strings.Contains(got, tt.secret) {
			t.Errorf("%s: got\n%s\nwant %q and no %s", tt.new, got, tt.want, tt.secret)
		}
	}
	for _, name := range []string{"NULL", "TILDE", "EMPTY"} {
		loaded, got := load(change("category, default: general", "category, default: '${"+name+"}'"))
		plain, _ := load(strings.Replace(change("inquiry_type: {path: category, default: general}", "inquiry_type:\n        path: category\n        default: ${"+name+"}"), "\t", " ", -1))
		for _, l := range []Loaded{loaded, plain} {
			field := l.Config.Upstream.Seller.Fields.InquiryType
			if got != "" || field.Default.Null || field.Default.Value != env[name] {
				t.Errorf("%s: %+v, %s", name, field.Default, got)
			}
			if shown := l.Config.Redacted(); !strings.Contains(shown, "default: ${"+name+"}") {
				t.Errorf("not shown by its name:\n%s", shown)
			}
		}
	}
}
