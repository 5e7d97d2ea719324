//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// accounts are those of buyers and of sellers: one with many inquiries, one whose name begins as that of the
// first, two with characters that mean something in queries and URLs, and one without an inquiry.
var accounts = []string{"4711", "47", "o'brien@example.com", "ann+shop@example.com", "0815"}

// hard are further accounts, for systems that can ask for any text: one with a quote and a backslash, and one with a blank in another script.
var hard = []string{`say "hi" \now's`, "한강 무역"}

// companies are the buyers' names, by account.
var companies = map[string]string{hard[0]: `Back\slash "Inc."`, hard[1]: "한강 무역 주식회사", "4711": "Acme & Söhne", "47": "한강 <Trading>", "o'brien@example.com": `O'Brien "Ltd."`, "ann+shop@example.com": "Ann's Shop"}

// Public words, by the number of a state and of a category, of which one is none.
var (
	statuses   = []string{"pending", "pending", "answered", "closed"}
	categories = []string{"", "delivery", "refund", "product"}
)

// states are words for them in systems that leave these to whoever sets them up.
var states = []string{"new", "in_process", "answered", "closed"}

// inquiry is what a system is filled with. In its texts {previous} stands for the id that the system gave the inquiry
// before, and in those of replies {id} for the inquiry's own.
type inquiry struct {
	Customer string    `json:"customer"`
	Others   []string  `json:"others"` // customers who see it, too, where a system has several
	Company  string    `json:"company"`
	Vendor   string    `json:"vendor"`
	Title    string    `json:"title"`
	Content  string    `json:"content"`
	HTML     string    `json:"html"` // the content, for systems that keep HTML
	State    int       `json:"state"`
	Category int       `json:"category"`
	Created  time.Time `json:"created"`
	Replies  []reply   `json:"replies"`
}

type reply struct {
	Content string    `json:"content"`
	HTML    string    `json:"html"`
	Staff   bool      `json:"staff"` // else the customer
	Private bool      `json:"private"`
	Created time.Time `json:"created"`
}

// texts are contents: as people see them, and as HTML where that is more than the escaped text.
var texts = []struct{ plain, html string }{
	{"Where is my parcel?\nI ordered it in May.", "<p>Where is my <em>parcel</em>?<br>I ordered it in May.</p>"},
	{"물건이 아직 도착하지 않았습니다 — “größer” naïve İstanbul Ελληνικά 🚚👩‍👧", ""},
	{`Is 3 < 4 & "4" > 3? <b>not bold</b> C:\new\table 100%25 {account} [x] '; -- &amp;`, ""},
	{"See {previous}, also ({previous}). It cost 1,234,567 won.", "<p>See <b>{previous}</b>, also (<i>{previous}</i>). It cost 1,234,567&nbsp;won.</p>"},
	{strings.TrimSpace(strings.Repeat("A long story about a late parcel. ", 60)), ""},
}

// times are about the changes of clocks in Berlin and New York, a leap day, and the end of a year.
var times = []string{
	"2025-03-30T00:59:59Z", "2025-03-30T01:00:00Z", "2025-10-26T00:30:00Z", "2025-10-26T01:30:00Z", "2025-03-09T06:59:59Z", "2025-03-09T07:00:00Z",
	"2025-11-02T05:30:00Z", "2025-11-02T06:30:00Z", "2024-02-29T23:59:59Z", "2024-12-31T23:59:59Z", "2025-10-25T22:00:00Z", "2025-06-30T12:00:00Z",
}

// many is how many inquiries the first account has.
const many = 160

