package upstream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"inquiry-gateway/internal/testkit/cases"

	"go.opentelemetry.io/otel/trace"
)

// talk is a conversation of the gateway with a legacy system, from a file of testdata/talks (see cases):
//
//	-- what it shows --
//	auth: {...}                   keys over those of section
//	list acme                     a list is asked for, with [kind:]account[?status]; 3 list: so many, in turn;
//	                              acme within 5s: by a caller who waits no longer
//	> GET /list?customer=acme     a request that must come for it, once; those of one list come in any order
//	  header: value               which it must have; -: must not. body: its body, else none
//	< rows a b; "total":2         the reply: records with these titles, and more members
//	< 404 {"error":1}             or a status and a body, or a body alone; $ok: what each record has
//	< cut {"rows"                 or a part, then the connection is closed; drop: without an answer; raw: these bytes; hang: never ends
//	  header: value               which the reply has; after: how long it takes
//	= a b(content)<response>      what came of it: records by their titles
//	! refused throttled: text     or a failure: whose, its reason, and what its text has
//	took 3s                       how long that was
//	wait 1m                       time passes; purge: what is kept is not to be used
//	metric retries_total x = 1    a series whose labels have these values
//	log 1 text                    so many records of the log have the text
//	spans a > b(why) ...          the spans so far, each below its parent, and why it failed; +event: something happened in it
//	explain acme                  a list is looked at, beyond: and what a fetch does not ask for; saved {"rows"...: a reply that is there
//	~ text                        what is shown has the text; - text: has not
//
// No error, record of the log or span has anything of what is secret or of callers.
type talk struct {
	*testing.T
	*fixture
	pending
	shown   string    // of the last explain
	changes int       // purges
	begun   time.Time // the last list
}

// pending are the requests that have to come, with their replies.
type pending struct {
	mu   sync.Mutex
	want []*exchange
}

type exchange struct {
	request, body string
	header        [][2]string
	reply         string
	replyHeader   [][2]string
	after         time.Duration
}

// TestTalks holds the conversations of real systems' sorts.
func TestTalks(t *testing.T) {
	for _, c := range cases.Read(t, "testdata/talks/*.txt") {
		t.Run(strings.TrimSuffix(c.File, ".txt")+"/"+c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runTalk(t, strings.Split(c.Text, "\n")) })
		})
	}
}

var firstStep = regexp.MustCompile(`^(\d+ )?(list|explain|saved) `)

// runTalk makes a conversation's requests, one line after the other.
func runTalk(t *testing.T, lines []string) {
	begin := slices.IndexFunc(lines, firstStep.MatchString)
	cfg := configFrom(t, section, strings.Join(lines[:begin], "\n"))
	c := &talk{T: t}
	c.fixture = newFixture(t, c.serve, cfg)
	for i := begin; i < len(lines); i++ {
		if step := strings.TrimSpace(lines[i]); step != "" && !strings.ContainsRune("#>< ", rune(lines[i][0])) {
			c.step(step, lines[i+1:])
		}
	}
	for _, s := range c.spans.Ended() {
		c.secretless(fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Status(), s.Links()))
	}
	c.secretless(strings.NewReplacer(`"account":"acme"`, "", `--buyer 'acme'`, "").Replace(c.log.String())) // whose list it was
}

// verb tells whether a line begins with one of the words.
func verb(line string, words ...string) bool {
	first, _, _ := strings.Cut(line, " ")
	return slices.Contains(words, first)
}

// secretless is what no text may have.
func (c *talk) secretless(text string) {
	c.Helper()
	for _, secret := range []string{"acme", "s3cr3t", `p"w`, "stranger", "/list", "/login", "id-000"} {
		if strings.Contains(text, secret) {
			c.Errorf("%q shows in %s", secret, text)
		}
	}
}

