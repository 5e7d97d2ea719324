package simulation

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
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

// answer is one list that the legacy has sent. Each has a number, which stands in
// the titles of its records, so that a caller's list tells when it was made.
type answer struct {
	key     listKey
	version int
	at      time.Time // when its first page was written
	node    string
	mapping string // prefix of the path that was asked for
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

// legacyFault is one way in which it misbehaves.
type legacyFault struct {
	name    string
	account string // empty: all
	rate    float64
	delay   time.Duration
}

// legacySystem answers from a small model, with faults.
type legacySystem struct {
	w      *world
	server *http.Server

	mu       sync.Mutex
	versions map[string]int // by account
	answers  map[int]*answer
	last     int
	faults   []legacyFault
	running  map[listKey]map[int]*fetching
	fetches  int
	repeats  map[string]*repeats // by node
	failed   map[string]bool     // request ids that were answered with 502 or 503
	done     map[listKey]*answer // the last good one
	renewed  map[state]time.Time // when it last said that a list is the same, by the same body
	first    map[state]int       // the number of a state's first answer, which all later ones bear; nil: each has its own
}

// state is one version of a list as a mapping reads it.
type state struct {
	key     listKey
	version int
	mapping string
}

func (a *answer) state() state { return state{a.key, a.version, a.mapping} }

// fetching is one list that is being sent.
type fetching struct {
	mapping string
	since   time.Time
	node    string
}

// repeats are what is at most left of a budget of repeats, by node and kind. upstream counts a
// request when it has failed and the repeat at once; here the repeat comes later. So the
// bucket is larger by what the requests that are on their way have put into it.
type repeats struct {
	tokens float64
	recent []time.Time
}

// onTheWay is how long it may take from a request to its repeat.
const onTheWay = upstreamTimeout + time.Second

func newLegacy(w *world) *legacySystem {
	s := &legacySystem{w: w, versions: map[string]int{}, answers: map[int]*answer{}, running: map[listKey]map[int]*fetching{},
		repeats: map[string]*repeats{}, failed: map[string]bool{}, done: map[listKey]*answer{}, renewed: map[state]time.Time{}}
	s.server = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	return s
}

func (s *legacySystem) serve(l net.Listener) { s.w.wg.Go(func() { _ = s.server.Serve(l) }) }

// change is a new state of an account's lists.
func (s *legacySystem) change(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions[account]++
}

// setFaults replaces all faults.
func (s *legacySystem) setFaults(f ...legacyFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *legacySystem) faultOf(account string) (legacyFault, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.faults {
		if (f.account == "" || f.account == account) && (f.rate == 0 || s.w.legacyRNG.Float64() < f.rate) {
			return f, true
		}
	}
	return legacyFault{}, false
}

// ServeHTTP answers /m1/tickets?customer=..&state=..&category=.. for buyers and
// /m1/vendors/{account}/tickets?cursor=.. for sellers. m1 and m2 are two mappings.
func (s *legacySystem) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	k := listKey{kindBuyer, q.Get("customer"), q.Get("state"), q.Get("category")}
	if len(parts) == 4 {
		k = listKey{kind: kindSeller, account: parts[2]}
	}
	node, mapping := r.UserAgent(), parts[0]
	s.note(node, k.kind, r)
	number, offset := s.page(k, node, mapping, q.Get("cursor"))
	defer s.end(k, number)
	f, faulty := s.faultOf(k.account)
	if sleep(r.Context(), s.w.latencyOfLegacy()+f.delay) != nil {
		return
	}
	if !faulty || f.name == "slow" {
		s.send(w, k, number, offset, "")
		return
	}
	s.w.reach("legacy " + f.name)
	s.misbehave(w, r, f, k, number, offset)
}

// saidAt is when the legacy last said that a list is as in the answer: with the answer,
// or later by the same body. A list that was renewed keeps the number of the answer.
func (s *legacySystem) saidAt(a *answer) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.renewed[a.state()]; at.After(a.at) {
		return at
	}
	return a.at
}

