package simulation

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	kindBuyer  = "buyer"
	kindSeller = "seller"
)

// listKey is a list as the legacy is asked for it, or as a caller wants it.
type listKey struct{ kind, account, status, inquiryType string }

// answer is one list that the legacy has sent. Each has a number, which stands in the
// titles of its records, so that a caller's list tells when it was made.
type answer struct {
	key     listKey
	version int
	at      time.Time // when its first page was written
	node    string
	mapping string // prefix of the path that was asked for
	moved   bool   // a record was put before the others after the first page was read
}

// record is one inquiry.
type record struct{ title, status, inquiryType string }

// records are the whole truth about a version of an account's list.
func records(k listKey, version, number int) (all []record) {
	n := 6 + (version*5+int(k.account[len(k.account)-1]))%7 // enough for every pair of filters
	for i := range n {
		r := record{
			title:       fmt.Sprintf("%s %s v%d a%d %d/%d", k.kind, k.account, version, number, i+1, n),
			status:      []string{"pending", "answered"}[i%2],
			inquiryType: []string{"delivery", "refund", "product"}[i%3],
		}
		if (k.status == "" || k.status == r.status) && (k.inquiryType == "" || k.inquiryType == r.inquiryType) {
			all = append(all, r)
		}
	}
	return all
}

// failure is one way in which the legacy answers wrongly. Its name is a status; slow; hang, no
// answer at all; cut, a body that ends early; garbage; foreign, another account's records;
// again, the first page for every page; moved, a record that is put before the others, so that the further pages begin one
// record earlier; or part, which says that there is more and gives no way to it.
type failure struct {
	name    string
	account string  // empty: all
	rate    float64 // the share of the answers
	delay   time.Duration
}

// signIn is one that worked.
type signIn struct {
	node string
	at   time.Time
}

// legacySystem answers from a small model, to who has signed in. Each reply has an id and a time
// around what was asked for.
type legacySystem struct {
	env    *environment
	server *http.Server

	mu       sync.Mutex
	rng      *rand.Rand
	versions map[string]int // by account
	answers  []*answer      // by number
	failures []*failure
	oneToken bool                 // of all sessions that are open at a time, else each sign-in has its own
	tokens   map[string]time.Time // those that are good, with their last sign-in
	signIns  []signIn
	replies  int
	running  map[listKey]map[int]*answer
	done     map[listKey]*answer // the last good one
}

func newLegacy(env *environment) *legacySystem {
	s := &legacySystem{
		env: env, rng: rngOf(env.seed, "legacy"), oneToken: rngOf(env.seed, "tokens").IntN(2) == 0, tokens: map[string]time.Time{},
		versions: map[string]int{}, running: map[listKey]map[int]*answer{}, done: map[listKey]*answer{},
	}
	s.server = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	return s
}

func (s *legacySystem) serve(l net.Listener) { s.env.wg.Go(func() { _ = s.server.Serve(l) }) }

// change makes a new version of an account's lists.
func (s *legacySystem) change(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[account]++
}

// inject makes answers fail until end is called. The failure of one account goes before those
// of all.
func (s *legacySystem) inject(f failure) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.account != "" {
		s.failures = slices.Insert(s.failures, 0, &f)
	} else {
		s.failures = append(s.failures, &f)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failures = slices.DeleteFunc(s.failures, func(o *failure) bool { return o == &f })
	}
}

// draw gives how long an answer takes, and the name of its failure, if it fails.
func (s *legacySystem) draw(account string) (latency time.Duration, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	latency = 5*time.Millisecond + time.Duration(s.rng.Float64()*float64(40*time.Millisecond))
	for _, f := range s.failures {
		if (f.account == "" || f.account == account) && s.rng.Float64() < f.rate {
			return latency + f.delay, f.name
		}
	}
	return latency, ""
}

// minTokenAge is the time within which a node signs in once only. A token that is rejected sooner fails lists for the rest
// of it, which is declared.
const minTokenAge = 10 * time.Second

// forget ends all sessions but those that have just begun.
func (s *legacySystem) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens, func(_ string, at time.Time) bool { return time.Since(at) > minTokenAge+time.Second })
}