// step does what a line says. The exchanges of a list and its results follow it.
func (c *talk) step(line string, follow []string) {
	c.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch times, err := strconv.Atoi(word); {
	case err == nil:
		for range times {
			c.step(rest, follow)
		}
	case word == "list":
		c.list(rest, follow)
	case word == "explain":
		c.expect(follow)
		c.show(c.Explain(c.Context(), Request{Kind: "buyer", Account: strings.TrimSuffix(rest, " words")}, 3, strings.HasSuffix(rest, " words")))
		c.done(rest)
	case word == "saved":
		c.show(c.ExplainReply(Request{Kind: "buyer", Account: "acme"}, 3, []byte(strings.ReplaceAll(rest, "$ok", good))))
	case word == "purge":
		c.changes++
	case word == "wait":
		time.Sleep(duration(c.T, rest))
	case word == "took" && time.Since(c.begun) != duration(c.T, rest):
		c.Errorf("took %v, want %s", time.Since(c.begun), rest)
	case word == "metric":
		labels, want, _ := strings.Cut(rest, " = ")
		names := strings.Fields(labels)
		if got := fmt.Sprint(c.metric(c, names[0], names[1:]...)); got != want {
			c.Errorf("%s is %s, want %s", labels, got, want)
		}
	case word == "log":
		want, text, _ := strings.Cut(rest, " ")
		if n := strings.Count(c.log.String(), text); fmt.Sprint(n) != want {
			c.Errorf("%d times %q in the log, want %s: %s", n, text, want, c.log.String())
		}
	case word == "spans":
		if got := c.tree(); got != rest {
			c.Errorf("the spans are\n%s, want\n%s", got, rest)
		}
	case word == "~" && !strings.Contains(c.shown, rest):
		c.Errorf("%q is missing in\n%s", rest, c.shown)
	case word == "-" && strings.Contains(c.shown, rest):
		c.Errorf("%q is in\n%s", rest, c.shown)
	case !verb(line, "=", "!", "~", "-", "took"):
		c.Fatalf("what is %q?", line)
	}
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// list asks for one, and compares what came of it.
func (c *talk) list(who string, follow []string) {
	c.Helper()
	results := c.expect(follow)
	c.begun = time.Now()
	ctx := c.Context()
	if account, time, ok := strings.Cut(who, " within "); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, duration(c.T, time))
		defer cancel()
		who = account
	}
	want := Request{Kind: "buyer", RequestID: "req-1", Changes: fmt.Sprint("after ", c.changes)}
	want.Account, want.Status, _ = strings.Cut(who, "?")
	if kind, account, ok := strings.Cut(want.Account, ":"); ok {
		want.Kind, want.Account = kind, account
	}
	list, err := c.Fetch(ctx, want)
	got, text := strings.TrimSpace("= "+titles(list)), ""
	if err != nil {
		e := asError(err)
		got, text = fmt.Sprintf("! %s %s", e.Failure(), e.Reason), e.Error()
		if _, known := reasons[e.Reason]; !known {
			c.Errorf("%s: nothing says whose failure %q is", who, e.Reason)
		}
		if e.Wait > 0 {
			got += " wait=" + e.Wait.String()
		}
		c.secretless(text)
	}
	wanted, says, _ := strings.Cut(results, ": ")
	if got != wanted || !strings.Contains(text, says) || (list.Inquiries == nil) != (err != nil) {
		c.Errorf("%s: got %s %s\nwant %s", who, got, text, results)
	}
	c.done(who)
}

// titles shows a list by what tells its records apart.
func titles(list List) string {
	if list.Unasked {
		return "unasked"
	}
	var shown []string
	for _, inq := range list.Inquiries {
		title := inq.Title
		if inq.Content != "" {
			title += "(" + inq.Content + ")"
		}
		for _, r := range inq.Responses {
			title += "<" + r.Content + ">"
		}
		shown = append(shown, title)
	}
	return strings.Join(shown, " ")
}

