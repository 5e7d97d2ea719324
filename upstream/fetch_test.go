package upstream

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"inquiry-gateway/upstream/mapping"
)

// zipped answers in gzip, without its last bytes.
func zipped(body string, cut int) http.HandlerFunc {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	return coded("gzip", b.String()[:b.Len()-cut])
}

// zippedBadly answers {} in gzip with another checksum than that of its bytes.
func zippedBadly(w http.ResponseWriter, r *http.Request) {
	coded("gzip", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01\x02\x00\xfd\xff{}\x00\x00\x00\x00\x02\x00\x00\x00")(w, r)
}

// coded answers in a content coding.
func coded(coding, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", coding)
		serveAs(200, "application/vnd.legacy+json", body)(w, r)
	}
}

// switching goes on in another protocol, in which nobody says anything.
func switching(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", "websocket")
	w.WriteHeader(http.StatusSwitchingProtocols)
	_ = http.NewResponseController(w).Flush()
	hang(w, r)
}

// Every way to answer wrongly is one word for metrics, and nothing is asked for again.
func TestWrongReplies(t *testing.T) {
	const head = `{"rows":[`
	titles := make([]string, 31)
	blanks := strings.Repeat(" ", 100_000)
	for name, tc := range map[string]struct {
		serve  http.HandlerFunc
		result string
		reason string
	}{
		"a login page":            {serveAs(200, "text/html", "<html>s3cr3t"), "invalid", "media_type"},
		"XML":                     {serveAs(200, "text/xml", "<a/>"), "invalid", "media_type"},
		"no media type":           {serveAs(200, "", rows("")), "invalid", "media_type"},
		"a strange media type":    {serveAs(200, "a/b/c", rows("")), "invalid", "media_type"},
		"a login page as JSON":    {serveJSON("<html>s3cr3t"), "invalid", "json"},
		"an empty body":           {serveJSON(""), "invalid", "json"},
		"an error with 200":       {serveJSON(`{"error":"s3cr3t"}`), "invalid", "items"},
		"a name twice":            {serveJSON(`{"rows":[],"rows":[]}`), "invalid", "json"},
		"deep":                    {serveJSON(strings.Repeat("[", 5000)), "invalid", "json"},
		"not UTF-8":               {serveJSON("{\"rows\":[],\"x\":\"\xc3\x28\"}"), "invalid", "json"},
		"too many records":        {serveJSON(rows("", titles...)), "invalid", "too_many"},
		"too large":               {serveJSON(head + blanks + "]}"), "invalid", "too_large"},
		"another coding":          {coded("br", "x"), "invalid", "encoding"},
		"gzip that is none":       {coded("gzip", "this is no gzip stream"), "invalid", "encoding"},
		"gzip that grows":         {zipped(strings.Repeat(blanks, 100), 0), "invalid", "too_large"},
		"gzip that is cut off":    {zipped(rows(""), 12), "upstream", "truncated"},
		"gzip with a wrong sum":   {zippedBadly, "invalid", "encoding"},
		"another protocol":        {switching, "upstream", "status_5xx"},
		"no status that there is": {status(600), "upstream", "status_5xx"},
		"nor that":                {status(999), "upstream", "status_5xx"},
		"a head that is too big":  {coded(strings.Repeat("x", 100_000), ""), "upstream", "read"},
	} {
		virtual(t, tc.serve, "{max_response_bytes: 50000, max_records: 30}", func(t *testing.T, f *fixture) {
			list, err := f.Fetch(t.Context(), acme)
			e := asError(err)
			if err == nil || string(e.Result()) != tc.result || e.Reason != tc.reason || list.Inquiries != nil {
				t.Errorf("%s: %v", name, err)
			}
			told := err.Error() + f.log.String()
			if f.calls.Load() != 1 || f.metric(t, "requests_total", "buyer", tc.result) != 1 || strings.Contains(told, "s3cr3t") {
				t.Errorf("%s: %d requests, %s", name, f.calls.Load(), told)
			}
		})
	}
}