// signIn gives a token, which fails as all else does.
func (s *legacySystem) signIn(w http.ResponseWriter, r *http.Request) {
	delay, name := s.draw("")
	if name == "hang" {
		delay = hangs
	}
	if code, _ := strconv.Atoi(name); sleep(r.Context(), delay) != nil || code != 0 {
		w.WriteHeader(max(code, 500))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signIns = append(s.signIns, signIn{r.UserAgent(), time.Now()})
	s.env.checks.signedIn(s.signIns)
	token := "t0"
	if !s.oneToken {
		token = fmt.Sprint("t", len(s.signIns))
	}
	s.tokens[token] = time.Now()
	fmt.Fprintf(w, `{"token":%q}`, token)
}

func (s *legacySystem) signedIn(r *http.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	return ok
}

// hangs is longer than anybody waits.
const hangs = time.Minute

// ServeHTTP answers /login and, to who has signed in, /m1/tickets?customer=..&state=..&category=.. for buyers and
// /m1/vendors/{account}/tickets?cursor=.. for sellers. m1 and m2 are two mappings.
func (s *legacySystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		s.signIn(w, r)
		return
	}
	if !s.signedIn(r) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	k := listKey{kindBuyer, q.Get("customer"), q.Get("state"), q.Get("category")}
	if len(parts) == 4 {
		k = listKey{kind: kindSeller, account: parts[2]}
	}
	number, offset := s.page(k, r.UserAgent(), parts[0], q.Get("cursor"))
	defer s.end(k, number)
	delay, name := s.draw(k.account)
	if name == "hang" {
		delay = hangs
	}
	if name != "" {
		s.env.reach("legacy " + name)
	}
	if sleep(r.Context(), delay) != nil {
		return
	}
	switch code, _ := strconv.Atoi(name); {
	case code != 0:
		w.WriteHeader(code)
	case name == "cut":
		w.Header().Set("Content-Length", "4000")
		_, _ = io.WriteString(w, `{"result":{"items":[`)
		panic(http.ErrAbortHandler)
	case name == "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"result":{"items":[{"customer":"`+k.account+`"}]}}`)
	default:
		s.send(w, k, number, offset, name)
	}
}

// page gives the number of the answer that a page belongs to, and where it begins.
func (s *legacySystem) page(k listKey, node, mapping, cursor string) (number, offset int) {
	if n, err := fmt.Sscanf(cursor, "%d-%d", &number, &offset); n == 2 && err == nil {
		return number, offset
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[k] == nil {
		s.running[k] = map[int]*answer{}
	}
	a := &answer{key: k, version: s.versions[k.account], at: time.Now(), node: node, mapping: mapping}
	s.env.checks.fetch(a, s.running[k], s.done[k])
	number = len(s.answers)
	s.running[k][number] = a
	s.answers = append(s.answers, a)
	return number, 0
}

func (s *legacySystem) end(k listKey, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running[k], number)
}

const pageSize = 3

// send writes a page of an answer.
func (s *legacySystem) send(w http.ResponseWriter, k listKey, number, offset int, fault string) {
	s.mu.Lock()
	a := s.answers[number]
	if offset == 0 {
		a.at = time.Now()
	}
	a.moved = a.moved || fault == "moved" && offset > 0
	moved := a.moved && offset > 0
	s.replies++
	reply := map[string]any{"request_id": fmt.Sprint("r", s.replies), "time": time.Now().Format(time.RFC3339Nano)}
	s.mu.Unlock()
	all, result := records(k, a.version, number), map[string]any{}
	first := offset // of rest, in all
	if moved {
		first--
	}
	rest := all[min(first, len(all)):]
	switch {
	case fault == "part":
		rest, result["has_more"] = rest[:len(rest)-1], true
	case k.kind == kindSeller && len(rest) > pageSize:
		rest, result["next"] = rest[:pageSize], fmt.Sprintf("%d-%d", number, offset+pageSize)
	}
	if fault == "again" && k.kind == kindSeller {
		rest, first = all[:min(pageSize, len(all))], 0
	}
	items := []map[string]any{}
	for i, r := range rest {
		owner := k.account
		if fault == "foreign" {
			owner, r.title = "b9", strings.Replace(r.title, " "+k.account+" ", " b9 ", 1)
		}
		id := fmt.Sprintf("7d444840-9dc0-11d1-b245-5ffdce74f%03d", first+i)
		items = append(items, map[string]any{
			"uuid": id, "customer": owner, "m1": r.title + " m1", "m2": r.title + " m2", "body": "see " + id,
			"state": r.status, "category": r.inquiryType, "opened": "2000-01-01T00:00:00Z", "company": owner,
		})
	}
	result["items"], reply["result"] = items, result
	body, err := json.Marshal(reply)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	if result["next"] == nil && (fault == "" || fault == "slow") {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done[k] = a
	}
}

// fetches is how many lists it was asked for.
func (s *legacySystem) fetches() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.answers)
}

// answer is nil for a number that no answer has.
func (s *legacySystem) answer(number int) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number < 0 || number >= len(s.answers) {
		return nil
	}
	return s.answers[number]
}
