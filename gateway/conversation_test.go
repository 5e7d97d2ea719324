package gateway

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"inquiry-gateway/cache"
	"inquiry-gateway/gateway/front"
	"inquiry-gateway/internal/testkit"
)

// A conversation is all that one caller sends on one connection. The same one is held
// with a gateway whose lane is on and with one whose lane is off. What they answer,
// log and count must be the same.
type conversation []step

type step struct {
	text string
	wait bool // until the server waits for more
}

func (c conversation) String() string {
	var b strings.Builder
	for _, s := range c {
		fmt.Fprintf(&b, "%q wait=%t\n", s.text, s.wait)
	}
	return b.String()
}

// memoryListener gives the server ends of connections in memory.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.closed) }); return nil }
func (l *memoryListener) Addr() net.Addr { return addr("192.0.2.1:80") }

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

// roomBytes is how much a direction holds before who writes has to wait.
const roomBytes = 16 << 10

// direction carries the bytes of one end of a connection to the other, in memory: a
// conversation over sockets costs twice as much. Of deadlines it knows only those that have
// passed already, with which net/http interrupts a read.
type direction struct {
	mu      sync.Mutex
	changed sync.Cond
	b       []byte
	bounded bool
	ended   bool // nothing more is written
	gone    bool // nobody reads
	expired bool
}

func newDirection(bounded bool) *direction {
	d := &direction{bounded: bounded}
	d.changed.L = &d.mu
	return d
}

func (d *direction) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.changed.Broadcast()
}

func (d *direction) read(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.b) == 0 || d.expired || d.gone {
		switch {
		case d.gone:
			return 0, net.ErrClosed
		case d.expired:
			return 0, os.ErrDeadlineExceeded
		case d.ended:
			return 0, io.EOF
		}
		d.changed.Wait()
	}
	n := copy(p, d.b)
	d.b = d.b[n:]
	d.changed.Broadcast()
	return n, nil
}

func (d *direction) write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.bounded && len(d.b) >= roomBytes && !d.gone && !d.ended {
		d.changed.Wait()
	}
	if d.gone || d.ended {
		return 0, net.ErrClosed
	}
	d.b = append(d.b, p...)
	d.changed.Broadcast()
	return len(p), nil
}

// memoryConn is one end of a connection. Unlike with TCP, what was sent before one end was
// closed is always received.
type memoryConn struct {
	in, out *direction
	peer    addr
}

func (c memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c memoryConn) LocalAddr() net.Addr         { return addr("192.0.2.1:80") }
func (c memoryConn) RemoteAddr() net.Addr        { return c.peer }

func (c memoryConn) CloseWrite() error { c.out.set(func() { c.out.ended = true }); return nil }

func (c memoryConn) Close() error {
	c.in.set(func() { c.in.gone = true })
	return c.CloseWrite()
}

func (c memoryConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c memoryConn) SetWriteDeadline(time.Time) error { return nil }

func (c memoryConn) SetReadDeadline(t time.Time) error {
	c.in.set(func() { c.in.expired = !t.IsZero() && t.Before(time.Now()) })
	return nil
}

// connect gives the caller's end of a new connection.
func (l *memoryListener) connect(peer addr) memoryConn {
	there, back := newDirection(false), newDirection(true)
	l.conns <- memoryConn{there, back, peer}
	return memoryConn{back, there, "192.0.2.1:80"}
}

// side is a stand with its listener.
type side struct {
	*stand
	in *memoryListener
}

func newSide(tb testing.TB, lane bool, config *tls.Config) side {
	l := newMemoryListener()
	s := newStand(tb, l, func(o *Options) { o.HitLane = lane })
	if config != nil {
		s.listener.Secure(config)
	}
	return side{s.serve(tb), l}
}

// hold holds the conversation in a bubble of synctest and gives all that was answered. A
// slow caller reads nothing before it has sent everything.
func (s side) hold(c conversation, peer addr, secure, slow bool) []byte {
	var caller interface {
		net.Conn
		CloseWrite() error
	} = s.in.connect(peer)
	if secure {
		caller = tls.Client(caller, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}) //nolint:gosec // a test
	}
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

// sameText compares texts but for what differs between two runs of one conversation: ids,
// dates, durations. Most lines are the same to the byte.
func sameText(a, b []byte) bool {
	for len(a) > 0 && len(b) > 0 {
		lineA, restA, endA := bytes.Cut(a, []byte("\n"))
		lineB, restB, endB := bytes.Cut(b, []byte("\n"))
		if endA != endB || !bytes.Equal(lineA, lineB) && !sameLine(lineA, lineB) {
			return false
		}
		a, b = restA, restB
	}
	return len(a) == len(b)
}