// Replies in gzip, without their length, and in another charset are read.
func TestOtherReplies(t *testing.T) {
	flushed := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, rows("", "café"))
	}
	for name, tc := range map[string]struct {
		serve http.HandlerFunc
		keys  string
		want  string // a title, or the reason
	}{
		"gzip":           {zipped(rows("", "café"), 0), "", "café"},
		"without length": {flushed, "", "café"},
		"Latin-1":        {serveJSON(rows("", "caf\xe9")), "buyer: {reply: {charset: windows-1252}}", "café"},
		"not in charset": {serveJSON(rows("", "caf\x81")), "buyer: {reply: {charset: windows-1252}}", "charset"},
	} {
		virtual(t, tc.serve, tc.keys, func(t *testing.T, f *fixture) {
			for range 2 {
				list, err := f.Fetch(t.Context(), acme)
				got := titles(list)
				if err != nil {
					got = asError(err).Reason
				}
				if got != tc.want {
					t.Errorf("%s: %q %v", name, got, err)
				}
			}
		})
	}
}

// However the bytes arrive and whatever was announced, all of them are read, or the reply
// is refused.
func TestReadAll(t *testing.T) {
	const most = 300_000
	broken := errors.New("broken")
	ways := map[string]func(io.Reader) io.Reader{
		"as it is":          func(r io.Reader) io.Reader { return r },
		"in halves":         iotest.HalfReader,
		"end with the data": iotest.DataErrReader,
		"broken":            func(r io.Reader) io.Reader { return io.MultiReader(r, iotest.ErrReader(broken)) },
	}
	for _, n := range []int{0, 1, 4095, 4096, 4097, 65535, 65536, 131073, most, most + 1, 2 * most} {
		want := strings.Repeat("0123456789abcdef", n/16+1)[:n]
		for way, from := range ways {
			for _, announced := range []int64{int64(n), -1, 0, 10, int64(n) + 5000} {
				resp := &http.Response{Body: io.NopCloser(from(strings.NewReader(want))), ContentLength: announced}
				got, err := readAll(resp, newAllowance(most, nil))
				var e *Error
				good := err == nil && got == want
				switch {
				case n > most || announced > most:
					good = errors.As(err, &e) && e.Reason == "too_large"
				case way == "broken":
					good = errors.Is(err, broken)
				}
				if !good {
					t.Errorf("%d %s, announced %d: %d bytes, %v", n, way, announced, len(got), err)
				}
			}
		}
	}
}

// max_response_bytes bounds what a list holds while its replies come, not only when they
// are there.
func TestRepliesAreBoundedTogether(t *testing.T) {
	const limit = 64 << 10
	for _, announced := range []string{"", strconv.Itoa(limit / 2)} {
		virtual(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/list" {
				serveJSON(`{"rows":[`+strings.Repeat(`{"id":"1","t":"a",`+good+`},`, 7)+`{"id":"1","t":"a",`+good+`}]}`)(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			if announced != "" {
				w.Header().Set("Content-Length", announced)
			}
			_, _ = w.Write(make([]byte, limit/2-1)) // each below the limit, and no reply ends
			_ = http.NewResponseController(w).Flush()
			hang(w, r)
		}, `{max_response_bytes: 65536, buyer: {fields: {responses: {fetch: {path: "/n/{id}", id: id, paging: {style: none}}}}}}`, func(t *testing.T, f *fixture) {
			begin := time.Now()
			if reason := buyer(t, f.Client, "acme"); reason != "too_large" || time.Since(begin) > 0 {
				t.Errorf("announced %q: %s after %v", announced, reason, time.Since(begin))
			}
		})
	}
}

