package gateway

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/connlimit"
	"inquiry-gateway/internal/testkit"
)

// A conversation is all that one caller sends on one connection. The same one is held
// with a gateway whose front is on and with one whose front is off. What they answer,
// log and count must be the same.
type conversation []step

type step struct {
	text string
	wait bool // until the server waits for more
}

// hold holds the conversation in a bubble of synctest and gives all that was answered. A
// slow caller reads nothing before it has sent everything.
func (s *testGateway) hold(c conversation, peer net.Addr, slow bool) []byte {
	caller := s.connect(peer)
	answers, read := make(chan []byte, 1), make(chan struct{})
	go func() {
		<-read
		b, _ := io.ReadAll(caller)
		answers <- b
	}()
	if !slow {
		close(read)
	}
	for _, step := range c {
		if _, err := io.WriteString(caller, step.text); err != nil {
			break // the server has closed the connection
		}
		if step.wait {
			synctest.Wait()
		}
	}
	synctest.Wait()
	if slow {
		close(read)
	}
	_ = caller.CloseWrite()
	all := <-answers
	_ = caller.Close()
	synctest.Wait() // until it is logged
	return all
}

// varying is what differs between two runs of one conversation: ids, dates, durations. Each
// begins with a text, by which regexp finds it ten times as fast.
var varying = []*regexp.Regexp{
	regexp.MustCompile(`_id":"[0-9a-f]{32}`), regexp.MustCompile(`"id":"[0-9a-f]{32}`), regexp.MustCompile(`Id: [0-9a-f]{32}`),
	regexp.MustCompile(`Date: .*`), regexp.MustCompile(`seconds":[0-9.]+`), regexp.MustCompile(`time":"[^"]*`),
}

func withoutVarying(line []byte) []byte {
	for _, v := range varying {
		line = v.ReplaceAllLiteral(line, []byte("*"))
	}
	return line
}

// sameText compares texts but for what varies. Most lines are the same to the byte.
func sameText(a, b []byte) bool {
	return slices.EqualFunc(bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n")), func(a, b []byte) bool {
		return bytes.Equal(a, b) || bytes.Equal(withoutVarying(a), withoutVarying(b))
	})
}

// firstDifference is where the first line begins that is another one, but for what varies.
func firstDifference(got, want []byte) (at int) {
	for len(got) > 0 {
		line, rest, _ := bytes.Cut(got, []byte("\n"))
		other, otherRest, _ := bytes.Cut(want, []byte("\n"))
		if !sameText(line, other) {
			break
		}
		at += len(got) - len(rest)
		got, want = rest, otherRest
	}
	return at
}

// counters are all series of a testGateway that count. The cache adds up its bytes and entries some time
// later.
func (s *testGateway) counters(tb testing.TB) string {
	families, err := s.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	other := regexp.MustCompile(`cache_local_bytes$|cache_entries$`)
	var b strings.Builder
	for _, f := range families {
		if other.MatchString(f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			fmt.Fprintln(&b, f.GetName(), m.GetLabel(), m.GetCounter().GetValue()+m.GetGauge().GetValue(), m.GetHistogram().GetSampleCount())
		}
	}
	return b.String()
}

// pair holds conversations with both.
type pair struct{ front, plain *testGateway }

func newPair(tb testing.TB, config *tls.Config) pair {
	off := func(o *Options) { o.FastPath = false }
	return pair{newTestGateway(tb, setting{tls: config}), newTestGateway(tb, setting{tls: config, options: off})}
}

// hold reports what differs; empty: nothing.
func (p pair) hold(c conversation, peer net.Addr, slow bool) string {
	p.front.clock.Add(3 * time.Second)
	p.plain.clock.Add(3 * time.Second)
	if got, want := p.front.hold(c, peer, slow), p.plain.hold(c, peer, slow); !sameText(got, want) {
		at := firstDifference(got, want)
		return fmt.Sprintf("answered, from byte %d of %d\n%.3000q\nwant, of %d bytes\n%.3000q\nafter\n%#v", at, len(got), got[at:], len(want), want[min(at, len(want)):], c)
	}
	if got, want := p.front.logs.Take(), p.plain.logs.Take(); !sameText([]byte(got), []byte(want)) {
		return fmt.Sprintf("logged\n%s\nwant\n%s\nafter\n%#v", got, want, c)
	}
	return ""
}

func (p pair) counted(tb testing.TB) string {
	if got, want := p.front.counters(tb), p.plain.counters(tb); got != want {
		return fmt.Sprintf("counted\n%s\nwant\n%s", got, want)
	}
	return ""
}

// choices are those of a fuzzer, which can change them one by one. Past their end all are
// the first.
type choices struct{ b []byte }