func sameLine(a, b []byte) bool {
	for len(a) > 0 && len(b) > 0 {
		n, variesA := token(a)
		m, variesB := token(b)
		if variesA != variesB || !variesA && !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		a, b = a[n:], b[m:]
	}
	return len(a) == len(b)
}

// token is how long the piece at the front of a line is, and whether it varies.
func token(b []byte) (n int, varies bool) {
	for n < len(b) && ('0' <= b[n] && b[n] <= '9' || 'a' <= b[n] && b[n] <= 'f') {
		n++
	}
	switch {
	case n > 0:
		return n, n == 32
	case b[0] == 'D' && bytes.HasPrefix(b, []byte("Date: ")):
		return len(b), true
	case b[0] == 's' && bytes.HasPrefix(b, []byte(`seconds":`)):
		return max(bytes.IndexAny(b, ",}"), 1), true
	case b[0] == 't' && bytes.HasPrefix(b, []byte(`time":"`)):
		return max(bytes.IndexByte(b, ','), 1), true
	}
	return 1, false
}

// counters are all series of a stand that count, but for those of the lane itself. The
// cache adds up its bytes and entries some time later.
func (s side) counters(tb testing.TB) string {
	families, err := s.registry.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if name := f.GetName(); strings.Contains(name, "hit_lane") || strings.HasSuffix(name, "cache_local_bytes") || strings.HasSuffix(name, "cache_entries") {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Fprintf(&b, "%s%v %v\n", f.GetName(), labels, valueOf(m))
		}
	}
	return b.String()
}