// tree names the spans that have ended, sorted.
func (c *talk) tree() string {
	names := map[trace.SpanID]string{}
	for _, s := range c.spans.Ended() {
		names[s.SpanContext().SpanID()] = strings.TrimPrefix(s.Name(), "upstream.")
	}
	var all []string
	for _, s := range c.spans.Ended() {
		text := strings.TrimPrefix(names[s.Parent().SpanID()]+">"+names[s.SpanContext().SpanID()], ">")
		if why := s.Status().Description; why != "" {
			text += "(" + why + ")"
		}
		for _, e := range s.Events() {
			text += "+" + e.Name
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// show writes down what a list looks like.
func (c *talk) show(p *ListReport, err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
	var b strings.Builder
	for _, r := range p.Records {
		for _, f := range r.Fields {
			fmt.Fprintf(&b, "%d %s <- %s: %s -> %s %s\n", r.Number, f.Field, f.Path, f.Raw, f.Mapped, f.Problem)
		}
	}
	for _, v := range p.Violations {
		fmt.Fprintf(&b, "wrong %d %s: %s\n", v.Record, v.Field, v.Problem)
	}
	for _, u := range p.Unused {
		fmt.Fprintf(&b, "unused %s %s\n", u.Path, strings.Join(u.Types, "|"))
	}
	for _, r := range p.Further {
		fmt.Fprintf(&b, "%s: %d times %s %s %s\n", r.For, r.Times, r.Method, r.URL, r.Body)
	}
	for _, d := range p.Doubts {
		fmt.Fprintf(&b, "doubt %s: %s\n", d.Path, d.Text)
	}
	c.shown = fmt.Sprintf("%sproblem: %v\nserved: %s\n", &b, p.Problem, titles(List{Inquiries: p.Served}))
}

// expect notes the exchanges that follow a step, and gives the line of its result.
func (c *talk) expect(lines []string) (result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var last *exchange
	for _, line := range lines {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case line == "" || verb(line, "#"):
		case verb(line, ">"):
			last = &exchange{request: line[2:]}
			c.want = append(c.want, last)
		case verb(line, "<"):
			last.reply = strings.TrimPrefix(line, "< ")
		case line[0] != ' ':
			return strings.TrimSpace(line)
		case name == "after":
			last.after = duration(c.T, value)
		case last.reply != "":
			last.replyHeader = append(last.replyHeader, [2]string{name, value})
		case name == "body":
			last.body = value
		default:
			last.header = append(last.header, [2]string{name, value})
		}
	}
	return result
}

// done wants all requests to have come.
func (c *talk) done(who string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.want {
		c.Errorf("%s: %s %s never came", who, e.request, e.body)
	}
	c.want = nil
	if n := c.metric(c, "in_flight"); n != 0 {
		c.Errorf("%s: %v lists are under way", who, n)
	}
}

// serve gives the reply to a request that has to come.
func (c *talk) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	for name, want := range map[string]string{"Via": "1.1 inquiry-gateway", "Accept-Encoding": "gzip"} {
		if got := r.Header.Get(name); got != want && !strings.HasPrefix(r.URL.Path, "/login") && !strings.HasPrefix(r.URL.Path, "/token") {
			c.Errorf("%s is %q", name, got)
		}
	}
	if e := c.take(r, string(body)); e != nil {
		e.answer(w, r)
		return
	}
	c.Errorf("unexpected: %s http://%s%s %s %v", r.Method, r.Host, r.RequestURI, body, r.Header)
	http.Error(w, "unexpected", http.StatusTeapot)
}

// take finds the exchange of a request.
func (c *talk) take(r *http.Request, body string) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	fits := func(e *exchange) bool {
		for _, h := range e.header {
			if got := strings.Join(r.Header.Values(h[0]), ", "); got != strings.TrimPrefix(h[1], "-") {
				return false
			}
		}
		here := e.request == r.Method+" "+r.RequestURI || e.request == r.Method+" http://"+r.Host+r.RequestURI
		return here && e.body == body && r.ContentLength == int64(len(body))
	}
	i := slices.IndexFunc(c.want, fits)
	if i < 0 {
		return nil
	}
	e := c.want[i]
	c.want = slices.Delete(c.want, i, i+1)
	return e
}

// answer sends the reply.
func (e *exchange) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(e.after):
	case <-r.Context().Done():
	}
	word, rest, _ := strings.Cut(e.reply, " ")
	code, err := strconv.Atoi(word)
	switch {
	case word == "drop":
		panic(http.ErrAbortHandler)
	case word == "raw":
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, rest+"\r\n\r\n")
			_ = conn.Close()
		}
		return
	case word == "hang":
		hang(w, r)
		return
	case strings.HasPrefix(word, "rows"):
		names, more, _ := strings.Cut(e.reply[len("rows"):], ";")
		rest = rows(strings.TrimSuffix(", "+strings.TrimSpace(more), ", "), strings.Fields(names)...)
	case err != nil && word != "cut":
		rest = e.reply
	}
	w.Header().Set("Content-Type", "application/json")
	for _, h := range e.replyHeader {
		if h[0] == "Content-Type" {
			w.Header().Del(h[0])
		}
		w.Header().Add(h[0], h[1])
	}
	if word == "cut" {
		w.Header().Set("Content-Length", "1000")
	}
	if err == nil {
		w.WriteHeader(code)
	}
	_, _ = io.WriteString(w, strings.ReplaceAll(rest, "$ok", good))
	if word == "cut" {
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}