// max_total_response_bytes bounds what all fetches in progress hold, whether replies announce their length or not. A
// refused one gives back what it has, and the last quarter is for small lists.
func TestRepliesOfAllFetchesAreBounded(t *testing.T) {
	const keys = "{max_response_bytes: 65536, max_total_response_bytes: 131072, max_concurrent: 8, max_concurrent_per_account: 8}"
	for _, announced := range []bool{true, false} {
		var gate chan struct{}
		virtual(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("customer") == "small" {
				serveJSON(rows("", "a"))(w, r)
				return
			}
			body := rows(`,"more":"`+strings.Repeat("x", 44<<10)+`"`, "a")
			w.Header().Set("Content-Type", "application/json")
			if announced {
				w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			}
			_, _ = io.WriteString(w, body[:len(body)-1])
			_ = http.NewResponseController(w).Flush()
			select {
			case <-gate:
				_, _ = io.WriteString(w, body[len(body)-1:])
			case <-r.Context().Done():
			}
		}, keys, func(t *testing.T, f *fixture) {
			gate = make(chan struct{}) // of synctest
			results := make(chan string, 4)
			for i := range cap(results) { // two fit into 96 KiB
				go func() { results <- buyer(t, f.Client, fmt.Sprint("large", i)) }()
				synctest.Wait()
			}
			if a, b := <-results, <-results; a != "replies_full" || b != "replies_full" || f.BreakerState("buyer", "") != "closed" {
				t.Errorf("announced %v, beyond the bound: %s and %s", announced, a, b)
			}
			next := f.next(t, f.cfg) // what is in flight counts after a reload, too
			if small, large := buyer(t, next, "small"), buyer(t, next, "large9"); small != "ok" || large != "replies_full" {
				t.Errorf("announced %v, meanwhile: small %s, large %s", announced, small, large)
			}
			close(gate)
			if a, b := <-results, <-results; a != "ok" || b != "ok" || f.places.bytes.used.Load() != 0 {
				t.Errorf("announced %v, within the bound: %s and %s; %d bytes are held at the end", announced, a, b, f.places.bytes.used.Load())
			}
			if n := f.metric(t, "refused_total", "replies_full"); n != 3 {
				t.Errorf("%v refusals are counted, want 3", n)
			}
		})
	}
}

// A reply that is no JSON is refused for that, whatever of it is read before its records.
func TestMalformedReplies(t *testing.T) {
	const page = "buyer: {paging: {style: page, param: p, %s}}"
	reads := map[string]string{
		"expect":      "buyer: {expect: [{path: v, is: [0, null]}]}",
		"a look-up":   "buyer: {fields: {title: {path: t, lookup: {in: table, key: v, by: s}}}}",
		"look-ups":    "buyer: {fields: {responses: {lookup: {in: table, key: [s, v], by: [s, v]}}}}",
		"renew_if":    `{auth: {type: session, password_file: x, login: {path: /login, body: ["{password}"]}, token: {json: t}, renew_if: [{path: v, is: 1}]}}`,
		"total":       fmt.Sprintf(page, "total: v"),
		"total_pages": fmt.Sprintf(page, "total_pages: v"),
		"last":        fmt.Sprintf(page, "last: {path: v, is: true}"),
		"cursor":      "buyer: {paging: {style: cursor, param: p, next: v}}",
		"next":        "buyer: {paging: {style: next_url, next: v}}",
	}
	for read, keys := range reads {
		for _, value := range []string{`"\u1"`, `"\u12G4"`, `"\ud83d\u1"`, `"\x"`, "\"\x00\"", `"\`, `"\u`, `"\u1`, `"`, strings.Repeat(`[`, 1<<14)} {
			for _, body := range []string{`{"v":` + value, `{"table":[{"s":"N","t":"x","v":` + value, `{"rows":[],"v":` + value + `}`, `{"v":` + value + `,"rows":[],"table":[{"v":` + value + `}]}`} {
				virtual(t, func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/login" {
						serveJSON(`{"t":"x"}`)(w, r)
						return
					}
					serveJSON(body)(w, r)
				}, keys, func(t *testing.T, f *fixture) {
					short := body[:min(len(body), 60)]
					if got := buyer(t, f.Client, "acme"); got != "json" {
						t.Errorf("%s, %s: %s", read, short, got)
					}
					if p, err := f.Explain(t.Context(), acme, 3, false); err != nil || asError(p.Problem).Reason != "json" {
						t.Errorf("%s, %s, explained: %v %v", read, short, p.Problem, err)
					}
					if p, err := f.ExplainReply(acme, 3, []byte(body)); err != nil || asError(p.Problem).Reason != "json" {
						t.Errorf("%s, %s, saved: %v %v", read, short, p.Problem, err)
					}
				})
			}
		}
	}
}