func valueOf(m *dto.Metric) float64 {
	if h := m.GetHistogram(); h != nil {
		return float64(h.GetSampleCount())
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// pair holds conversations with both sides.
type pair struct {
	lane, plain side
	secure      bool
}

func newPair(tb testing.TB, config *tls.Config) *pair {
	return &pair{newSide(tb, true, config), newSide(tb, false, config), config != nil}
}

// hold reports what differs; empty: nothing.
func (p *pair) hold(c conversation, peer addr, slow bool) string {
	p.lane.clock.Add(3 * time.Second)
	p.plain.clock.Add(3 * time.Second)
	if got, want := p.lane.hold(c, peer, p.secure, slow), p.plain.hold(c, peer, p.secure, slow); !sameText(got, want) {
		return fmt.Sprintf("answered\n%.3000q\nwant\n%.3000q", got, want)
	}
	if got, want := p.lane.logs.take(), p.plain.logs.take(); !sameText(got, want) {
		return fmt.Sprintf("logged\n%s\nwant\n%s", got, want)
	}
	return ""
}

func (p *pair) counted(tb testing.TB) string {
	got, want := strings.Split(p.lane.counters(tb), "\n"), strings.Split(p.plain.counters(tb), "\n")
	for i, line := range want {
		if i >= len(got) || got[i] != line {
			return fmt.Sprintf("counted %q, want %q", got[min(i, len(got)-1)], line)
		}
	}
	if !slices.Equal(got, want) {
		return "more series than without the lane"
	}
	return ""
}

// source makes choices; a fuzzer's bytes or a generator of random numbers.
type source interface{ intN(n int) int }

type randomSource struct{ *rand.Rand }

func (r randomSource) intN(n int) int { return r.IntN(n) }

// fuzzed are choices that a fuzzer can change one by one. Past its end it gives 0.
type fuzzed struct{ b []byte }

func (f *fuzzed) intN(n int) int {
	if len(f.b) == 0 {
		return 0
	}
	v := int(f.b[0])
	f.b = f.b[1:]
	if n > 256 && len(f.b) > 0 {
		v, f.b = v<<8|int(f.b[0]), f.b[1:]
	}
	return v % n
}

func oneOf[T any](s source, all ...T) T { return all[s.intN(len(all))] }

var (
	peers   = []addr{"198.51.100.7:4000", "192.0.2.9:4000"} // a stranger, a proxy
	targets = []string{
		buyersList, buyersList + "?status=pending", buyersList + "?inquiry_type=large", buyersList + "?status=a&inquiry_type=b", "/api/v1/seller/inquiries",
		buyersList + "?", buyersList + "?status=%61", buyersList + "?status=pending&status=pending", buyersList + "?other=1", buyersList + "?status=%zz", buyersList + "/",
		"/api/v1/buyer%2Finquiries", "/api/v1/buyer/%69nquiries", "//api/v1/buyer/inquiries", "/api/v1/buyer/inquiries#x", "http://gateway" + buyersList, "*", "/nowhere", buyersList + "?a b",
	}
	headerLines = []string{
		"Accept-Encoding: gzip", "Accept-Encoding: zstd, gzip;q=0.5", "accept-encoding: br", "If-None-Match: *", `If-None-Match: "x", W/"y"`, "Connection: keep-alive", "User-Agent: a/1",
		"Accept: */*", "X-Request-Id: theirs-1", "X-Request-Id: a b", "X-Forwarded-For: 203.0.113.9, 192.0.2.3", "Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"Connection: close", "Connection: upgrade", "Content-Length: 0", "Content-Length: 5", "Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Expect: 100-continue", "Expect: x",
		"Upgrade: h2c", "Trailer: X", "Host: other", "Host: a b", "Authorization: Bearer key-of-globex", "authorization : Bearer x", "X-A: b\r\n c: d", " X-Folded: y", "X-Bad\x00: y", "X-B: \x01", "X-C: \xff",
		": y", "no colon", "", "Content-Length: +0", "Content-Length : 3", "X-Y: \t y \t", "Cookie: " + strings.Repeat("c", 5000),
	}
	credentials = []string{"acme", "globex", "vendor", "tight", "revoked", "scopeless", "unpaid", "nobody"}
)

// harmless is how many of the choices at the front of a list keep a request canonical,
// so that most requests are.
const (
	harmlessTargets = 5
	harmlessLines   = 10
)

// draw takes mostly the first ones.
func draw(s source, all []string, harmless int) string {
	if s.intN(16) == 0 {
		return oneOf(s, all...)
	}
	return oneOf(s, all[:harmless]...)
}

func drawRequest(s source) string {
	key := oneOf(s, "acme", "acme", "acme", "globex", "globex", "vendor", "tight", oneOf(s, credentials...))
	target := draw(s, targets, harmlessTargets)
	if s.intN(16) == 0 {
		target = fmt.Sprint(buyersList, "?status=", s.intN(1000)) // mostly a miss
	}
	line := "GET " + target + " HTTP/1.1"
	if s.intN(24) == 0 {
		line = oneOf(s, "HEAD "+buyersList+" HTTP/1.1", "POST "+buyersList+" HTTP/1.1", "GET "+buyersList+" HTTP/1.0", "GET "+buyersList+"  HTTP/1.1", "get "+buyersList+" HTTP/1.1",
			"GET "+buyersList, "PRI * HTTP/2.0", "OPTIONS * HTTP/1.1", "GET "+buyersList+" HTTP/1.10", "CONNECT gateway:80 HTTP/1.1", "")
	}
	all := []string{line, "Host: gateway", "Authorization: Bearer key-of-" + key}
	for range s.intN(4) {
		all = append(all, draw(s, headerLines, harmlessLines))
	}
	for s.intN(24) == 23 { // one head in 24 is large, one in some hundred too large
		all = append(all, oneOf(s, "Cookie: ", "cookie: ", "X-Large: ")+strings.Repeat("c", s.intN(9000)))
	}
	if s.intN(16) == 0 { // one line more or less
		i := s.intN(len(all))
		all = slices.Delete(all, i, i+1)
	}
	end := "\r\n"
	if s.intN(48) == 0 {
		end = oneOf(s, "\n", "\r", "\r\r\n")
	}
	text := strings.Join(all, end) + end + end
	if s.intN(32) == 0 { // what a header in the wrong place, or a body, leaves behind
		text += oneOf(s, "hello", "5\r\nhello\r\n0\r\n\r\n", "0\r\n\r\n", "\r\n", "GET", drawRequestLine)
	}
	return text
}

const drawRequestLine = "GET " + buyersList + " HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer key-of-globex\r\n\r\n"

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
	for _, head := range strings.Split(strings.ReplaceAll(all.String(), "\r\n", "\n"), "\n\n") {
		if size := len(head) + strings.Count(head, "\n"); size >= leastTooLarge && len(head) <= surelyTooLarge {
			return true
		}
	}
	return false
}

// drawConversation makes requests, and cuts what is sent into pieces.
func drawConversation(s source) conversation {
	var c conversation
	last := drawRequest(s)
	for range 1 + s.intN(8) {
		text := last
		if s.intN(3) == 0 {
			text = drawRequest(s)
			last = text
		}
		if s.intN(32) == 0 && len(text) > 0 { // one byte is another one
			i := s.intN(len(text))
			text = text[:i] + string(rune(s.intN(256))) + text[i+1:]
		}
		for s.intN(12) == 0 && len(text) > 1 {
			cut := 1 + s.intN(len(text)-1)
			c = append(c, step{text[:cut], s.intN(2) == 0})
			text = text[cut:]
		}
		c = append(c, step{text, s.intN(8) != 0})
	}
	return c
}

// Whatever a caller sends, however it is cut, the answers of the front are those of
// net/http and Gin, to the byte, and so is what is logged and counted.
func FuzzConversations(f *testing.F) {
	for seed := range uint64(20) {
		b := make([]byte, 100)
		for i, r := 0, rand.New(rand.NewPCG(seed, 1)); i < len(b); i++ {
			b[i] = byte(r.Uint32())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			p, s := newPair(t, nil), &fuzzed{b}
			peer := oneOf(s, peers...)
			c := drawConversation(s)
			if c.uncertain() {
				return
			}
			diff := p.hold(c, peer, false)
			if diff == "" {
				diff = p.counted(t)
			}
			time.Sleep(time.Minute) // net/http waits for some callers before it closes
			if diff != "" {
				t.Fatalf("%s\nafter\n%s", diff, c)
			}
		})
	})
}

