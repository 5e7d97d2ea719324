package legacy

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

const (
	dripParts = 16
	deepLevel = 100_000
)

// call is one list request that a fault acts on.
type call struct {
	kind    string
	account string
	filter  filter
	fault   Fault
}

func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, c call) {
	h := w.Header()
	switch c.fault.Name {
	case FaultDelay:
		sendJSON(w, c.kind, s.list(c.kind, c.account, c.filter)) // the wait is over
	case FaultStatus:
		http.Error(w, crashPhrase+" at "+backendHost, c.fault.Code)
	case FaultRefuse:
		panic(http.ErrAbortHandler) // the documented way to drop a connection
	case FaultTruncate:
		truncate(w, c.kind, s.list(c.kind, c.account, c.filter))
	case FaultEmpty:
		sendJSON(w, c.kind, nil)
	case FaultHTML:
		login(w)
	case FaultNotJSON:
		sendJSON(w, c.kind, []byte(loginPage))
	case FaultRedirect:
		h.Set("Location", loginURL(r))
		w.WriteHeader(http.StatusFound)
	case FaultDrip:
		drip(w, r, c, s.list(c.kind, c.account, c.filter))
	case FaultHuge:
		sendJSON(w, c.kind, s.huge(c))
	default:
		sendJSON(w, c.kind, s.spoilt(c))
	}
}

func truncate(w http.ResponseWriter, kind string, body []byte) {
	w.Header().Set("Content-Type", mediaType(kind))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body[:len(body)/2])        // dropped in any case
	_ = http.NewResponseController(w).Flush() // as above
	panic(http.ErrAbortHandler)
}

func drip(w http.ResponseWriter, r *http.Request, c call, body []byte) {
	w.Header().Set("Content-Type", mediaType(c.kind))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	out := http.NewResponseController(w)
	for i := range dripParts {
		if !wait(r.Context(), c.fault.Delay) {
			return
		}
		part := body[len(body)*i/dripParts : len(body)*(i+1)/dripParts]
		if _, err := w.Write(part); err != nil {
			return
		}
		_ = out.Flush() // the next write tells
	}
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

// spoilt is the list that was asked for and one bad record at its end.
func (s *Server) spoilt(c call) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var bad []byte
	if c.fault.Name == FaultWrongOwner {
		bad = s.data.record(c.kind, s.data.foreign(c.kind, c.account))
	} else {
		bad = spoil(c.fault.Name, c.kind, s.data.record(c.kind, s.data.borrowed(c.kind, c.account)))
	}
	return envelope(c.kind, append(s.records(c.kind, c.account, c.filter), bad))
}

// borrowed is a ticket that looks as if account owned it, also where it owns none.
func (d *dataset) borrowed(kind, account string) *ticket {
	if own := d.list(kind, account); len(own) > 0 {
		return own[0]
	}
	t := *d.foreign(kind, account)
	b, c := *t.buyer, *t.company
	if kind == KindBuyer {
		b.account = account
	} else {
		c.account = account
	}
	t.buyer, t.company = &b, &c
	return &t
}

// foreign is a ticket that account does not own.
func (d *dataset) foreign(kind, account string) *ticket {
	other := d.buyers[0].tickets
	if kind == KindBuyer && account == d.buyers[0].account {
		other = d.buyers[1].tickets
	}
	if kind == KindSeller {
		return d.foreignToSeller(account)
	}
	return other[0]
}

func (d *dataset) foreignToSeller(account string) *ticket {
	for _, c := range d.companies {
		if c.account != account && len(c.tickets) > 0 {
			return c.tickets[0]
		}
	}
	return d.buyers[0].tickets[0]
}

// spoil damages the title of a rendered record.
func spoil(name FaultName, kind string, record []byte) []byte {
	key := `"subject":`
	if kind == KindSeller {
		key = `"ttl":`
	}
	replacement := map[FaultName]string{
		FaultMissingField:  `"removed_in_v3":`,
		FaultNullField:     key + `null,"removed_in_v3":`,
		FaultWrongType:     key + `{"text":["a"]},"removed_in_v3":`,
		FaultDuplicateKeys: key + `"first of two",` + key,
	}
	switch name {
	case FaultInvalidUTF8:
		return bytes.Replace(record, []byte(key+`"`), []byte(key+"\"\xff\xfe"), 1)
	case FaultDeep:
		nested := `"x":` + strings.Repeat("[", deepLevel) + strings.Repeat("]", deepLevel) + ","
		return bytes.Replace(record, []byte(key), []byte(nested+key), 1)
	default:
		return bytes.Replace(record, []byte(key), []byte(replacement[name]), 1)
	}
}
