package config

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit/cases"
)

// Each mistake is told at its place, with what to do about it.
func TestMistakesAreTold(t *testing.T) {
	const noUpstream = "1:1: upstream: missing; add the section with base_url, and buyer or seller or both"
	cases.Results(t, "testdata/mistakes.txt", func(t *testing.T, text string) []string {
		c, got := loadText(t, text)
		for i := range got {
			got[i] = strings.TrimPrefix(got[i], "gateway.yaml:")
		}
		if c.Listen != "" || !slices.Contains(got, noUpstream) { // which no text has
			t.Errorf("loaded %s: %q", c, got)
		}
		return slices.DeleteFunc(got, func(line string) bool { return line == noUpstream })
	})
}

// What several values contradict is told at the line of one of them.
func TestMistakesInTheExample(t *testing.T) {
	for _, tt := range []struct{ old, new, want string }{
		{"      title: subject\n", "", "fields:: upstream.buyer.fields.title: "},
		{"title: subject", `title: "a.#(b"`, "title:: upstream.buyer.fields.title"},
		{`format: "2006-01-02 15:04:05", zone: Asia/Seoul}   #`, `format: "yyyy-mm-dd"}   #`, "created_at:: upstream.buyer.fields.created_at.format: "},
		{"timeout: 2s", "timeout: 6s", "timeout:: upstream.timeout: 6s is more than request_timeout (5s), which ends first"},
		{"pending: {ttl: 10s}", "pending: {ttl: 168h}", "buyer:: cache.buyer.by_status.pending.ttl: together with its stale window"},
		{"# introspection: {url: https://..., client_id: gw, client_secret_file: s", "introspection: {url: https://id.internal/x", "keys_file:: auth.keys_file: more than one key store is configured"},
		{"keys_file: keys.yaml", "redis: {}", "redis:: auth.redis: keys are in Redis, but there is none"},
		{"  seller:\n    path", "  sellers:\n    path", `sellers:: upstream.sellers: unknown key; did you mean "seller"?`},
		{"    paging: {style: none} ", "    method: POST\n    body: '{\"token\": \"${NOT_SET}\", \"page\": {page}}'\n    id: uuid\n    paging: {style: page, until_empty: true} ",
			"body:: upstream.buyer.body: the environment variable NOT_SET is not set"},
		{"{customer: \"{account}\"", "{customer: \"{acount}\"", "query:: upstream.buyer.query.customer: unknown placeholder {acount}"},
	} {
		key, message, _ := strings.Cut(tt.want, ":: ")
		text := example(t, tt.old, tt.new)
		_, got := loadText(t, text)
		var line int
		if len(got) == 1 && strings.Contains(got[0], ": "+message) {
			_, _ = fmt.Sscanf(got[0], "gateway.yaml:%d:", &line)
		}
		if at := strings.Split("\n"+text, "\n")[line]; !strings.HasPrefix(strings.TrimSpace(at), key+":") {
			t.Errorf("%s: got\n%s\nwant one at the line of %s:\n%s", tt.new, strings.Join(got, "\n"), key, message)
		}
	}
	for _, empty := range []string{"upstream:\n", "upstream: {}\n"} {
		if _, got := loadText(t, empty); !slices.Equal(got, []string{"gateway.yaml:1:1: upstream: is empty; add base_url, and buyer or seller or both"}) {
			t.Errorf("%q: got %q", empty, got)
		}
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
	for range 300 {
		mutant := append([]string{}, text...)
		i, put := random.IntN(len(mutant)), values[random.IntN(len(values))]
		places := value.FindAllStringIndex(mutant[i], -1)
		if len(places) == 0 {
			continue
		}
		at := places[random.IntN(len(places))]
		mutant[i] = mutant[i][:at[0]] + ": " + put + " " + mutant[i][at[1]:]
		_, err := parsed(strings.Join(mutant, "\n"))
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

// A slow Redis would take all the time of a request.
func TestRedisTimeoutAboveTheRequests(t *testing.T) {
	for redis, want := range map[string]int{"2s": 0, "3s": 1} {
		_, got := loadText(t, example(t, "request_timeout: 5s", "request_timeout: 2s", "addrs: []", `addrs: ["127.0.0.1:6379"], timeout: `+redis))
		if len(got) != want || want == 1 && !strings.Contains(got[0], ": redis.timeout: 3s is more than request_timeout (2s)") {
			t.Errorf("%s: %q", redis, got)
		}
	}
}

// No message has the value of a variable, however short it is: it may be a secret.
func TestMessagesNameVariables(t *testing.T) {
	for _, tt := range []struct{ old, new, want, value string }{
		{"max_records: 10000", "max_records: ${SHORT}", "", `"7"`},
		{"prefix: iq", "prefix: iq, timeout: ${SLOW}", "", "6s"},
		{"max_records: 10000", "max_records: ${WORD}", "got the value of ${WORD}", `"x"`},
		{"addrs: []", `addrs: ["${HOST}"]`, "got the value of ${HOST}", `"db"`},
		{"mode: auto", `mode: "${WORD}"`, "got the value of ${WORD}", `"x"`},
		{"  timeout: 2s", "  timeout: ${SLOW}", "upstream.timeout: ${SLOW} is more than request_timeout", "6s"},
		{"request_timeout: 5s", "request_timeout: ${QUICK}\nshutdown_delay: ${USER}", "got the value of ${USER}", `"u"`},
		{"  timeout: 2s", "  timeout: ${SHORT}s", "upstream.timeout: ${SHORT}s is more than request_timeout", "7s"},
		{`customer: "{account}"`, `customer: "a${BRACED}b"`, "unknown placeholder ${BRACED}", "{hunter}"},
		{"zone: Asia/Seoul}   #", `zone: "${ZONE}"}   #`, "upstream.buyer.fields.created_at.zone: ", `"Q"`},
	} {
		_, err := parsed(example(t, tt.old, tt.new))
		if got := strings.Join(lines(err), "\n"); !strings.Contains(got, tt.want) || strings.Contains(got, tt.value) {
			t.Errorf("%s: got\n%s\nwant %q and no %s", tt.new, got, tt.want, tt.value)
		}
	}
}