// What look-ups give counts as often as it is named, so that a small reply is no large list:
// of an entry of 60 KB that is named 7,000 times 400 MB would be held.
func TestLookupsAreBounded(t *testing.T) {
	entry := func(text string) string {
		return `{"k":1,"c":"` + strings.Repeat(text, 60_000/len(text)) + `",` + good + `}`
	}
	for what, keys := range map[string]string{
		"responses": "responses: {items: by, lookup: {in: table, key: k, by: k}}",
		"a text":    "content: {path: c, lookup: {in: table, key: k, by: by.0.k}}",
	} {
		for text, entry := range map[string]string{"plain": entry("x"), "escaped": entry(`\n`)} {
			for names, reason := range map[int]string{1: "ok", 20: "ok", 7_000: "too_large"} {
				body := `{"rows":[{"t":"a",` + good + `,"by":[` + strings.Repeat(`{"k":1},`, names-1) + `{"k":1}]}],"table":[` + entry + `]}`
				if what == "a text" {
					record := `{"t":"a",` + good + `,"by":[{"k":1}]}`
					body = `{"rows":[` + strings.Repeat(record+",", names-1) + record + `],"table":[` + entry + `]}`
				}
				virtual(t, serveJSON(body), "{max_response_bytes: 2097152, buyer: {fields: {"+keys+"}}}", func(t *testing.T, f *fixture) {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					got := buyer(t, f.Client, "acme")
					runtime.ReadMemStats(&after)
					if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; got != reason || allocated > 32 {
						t.Errorf("%s, %s, named %d times in a reply of %d KB: %s, %d MiB", what, text, names, len(body)>>10, got, allocated)
					}
				})
			}
		}
	}
}

// A fingerprint changes with what decides on its kind's list, and with nothing else.
func TestFingerprint(t *testing.T) {
	of := func(change func(*Config)) map[string]string {
		cfg := configFrom(t, section)
		change(&cfg)
		c, err := New(cfg, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c.Fingerprints()
	}
	before := of(func(*Config) {})
	for name, tc := range map[string]struct {
		change        func(*Config)
		buyer, seller bool // stay
	}{
		"timeout":  {func(c *Config) { c.Timeout = time.Second }, true, true},
		"a field":  {func(c *Config) { c.Buyer.Fields.Title.Path = mapping.Paths{"x"} }, false, true},
		"base_url": {func(c *Config) { c.BaseURL = "http://other" }, false, false},
		"headers":  {func(c *Config) { c.Headers = map[string]string{"X-Tenant": "b"} }, false, false},
	} {
		if got := of(tc.change); (got["buyer"] == before["buyer"]) != tc.buyer || (got["seller"] == before["seller"]) != tc.seller {
			t.Errorf("%s: %v, before %v", name, got, before)
		}
	}
	if before["buyer"] == "" || before["buyer"] == before["seller"] {
		t.Errorf("%v", before)
	}
}

// Of a configuration with one list the other is not asked for, and a reload may add it.
func TestOneListOnly(t *testing.T) {
	cfg := configFrom(t, section)
	cfg.Seller = DefaultConfig().Seller
	one, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Fetch(t.Context(), Request{Kind: "seller", Account: "a"}); err == nil || len(one.Fingerprints()) != 1 {
		t.Errorf("the list that there is not: %v; lists %v", err, one.Fingerprints())
	}
	both, err := New(configFrom(t, section), Options{Before: one})
	if err != nil || both.BreakerState("seller", "") != "closed" || one.BreakerState("seller", "") != "" {
		t.Errorf("with both: %v", err)
	}
}

// A trace that is not recorded goes on at the legacy as one that is not. What is sent of
// others is a test of the program.
func TestTraceOfWhatIsNotRecorded(t *testing.T) {
	var sent string
	virtual(t, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Get("traceparent")
		serveJSON(rows(""))(w, r)
	}, "", func(t *testing.T, f *fixture) {
		never := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
		c := f.another(t, f.cfg, func(o *Options) { o.Traces = never })
		if got := buyer(t, c, "acme"); got != "ok" || len(sent) != 55 || sent[52:] != "-00" {
			t.Errorf("%s, sent %q", got, sent)
		}
	})
}