// conversations is how many TestConversations holds; one in conversationsSecure has TLS, which
// costs ten times as much. Far more is a matter of a quiet night:
// LANE_CONVERSATIONS=10000000 go test -timeout 0 -run TestConversations ./gateway
const (
	conversations       = 3000
	conversationsSecure = 16
)

func TestConversations(t *testing.T) {
	testkit.Slow(t)
	n, seed := numberOf(t, "LANE_CONVERSATIONS", conversations), uint64(time.Now().UnixNano())
	config := secureConfig(t)
	synctest.Test(t, func(t *testing.T) {
		clear, secure := newPair(t, nil), newPair(t, config)
		s := randomSource{rand.New(rand.NewPCG(seed, 2))}
		for i := range n {
			p, slow, peer, c := clear, s.intN(8) == 0, oneOf(s, peers...), drawConversation(s)
			if c.uncertain() {
				continue
			}
			if i%conversationsSecure == 0 {
				p = secure
			}
			diff := p.hold(c, peer, slow)
			if diff == "" && i%100 == 0 {
				diff = p.counted(t)
			}
			if diff != "" {
				t.Fatalf("conversation %d of seed %d: %s\nafter\n%s", i, seed, diff, c)
			}
		}
		time.Sleep(time.Minute) // net/http waits for some callers before it closes
		t.Logf("seed %d: %d and %d hits of the front", seed, clear.lane.inLane(t), secure.lane.inLane(t))
	})
}

// churns is how many requests TestForeignBytes sends; LANE_CHURN asks for more. One in
// churnSecure is sent with TLS, which costs three times as much.
const (
	churns      = 40_000
	churnSecure = 4
)

// Callers of different accounts ask at once over connections that they drop in the
// middle of answers. Nobody ever gets a byte that is not of their own answer.
func TestForeignBytes(t *testing.T) {
	testkit.Slow(t)
	seed := uint64(time.Now().UnixNano())
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", secure), func(t *testing.T) {
			l := listenHere(t)
			s := newStand(t, l, func(o *Options) { o.RequestLog = io.Discard })
			// On a busy machine any time may pass between two steps.
			s.server.WriteTimeout, s.server.IdleTimeout, s.server.ReadHeaderTimeout = time.Hour, time.Hour, time.Hour
			s.current.Set(s.gateway, time.Hour, true)
			s.listener = front.NewListener(l, front.Options{Handler: s.current, IdleTimeout: time.Hour})
			serveStand(t, s, secure)
			n := numberOf(t, "LANE_CHURN", churns) / churnSecure
			if !secure {
				n *= churnSecure - 1
			}
			var compared atomic.Int64
			var group sync.WaitGroup
			for i, account := range []string{"acme", "globex", "vendor", "acme", "globex", "vendor", "acme", "globex"} {
				group.Go(func() {
					c := newChurner(t, s, account, rand.New(rand.NewPCG(seed, uint64(i))))
					for compared.Load() < int64(n) && !t.Failed() {
						compared.Add(int64(c.connect(secure)))
					}
				})
			}
			group.Wait()
			t.Logf("%d answers compared, %d answers of the lane, seed %d", compared.Load(), s.inLane(t), seed)
		})
	}
}

