package legacy

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

const deepLevel = 100_000

// call is one list request that a fault acts on.
type call struct {
	kind, account string
	filter        filter
	fault         Fault
}

// misbehave answers a request as the fault says. A delay has passed already.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, c call) {
	switch c.fault.Name {
	case FaultDelay:
		sendJSON(w, c.kind, s.list(c.kind, c.account, c.filter)) // the wait is over
	case FaultStatus:
		if c.fault.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(c.fault.RetryAfter))
		}
		http.Error(w, crashPhrase+" at "+backendHost, c.fault.Code)
	case FaultRefuse:
		panic(http.ErrAbortHandler) // the documented way to drop a connection
	case FaultTruncate:
		truncate(w, c.kind, s.list(c.kind, c.account, c.filter))
	case FaultHTML:
		login(w)
	case FaultNotJSON:
		sendJSON(w, c.kind, []byte(loginPage))
	case FaultRedirect:
		w.Header().Set("Location", "/login?next="+url.QueryEscape(r.URL.RequestURI()))
		w.WriteHeader(http.StatusFound)
	case FaultHuge:
		sendJSON(w, c.kind, s.huge(c))
	default:
		sendJSON(w, c.kind, s.withBadRecord(c))
	}
}

// truncate sends the length of a whole body and half of it, then drops the connection.
func truncate(w http.ResponseWriter, kind string, body []byte) {
	announce(w, kind, body)
	_, _ = w.Write(body[:len(body)/2])        // dropped in any case
	_ = http.NewResponseController(w).Flush() // as above
	panic(http.ErrAbortHandler)
}

// announce sets the media type and the length of a body.
func announce(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", mediaType(kind))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
}

// huge repeats one good record.
func (s *Server) huge(c call) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	records := make([][]byte, c.fault.Size)
	one := s.data.record(c.kind, s.data.borrowed(c.kind, c.account))
	for i := range records {
		records[i] = one
	}
	return envelope(c.kind, records)
}

// withBadRecord is the list that was asked for and one bad record at its end.
func (s *Server) withBadRecord(c call) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var bad []byte
	if c.fault.Name == FaultWrongOwner {
		bad = s.data.record(c.kind, s.data.foreign(c.kind, c.account))
	} else {
		bad = corruptTitle(c.fault.Name, c.kind, s.data.record(c.kind, s.data.borrowed(c.kind, c.account)))
	}
	return envelope(c.kind, append(s.records(c.kind, c.account, c.filter), bad))
}

// corruptTitle damages the title of a rendered record. In the table, KEY is the
// title's name with its colon.
func corruptTitle(fault FaultName, kind string, record []byte) []byte {
	key := `"subject":`
	if kind == KindSeller {
		key = `"ttl":`
	}
	edit := map[FaultName]struct{ find, replace string }{
		FaultMissingField:  {`KEY`, `"removed_in_v3":`},
		FaultNullField:     {`KEY`, `KEYnull,"removed_in_v3":`},
		FaultWrongType:     {`KEY`, `KEY{"text":["a"]},"removed_in_v3":`},
		FaultDuplicateKeys: {`KEY`, `KEY"first of two",KEY`},
		FaultInvalidUTF8:   {`KEY"`, "KEY\"\xff\xfe"},
		FaultDeep:          {`KEY`, `"x":` + strings.Repeat("[", deepLevel) + strings.Repeat("]", deepLevel) + `,KEY`},
	}[fault]
	put := strings.NewReplacer("KEY", key)
	return []byte(strings.Replace(string(record), put.Replace(edit.find), put.Replace(edit.replace), 1))
}