func (c *choices) Uint64() uint64 {
	if len(c.b) == 0 {
		return 1 << 32 // rand takes 0 for one more try
	}
	v := uint64(c.b[0])
	c.b = c.b[1:]
	return v * 0x0101010101010101 // rand looks at the first bits or at the last
}

func oneOf[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

var (
	peers   = []net.Addr{&net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 9), Port: 4000}} // a stranger, a proxy
	targets = []string{
		buyersList, buyersList + "?status=pending", buyersList + "?inquiry_type=large", buyersList + "?status=a&inquiry_type=b",
		"/api/v1/seller/inquiries", buyersList + "?", buyersList + "?status=%61", buyersList + "?status=pending&status=pending",
		buyersList + "?other=1", buyersList + "?status=%zz", buyersList + "?a b", buyersList + "/", buyersList + "#x", "/" + buyersList,
		"/api/v1/buyer%2Finquiries", "/api/v1/buyer/%69nquiries", "http://gateway" + buyersList, "*", "/nowhere",
	}
	otherLines = []string{
		"HEAD " + buyersList + " HTTP/1.1", "POST " + buyersList + " HTTP/1.1", "get " + buyersList + " HTTP/1.1",
		"GET " + buyersList + " HTTP/1.0", "GET " + buyersList + "  HTTP/1.1", "GET " + buyersList + " HTTP/1.10", "GET " + buyersList,
		"PRI * HTTP/2.0", "OPTIONS * HTTP/1.1", "CONNECT gateway:80 HTTP/1.1", "",
	}
	fieldLines = []string{
		"Accept-Encoding: gzip", "Accept-Encoding: zstd, gzip;q=0.5", "accept-encoding: br", "If-None-Match: *", `If-None-Match: "x", W/"y"`,
		"Connection: keep-alive", "User-Agent: a/1", "X-Request-Id: theirs-1", "X-Request-Id: a b", "X-Forwarded-For: 203.0.113.9, 192.0.2.3",
		"Traceparent: " + foreignParent, "Connection: close", "Connection: upgrade", "Content-Length: 0", "Content-Length: 5",
		"Content-Length: +0", "Content-Length : 3", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Expect: 100-continue",
		"Expect: x", "Upgrade: h2c", "Trailer: X", "Host: other", "Host: a b", "Authorization: Bearer key-of-globex", "authorization : Bearer x",
		"X-A: b\r\n c: d", " X-Folded: y", "X-Bad\x00: y", "X-B: \x01", "X-C: \xff", "X-Y: \t y \t", ": y", "no colon", "",
		"Cookie: " + strings.Repeat("c", 5000),
	}
	keys = []string{"acme", "acme", "acme", "globex", "globex", "vendor", "tight", "revoked", "scopeless", "unpaid", "nobody"}
	// What a header in the wrong place, or a body, leaves behind.
	remainders = []string{"hello", "5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n", "\r\n", "GET", hitOf("globex", buyersList)}
)

// drawUsual takes mostly one of the first, which keep a request canonical.
func drawUsual(r *rand.Rand, all []string, usual int) string {
	if r.IntN(16) == 0 {
		return oneOf(r, all...)
	}
	return oneOf(r, all[:usual]...)
}

func drawRequest(r *rand.Rand) string {
	target := drawUsual(r, targets, 5)
	if r.IntN(16) == 0 {
		target = fmt.Sprint(buyersList, "?status=", r.IntN(1000)) // mostly a miss
	}
	line := "GET " + target + " HTTP/1.1"
	if r.IntN(24) == 0 {
		line = oneOf(r, otherLines...)
	}
	all := []string{line, "Host: gateway", "Authorization: Bearer key-of-" + drawUsual(r, keys, 7)}
	for range r.IntN(4) {
		all = append(all, drawUsual(r, fieldLines, 10))
	}
	for r.IntN(24) == 23 { // one head in 24 is large, one in some hundred too large
		all = append(all, oneOf(r, "Cookie: ", "cookie: ", "X-Large: ")+strings.Repeat("c", r.IntN(9000)))
	}
	if r.IntN(16) == 0 { // one line less
		i := r.IntN(len(all))
		all = slices.Delete(all, i, i+1)
	}
	end := "\r\n"
	if r.IntN(48) == 0 {
		end = oneOf(r, "\n", "\r", "\r\r\n")
	}
	text := strings.Join(all, end) + end + end
	if r.IntN(32) == 0 {
		text += oneOf(r, remainders...)
	}
	return text
}