// churner asks for the lists of one account. The race detector makes each byte dear that
// Go code looks at, so requests and answers are made in advance.
type churner struct {
	*testing.T
	stand *stand
	r     randomSource
	asks  []ask
	out   []byte
	in    [32 << 10]byte
}

// ask is a request without its last line, and what answers it.
type ask struct {
	text             string
	whole, unchanged answer // 200 and 304
}

// answer is all of an answer but for an id and a date, which stand between its parts.
type answer [3][]byte

const (
	idLength   = 32
	dateLength = len(http.TimeFormat)
)

func (a *answer) length() int { return len(a[0]) + dateLength + len(a[1]) + idLength + len(a[2]) }

// is compares each byte.
func (a *answer) is(b []byte) bool {
	date := b[len(a[0]):][:dateLength]
	second := b[len(a[0])+dateLength:]
	id := second[len(a[1]):][:idLength]
	return bytes.HasPrefix(b, a[0]) && bytes.HasPrefix(second, a[1]) && bytes.Equal(second[len(a[1])+idLength:], a[2]) &&
		len(bytes.Trim(id, "0123456789abcdef")) == 0 && bytes.HasSuffix(date, []byte(" GMT"))
}

func newChurner(t *testing.T, s *stand, account string, r *rand.Rand) *churner {
	c := &churner{T: t, stand: s, r: randomSource{r}}
	kind := "buyer"
	if account == "vendor" {
		kind = "seller"
	}
	for i := range 8 {
		k := cache.Key{Kind: kind, Account: account}
		target := "/api/v1/" + kind + "/inquiries?"
		if i&1 != 0 {
			k.Status, target = "pending", target+"status=pending&"
		}
		if i&6 == 6 { // seldom, as it costs more than the others
			k.InquiryType, target = "large", target+"inquiry_type=large"
		}
		if _, err := s.lists.Get(t.Context(), k); err != nil {
			t.Error(err)
		}
		found, _ := s.lists.Lookup(k)
		body := bodyOf(k)
		made := func(status, coded, end string) answer {
			return answer(bytes.Split([]byte("HTTP/1.1 "+status+"\r\nAge: 0\r\nCache-Control: private, no-cache\r\n"+
				fmt.Sprintf("Cache-Status: inquiry-gateway; hit; ttl=%d\r\n", found.TTL/time.Second)+coded+"Date: *\r\nEtag: "+found.Entry.ETag[0]+
				"\r\nVary: Authorization, Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\nX-Request-Id: *\r\n\r\n"+end), []byte("*")))
		}
		c.asks = append(c.asks, ask{
			text:      strings.TrimSuffix(hitOf(account, target), "\r\n"),
			whole:     made("200 OK", fmt.Sprintf("Content-Length: %d\r\nContent-Type: application/json; charset=utf-8\r\n", len(body)), string(body)),
			unchanged: made("304 Not Modified", "", ""),
		})
	}
	return c
}

// connect asks on one connection, two hundred times at most, and compares the answers.
func (c *churner) connect(secure bool) (compared int) {
	conn, err := net.Dial("tcp", c.stand.listener.Addr().String())
	if err != nil {
		c.Error(err)
		return 0
	}
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}) //nolint:gosec // a test
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Hour))
	for range c.r.intN(200) {
		a := &c.asks[c.r.intN(len(c.asks))]
		want, line := &a.whole, "A: "+strings.Repeat("a", c.r.intN(50))
		if c.r.intN(4) == 0 {
			want, line = &a.unchanged, "If-None-Match: *"
		}
		c.out = append(append(append(c.out[:0], a.text...), line...), "\r\n\r\n"...)
		if _, err := conn.Write(c.out); err != nil {
			c.Error(err)
			return compared
		}
		if c.r.intN(100) == 0 { // leave in the middle of the answer
			_, _ = io.ReadFull(conn, c.in[:c.r.intN(want.length())])
			return compared
		}
		if n, err := io.ReadFull(conn, c.in[:want.length()]); err != nil || !want.is(c.in[:n]) {
			c.Errorf("%q: %v %.600q", c.out, err, c.in[:n])
			return compared
		}
		compared++
	}
	return compared
}

// numberOf is the number that a variable of the environment has.
func numberOf(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