// seeds are the inquiries of all accounts, and of further ones, in the order in which they are made: by their times, so
// that a system that sorts by its ids sorts by these, too.
func seeds(further ...string) []*inquiry {
	all := make([]*inquiry, many+16+8*len(further))
	for n := range all {
		i := &inquiry{Customer: accounts[0], Vendor: accounts[0], State: n % 4, Category: n / 4 % 4, Others: []string{}, Replies: []reply{}}
		if n >= many+16 {
			i.Customer = further[n%len(further)]
			i.Vendor = i.Customer
		} else if n >= many {
			i.Customer, i.Vendor = accounts[1+n%3], accounts[n/3%4]
		} else if n%20 == 7 {
			i.Vendor = accounts[1]
		}
		i.Company = companies[i.Customer]
		i.Title = fmt.Sprintf("Late parcel %c%c%c", 'a'+n/26/26, 'a'+n/26%26, 'a'+n%26) // without digits: they could be an id
		if n%10 == 9 {
			i.Title += " & <" + `"again"> after {previous}`
		}
		i.Content, i.HTML = text(n)
		at, err := time.Parse(time.RFC3339, times[n%len(times)])
		if err != nil {
			panic(err)
		}
		i.Created = at.Add(time.Duration(n/len(times)/2) * 24 * time.Hour) // pairs of one time
		replies := n % 4
		if n == 5 {
			replies = 110 // more than one page
		}
		for m := range replies {
			r := reply{Staff: m%2 == 0, Private: (n+m)%3 == 0, Created: i.Created.Add(time.Duration(m+1) * 30 * time.Minute)}
			r.Content, r.HTML = text(n + m + 1)
			if m%4 == 1 {
				r.Content, r.HTML = r.Content+" ({id})", strings.TrimSuffix(r.HTML, "</p>")+" ({id})</p>"
			}
			i.Replies = append(i.Replies, r)
		}
		all[n] = i
	}
	slices.SortStableFunc(all, func(a, b *inquiry) int { return a.Created.Compare(b.Created) })
	first := all[0] // before it there is none
	for _, s := range []*string{&first.Title, &first.Content, &first.HTML} {
		*s = quote(*s, "nothing", "{id}")
	}
	return all
}

func text(n int) (plain, marked string) {
	t := texts[n%len(texts)]
	if t.html == "" {
		t.html = "<p>" + html.EscapeString(t.plain) + "</p>"
	}
	return t.plain, t.html
}

// quote puts ids into a text.
func quote(s, previous, id string) string {
	return strings.NewReplacer("{previous}", previous, "{id}", id).Replace(s)
}

// with is the inquiry with ids in its texts.
func (i *inquiry) with(previous, id string) *inquiry {
	c := *i
	c.Title, c.Content, c.Replies = quote(c.Title, previous, id), quote(c.Content, previous, id), slices.Clone(c.Replies)
	for n := range c.Replies {
		c.Replies[n].Content = quote(c.Replies[n].Content, previous, id)
	}
	return &c
}

// topic is the inquiry's category; nil: none.
func (i *inquiry) topic() *string {
	if i.Category == 0 {
		return nil
	}
	return &categories[i.Category]
}

// record is what callers get of an inquiry. What its kind does not have is empty.
type record struct {
	Title       string     `json:"title"`
	Content     string     `json:"content,omitempty"`
	Status      string     `json:"status"`
	InquiryType *string    `json:"inquiry_type"`
	CompanyName string     `json:"company_name,omitempty"`
	CreatedAt   string     `json:"created_at"`
	Responses   []response `json:"responses,omitempty"`
}

type response struct {
	Content       string  `json:"content"`
	ResponderType *string `json:"responder_type"`
	CreatedAt     string  `json:"created_at"`
}

func public(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func removed(s string) string { return quote(s, "[removed]", "[removed]") }

// record is what a caller of the kind must get.
func (i *inquiry) record(kind string) record {
	r := record{Title: removed(i.Title), Status: statuses[i.State], CreatedAt: public(i.Created)}
	category := categories[i.Category]
	if kind == "seller" {
		if r.CompanyName = i.Company; category == "" {
			category = "general"
		}
	} else {
		r.Content = removed(i.Content)
		for _, a := range i.Replies {
			if !a.Private {
				by := map[bool]string{true: "staff", false: "customer"}[a.Staff]
				r.Responses = append(r.Responses, response{removed(a.Content), &by, public(a.Created)})
			}
		}
	}
	if category != "" {
		r.InquiryType = &category
	}
	return r
}

// truth is what a caller must get of a list: the records, each as JSON.
func truth(all []*inquiry, l list) []string {
	var records []string
	for _, i := range all {
		r := i.record(l.kind)
		owners := map[string][]string{"buyer": slices.Concat(i.Others, []string{i.Customer}), "seller": {i.Vendor}}[l.kind]
		if slices.Contains(owners, l.account) && (l.status == "" || l.status == r.Status) && (l.category == "" || r.InquiryType != nil && l.category == *r.InquiryType) {
			records = append(records, asJSON(r))
		}
	}
	slices.Sort(records)
	return records
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}