// drawConversation makes requests, and cuts what is sent into pieces.
func drawConversation(r *rand.Rand) (c conversation) {
	last := drawRequest(r)
	for range 1 + r.IntN(8) {
		text := last
		if r.IntN(3) == 0 {
			text = drawRequest(r)
			last = text
		}
		if r.IntN(32) == 0 && len(text) > 0 { // one byte is another one
			i := r.IntN(len(text))
			text = text[:i] + string(rune(r.IntN(256))) + text[i+1:]
		}
		for r.IntN(12) == 0 && len(text) > 1 {
			cut := 1 + r.IntN(len(text)-1)
			c = append(c, step{text[:cut], r.IntN(2) == 0})
			text = text[cut:]
		}
		c = append(c, step{text, r.IntN(8) != 0})
	}
	return c
}

// On the first request of a connection net/http stops at 20 KiB without an end of the head. On
// the others it does not count what came with the first bytes, at most its buffer of 4 KiB.
// After an answer of the front its first request is a later one to the caller: between the
// two sizes the answers may differ.
const leastTooLarge, surelyTooLarge = 20_300, 24_800

// uncertain says whether a head, or what the server takes for one, may be of such a size.
func (c conversation) uncertain() bool {
	var all strings.Builder
	for _, step := range c {
		all.WriteString(step.text)
	}
	return slices.ContainsFunc(strings.Split(strings.ReplaceAll(all.String(), "\r\n", "\n"), "\n\n"), func(head string) bool {
		return len(head)+strings.Count(head, "\n") >= leastTooLarge && len(head) <= surelyTooLarge
	})
}

// once are conversations in which the two have differed.
var once = []conversation{
	{{"\x00", true}, {hitOf("acme", buyersList)[1:], true}},
	{{hitOf("acme", buyersList), true}, {"G", true}},
	{{hitOf("acme", buyersList), true}, {"GE", true}, {"T", true}},
	{{"PRI * HTTP/2.0\r\nHost: gateway\r\n\r\n", false}},
}

// Whatever a caller sends, however it is cut, the answers of the front are those of
// net/http and Gin, to the byte, and so is what is logged and counted.
func FuzzConversations(f *testing.F) {
	for seed := range uint64(20) {
		b := make([]byte, 100)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			p, r := newPair(t, nil), rand.New(&choices{b})
			peer, c := oneOf(r, peers...), drawConversation(r)
			if c.uncertain() {
				return
			}
			if diff := cmp.Or(p.hold(c, peer, false), p.counted(t)); diff != "" {
				t.Error(diff)
			}
			time.Sleep(time.Minute) // net/http waits for some callers before it closes
		})
	})
}

// TestConversations holds 3,000; one in conversationsSecure has TLS, which costs ten times as
// much. Far more is a matter of a quiet night:
// LANE_CONVERSATIONS=10000000 go test -timeout 0 -run TestConversations ./gateway
func TestConversations(t *testing.T) {
	testkit.SkipShort(t)
	const conversationsSecure = 16
	n, seed := int(testkit.Number(t, "LANE_CONVERSATIONS", 3000)), testkit.Seed(t)
	config := secureConfig(t)
	synctest.Test(t, func(t *testing.T) {
		clear, secure := newPair(t, nil), newPair(t, config)
		r := rand.New(rand.NewPCG(seed, 2))
		for i := range n {
			p, slow, peer, c := clear, r.IntN(8) == 0, oneOf(r, peers...), drawConversation(r)
			if i%conversationsSecure == 0 {
				p = secure
			}
			if i < len(once) {
				c = once[i]
			}
			if c.uncertain() {
				continue
			}
			diff := p.hold(c, peer, slow)
			if diff == "" && i%100 == 0 {
				diff = p.counted(t)
			}
			if diff != "" {
				t.Fatalf("conversation %d of seed %d: %s", i, seed, diff)
			}
		}
		time.Sleep(time.Minute) // net/http waits for some callers before it closes
		t.Logf("seed %d: %d and %d requests on the fast path", seed, clear.front.fast.Load(), secure.front.fast.Load())
	})
}

// Callers of different accounts ask at once over connections that they drop in the
// middle of answers. Nobody ever gets a byte that is not of their own answer. A quarter of
// the LANE_CHURN requests is sent with TLS, which costs three times as much.
func TestForeignBytes(t *testing.T) {
	testkit.SkipShort(t)
	seed := testkit.Seed(t)
	for name, n := range map[string]int{"clear": 3, "TLS": 1} {
		t.Run(name, func(t *testing.T) {
			n *= int(testkit.Number(t, "LANE_CHURN", 40_000)) / 4
			s := newTestGateway(t, setting{options: func(o *Options) { o.RequestLog = io.Discard }})
			dial := s.listen(t, name == "TLS")
			var compared atomic.Int64
			var group sync.WaitGroup
			for i, account := range []string{"acme", "globex", "vendor", "acme", "globex", "vendor", "acme", "globex"} {
				c := newChurner(t, s, account, dial, rand.New(rand.NewPCG(seed, uint64(i))))
				group.Go(func() {
					for compared.Load() < int64(n) && !t.Failed() {
						compared.Add(int64(c.connect()))
					}
				})
			}
			group.Wait()
			t.Logf("%d answers compared, %d requests on the fast path, seed %d", compared.Load(), s.fast.Load(), seed)
		})
	}
}