// misbehave answers with a fault.
func (s *legacySystem) misbehave(w http.ResponseWriter, r *http.Request, f legacyFault, k listKey, number, offset int) {
	switch f.name {
	case "500", "502", "503", "404", "429":
		code, _ := strconv.Atoi(f.name)
		if code == 502 || code == 503 {
			s.mu.Lock()
			s.failed[r.UserAgent()+r.Header.Get("X-Request-Id")+r.URL.String()] = true
			s.mu.Unlock()
		}
		w.WriteHeader(code)
	case "cut":
		w.Header().Set("Content-Length", "4000")
		_, _ = w.Write([]byte(`{"result":{"items":[`))
		panic(http.ErrAbortHandler)
	case "garbage":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"result":{"items":[{"customer":"` + k.account + `"}]}}`))
	case "foreign", "part":
		s.send(w, k, number, offset, f.name)
	}
}

// note counts a request, and whether it is the repeat of one that failed.
func (s *legacySystem) note(node, kind string, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	budget := node + " " + kind
	n := s.repeats[budget]
	if n == nil {
		n = &repeats{tokens: retryBurst}
		s.repeats[budget] = n
	}
	if id := node + r.Header.Get("X-Request-Id") + r.URL.String(); s.failed[id] {
		delete(s.failed, id)
		n.tokens--
		s.w.reach("repeat")
		s.w.checks.repeats(budget, n)
		return
	}
	now := time.Now()
	n.recent = slices.DeleteFunc(append(n.recent, now), func(at time.Time) bool { return now.Sub(at) > onTheWay })
	n.tokens = min(n.tokens+retryBudget, retryBurst+retryBudget*float64(len(n.recent)))
}

// page gives the number of the answer that a page belongs to, and where it begins.
func (s *legacySystem) page(k listKey, node, mapping, cursor string) (number, offset int) {
	if n, err := fmt.Sscanf(cursor, "%d-%d", &number, &offset); n == 2 && err == nil {
		return number, offset
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.fetches++
	now := time.Now()
	if s.running[k] == nil {
		s.running[k] = map[int]*fetching{}
	}
	s.w.checks.fetch(k, node, mapping, now, s.running[k], s.done[k])
	s.running[k][s.last] = &fetching{mapping, now, node}
	s.answers[s.last] = &answer{key: k, version: s.versions[k.account], at: now, node: node, mapping: mapping}
	return s.last, 0
}

func (s *legacySystem) end(k listKey, number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running[k], number)
}

const pageSize = 3

// shown is the number in the titles of an answer. The caller holds mu.
func (s *legacySystem) shown(a *answer, number int) int {
	if s.first == nil {
		return number
	}
	if s.first[a.state()] == 0 {
		s.first[a.state()] = number
	}
	s.renewed[a.state()] = a.at
	return s.first[a.state()]
}

// send writes a page. Its fault is foreign, where the records are another
// account's, or part, where it says that there is more and gives no way to it.
func (s *legacySystem) send(w http.ResponseWriter, k listKey, number, offset int, fault string) {
	s.mu.Lock()
	a := s.answers[number]
	if offset == 0 {
		a.at = time.Now()
	}
	shown := s.shown(a, number)
	s.mu.Unlock()
	all := records(k, a.version, shown)
	cursor, more := "", false
	if k.kind == kindSeller && len(all) > offset+pageSize {
		cursor, all = fmt.Sprintf("%d-%d", number, offset+pageSize), all[offset:offset+pageSize]
	} else {
		all = all[min(offset, len(all)):]
	}
	if fault == "part" {
		all, cursor, more = all[:len(all)-1], "", true
	}
	items := []map[string]any{}
	for i, r := range all {
		if fault == "foreign" {
			r.title = strings.Replace(r.title, " "+k.account+" ", " b9 ", 1)
		}
		items = append(items, item(k, r, i))
		if fault == "foreign" {
			items[i]["customer"] = "b9"
		}
	}
	result := map[string]any{"items": items}
	if cursor != "" {
		result["next"] = cursor
	}
	if more {
		result["has_more"] = true
	}
	body, err := json.Marshal(map[string]any{"result": result})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
	if cursor == "" && fault == "" {
		s.mu.Lock()
		s.done[k] = a
		s.mu.Unlock()
	}
}

// item has what both mappings read.
func item(k listKey, r record, i int) map[string]any {
	id := fmt.Sprintf("7d444840-9dc0-11d1-b245-5ffdce74f%03d", i)
	return map[string]any{
		"uuid": id, "customer": k.account, "m1": r.title + " m1", "m2": r.title + " m2", "body": "see " + id,
		"state": r.status, "category": r.inquiryType, "opened": "2000-01-01T00:00:00Z", "company": k.account,
	}
}

// version is the state of an account's lists.
func (s *legacySystem) version(account string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[account]
}

// count is how many lists it was asked for.
func (s *legacySystem) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches
}

func (s *legacySystem) answer(number int) *answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers[number]
}