// listen serves on a socket, too. On a busy machine any time may pass between two steps, so
// there are no deadlines.
func (s *testGateway) listen(t *testing.T, secure bool) (dial func() halfConn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.gateway.opts.WriteTimeout = 0
	server, opts := &http.Server{Handler: s, ConnContext: connlimit.ConnContext}, front.Options{Serves: s.handler.OnFastPath, Fields: Fields()}
	if secure {
		opts.TLS = secureConfig(t)
	}
	in := front.NewListener(connlimit.New(l, "socket", 0, s.registry), server, opts)
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(in) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return func() halfConn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			panic(err) // of loopback, in any goroutine
		}
		if secure {
			return tls.Client(c, trusting())
		}
		return c.(*net.TCPConn)
	}
}

// churner asks for the lists of one account. The race detector makes each byte dear that
// Go code looks at, so requests and answers are made in advance.
type churner struct {
	*testing.T
	dial func() halfConn
	r    *rand.Rand
	asks []ask
	in   [32 << 10]byte
}

// ask is a request without its last line, and what answers it.
type ask struct {
	text             string
	whole, unchanged expected // 200 and 304
}

// expected is an answer to the byte, but for where it varies.
type expected struct {
	bytes  []byte
	varies [][]int
}

func (e *expected) is(got []byte) bool {
	for _, at := range e.varies {
		copy(got[at[0]:at[1]], e.bytes[at[0]:at[1]])
	}
	return bytes.Equal(got, e.bytes)
}

// newChurner asks for each list once while nobody else asks.
func newChurner(t *testing.T, s *testGateway, account string, dial func() halfConn, r *rand.Rand) *churner {
	c := &churner{T: t, dial: dial, r: r}
	kind := "buyer"
	if account == "vendor" {
		kind = "seller"
	}
	for _, k := range []cache.Key{{}, {Status: "a"}, {Status: "b"}, {Status: "c"}, {InquiryType: "large"}} {
		k.Kind, k.Account = kind, account
		found, err := s.lists.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		target := "/api/v1/" + kind + "/inquiries?status=" + k.Status
		if k.Status == "" {
			target = "/api/v1/" + kind + "/inquiries?" + strings.TrimSuffix("inquiry_type="+k.InquiryType, "inquiry_type=")
		}
		one := ask{text: strings.TrimSuffix(hitOf(account, target), "\r\n")}
		one.whole, one.unchanged = c.first(one.text+"\r\n"), c.first(one.text+"If-None-Match: *\r\n\r\n")
		whole, unchanged, etag := string(one.whole.bytes), string(one.unchanged.bytes), found.Entry.ETag[0]
		if !strings.HasSuffix(whole, "\r\n\r\n"+string(bodyOf(k))) || !strings.Contains(whole, etag) || !strings.Contains(unchanged, etag) {
			t.Fatalf("%q is answered with %.600q and %q", one.text, whole, unchanged)
		}
		c.asks = append(c.asks, one)
	}
	return c
}

// first has one request on a connection answered.
func (c *churner) first(text string) expected {
	conn := c.dial()
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	_ = conn.CloseWrite()
	b, err := io.ReadAll(conn)
	if err != nil {
		c.Fatal(err)
	}
	return expected{b, regexp.MustCompile(`[0-9a-f]{32}|Date: [^\r]*`).FindAllIndex(b, -1)}
}

// connect asks on one connection, two hundred times at most, and compares the answers.
func (c *churner) connect() (compared int) {
	conn := c.dial()
	defer conn.Close()
	for range c.r.IntN(200) {
		a := &c.asks[c.r.IntN(len(c.asks))]
		want, text := &a.whole, a.text+"A: "+strings.Repeat("a", c.r.IntN(50))+"\r\n\r\n"
		if c.r.IntN(4) == 0 {
			want, text = &a.unchanged, a.text+"If-None-Match: *\r\n\r\n"
		}
		if _, err := io.WriteString(conn, text); err != nil {
			c.Error(err)
			return compared
		}
		size := len(want.bytes)
		if c.r.IntN(100) == 0 { // leave in the middle of the answer
			_, _ = io.ReadFull(conn, c.in[:c.r.IntN(size)])
			return compared
		}
		if n, err := io.ReadFull(conn, c.in[:size]); err != nil || !want.is(c.in[:n]) {
			c.Errorf("%q: %v %.600q", text, err, c.in[:n])
			return compared
		}
		compared++
	}
	return compared
}
