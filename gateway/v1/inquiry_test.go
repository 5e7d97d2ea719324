package v1

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"inquiry-gateway/upstream"
)

// The documented wire format, as a decoder of JSON sees it. Rendering is held against it.
type wireList[R any] struct {
	Data   []R         `json:"data"`
	Meta   struct{}    `json:"meta"`
	Errors []wireError `json:"errors"`
}

type wireBuyer struct {
	Title       string         `json:"title"`
	Content     string         `json:"content"`
	Status      string         `json:"status"`
	InquiryType *string        `json:"inquiry_type"`
	CreatedAt   string         `json:"created_at"`
	Responses   []wireResponse `json:"responses"`
}

type wireResponse struct {
	Content       string  `json:"content"`
	ResponderType *string `json:"responder_type"`
	CreatedAt     string  `json:"created_at"`
}

type wireSeller struct {
	Title       string  `json:"title"`
	Status      string  `json:"status"`
	InquiryType *string `json:"inquiry_type"`
	CompanyName string  `json:"company_name"`
	CreatedAt   string  `json:"created_at"`
}

type wireError struct {
	ID     string      `json:"id"`
	Status string      `json:"status"`
	Code   string      `json:"code"`
	Title  string      `json:"title"`
	Detail string      `json:"detail"`
	Source *wireSource `json:"source,omitempty"`
}

type wireSource struct {
	Parameter string `json:"parameter,omitempty"`
	Header    string `json:"header,omitempty"`
}

func wireTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

func wireNull(s upstream.NullString) *string {
	if !s.Valid {
		return nil
	}
	return &s.String
}

func toWire(kind string, list []upstream.Inquiry) any {
	buyers, sellers := wireList[wireBuyer]{}, wireList[wireSeller]{}
	for _, q := range list {
		b := wireBuyer{q.Title, q.Content, q.Status, wireNull(q.InquiryType), wireTime(q.CreatedAt), nil}
		for _, r := range q.Responses {
			b.Responses = append(b.Responses, wireResponse{r.Content, wireNull(r.ResponderType), wireTime(r.CreatedAt)})
		}
		buyers.Data = append(buyers.Data, b)
		sellers.Data = append(sellers.Data, wireSeller{q.Title, q.Status, wireNull(q.InquiryType), q.CompanyName, wireTime(q.CreatedAt)})
	}
	if kind == "buyer" {
		return buyers
	}
	return sellers
}

func wantJSON(t rapid.TB, got []byte, wire any) {
	t.Helper()
	want, err := json.Marshal(wire, jsontext.AllowInvalidUTF8(true))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

func render(t rapid.TB, kind string, list []upstream.Inquiry) []byte {
	t.Helper()
	body, err := Render(kind, list)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// lookalikes are texts that could be taken for the structure of a list, or that JSON escapes.
var lookalikes = []string{
	"pending", "null", `pending","inquiry_type":"x`, `","status":"pending`, `]}]}`, `],"meta":{},"errors":[]}`, `{"data":[`,
	`\`, `\\`, `\"`, `x\\\"`, "배송", "Pending", "pending ", "\xff", "\ufffd", `\ufffd`, "", "\"", "\x00", "\x1f", "\b\f\n\r\t", "\x7f",
	"<&>", "\u2028", "\u2029", "\xe2\x80", "“”", "😀", "\xed\xa0\x80",
}

func texts() *rapid.Generator[string] {
	parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(lookalikes), rapid.String(), rapid.StringMatching(`[a-z ]{0,20}`)))
	return rapid.Map(parts, func(p []string) string { return strings.Join(p, "") })
}

func inquiries() *rapid.Generator[[]upstream.Inquiry] {
	first, last := time.Date(0, 1, 1, 14, 0, 0, 0, time.UTC).Unix(), time.Date(9999, 12, 31, 9, 0, 0, 0, time.UTC).Unix()
	at := rapid.Custom(func(t *rapid.T) time.Time {
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		return time.Unix(rapid.Int64Range(first, last).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
	})
	short := rapid.OneOf(rapid.SampledFrom(lookalikes), texts())
	null := rapid.Custom(func(t *rapid.T) upstream.NullString {
		if rapid.Bool().Draw(t, "null") {
			return upstream.NullString{}
		}
		return upstream.NullString{String: short.Draw(t, "text"), Valid: true}
	})
	response := rapid.Custom(func(t *rapid.T) upstream.Response {
		return upstream.Response{Content: texts().Draw(t, "content"), ResponderType: null.Draw(t, "responder"), CreatedAt: at.Draw(t, "at")}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) upstream.Inquiry {
		return upstream.Inquiry{
			Title: short.Draw(t, "title"), Content: texts().Draw(t, "content"), Status: short.Draw(t, "status"),
			InquiryType: null.Draw(t, "type"), CompanyName: texts().Draw(t, "company"), CreatedAt: at.Draw(t, "created"),
			Responses: rapid.SliceOfN(response, 0, 3).Draw(t, "responses"),
		}
	}), 0, 4)
}

// A list is what a decoder of the documented format would have written, and one selected
// from it what would have been rendered of the records that are wanted.
func TestListsAndSelections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := inquiries().Draw(t, "list")
		value := func(name string, of func(*upstream.Inquiry) string) string {
			values := []string{"", "", "absent", "pending"}
			for i := range list {
				if s := of(&list[i]); !strings.ContainsRune(s, 0xfffd) { // which also stands for what is no UTF-8
					values = append(values, s)
				}
			}
			return rapid.SampledFrom(values).Draw(t, name)
		}
		status := value("status", func(q *upstream.Inquiry) string { return q.Status })
		inquiryType := value("type", func(q *upstream.Inquiry) string { return q.InquiryType.String })
		is := upstream.NullString{String: inquiryType, Valid: true}
		wanted := slices.DeleteFunc(slices.Clone(list), func(q upstream.Inquiry) bool {
			return status != "" && q.Status != status || inquiryType != "" && q.InquiryType != is
		})
		for _, k := range Kinds() {
			whole := render(t, k.Name, list)
			wantJSON(t, whole, toWire(k.Name, list))
			before := bytes.Clone(whole)
			got, err := Select(whole, status, inquiryType)
			if want := render(t, k.Name, wanted); err != nil || !bytes.Equal(got, want) || cap(got) != len(got) {
				t.Fatalf("%s, %q %q: %v, room %d\ngot  %s\nwant %s", k.Name, status, inquiryType, err, cap(got), got, want)
			}
			clear(got)
			if !bytes.Equal(whole, before) {
				t.Fatal("the selection shares memory with the list")
			}
		}
	})
}

// The golden files are what a caller sees, indented for the reader; the bytes
// on the wire have no blanks.
func TestGolden(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 30, 0, 987_999_999, time.FixedZone("KST", 9*3600))
	list := []upstream.Inquiry{
		{
			Title: "When do you <deliver>?", Content: "Order \"20931\"\n" + `C:\orders` + "\t& more \x01", Status: "answered",
			InquiryType: upstream.NullString{String: "배송", Valid: true}, CompanyName: "Acme “Bolts”", CreatedAt: at,
			Responses: []upstream.Response{
				{Content: "On Thursday.", ResponderType: upstream.NullString{String: "staff", Valid: true}, CreatedAt: at.Add(time.Hour)},
				{Content: "", CreatedAt: at.Add(-24 * time.Hour)},
			},
		},
		{Title: "bad byte \xff here", Status: "pending", CreatedAt: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	failure := InvalidParameter
	failure.Source = &Source{Parameter: "status"}
	for file, got := range map[string][]byte{
		"testdata/buyer.json":  render(t, "buyer", list),
		"testdata/seller.json": render(t, "seller", list),
		"testdata/errors.json": failure.Render("req-1"),
	} {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := jsontext.Value(golden)
		if err := want.Compact(); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\ngot  %s\nwant %s", file, err, got, want)
		}
	}
	if got := render(t, "seller", nil); !bytes.Equal(got, Empty()) || string(got) != `{"data":[],"meta":{},"errors":[]}` {
		t.Errorf("an empty list is %s", got)
	}
	// A kind that nobody has heard of is a bug, not a buyer.
	if body, err := Render("admin", list); err == nil || body != nil {
		t.Errorf("rendered %s, %v", body, err)
	}
}

func TestErrorsAreAsDocumented(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string { return texts().Draw(t, name) }
		p := Problem{rapid.IntRange(400, 599).Draw(t, "status"), draw("code"), draw("title"), draw("detail"), nil}
		want := wireError{draw("id"), strconv.Itoa(p.Status), p.Code, p.Title, p.Detail, nil}
		switch rapid.IntRange(0, 2).Draw(t, "source") {
		case 0:
			p.Source = &Source{Parameter: "p" + draw("parameter")}
			want.Source = &wireSource{Parameter: p.Source.Parameter}
		case 1:
			p.Source = &Source{Header: "h" + draw("header")}
			want.Source = &wireSource{Header: p.Source.Header}
		}
		wantJSON(t, p.Render(want.ID), wireList[wireError]{Errors: []wireError{want}})
	})
}

// What RFC 3339 cannot say, and what is finer than it says here.
func TestTimes(t *testing.T) {
	for want, at := range map[string]time.Time{
		"2026-01-02T03:04:05.999Z": time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.UTC),
		"2025-12-31T18:00:00.007Z": time.Date(2026, 1, 1, 3, 0, 0, 7_000_000, time.FixedZone("", 9*3600)),
		"1969-12-31T23:59:59.000Z": time.Date(1969, 12, 31, 23, 59, 59, 1, time.UTC),
		"0001-01-01T00:00:00.000Z": {},
		"0000-02-29T00:00:00.000Z": time.Date(0, 2, 29, 0, 0, 0, 0, time.UTC),
		"0000-01-01T00:00:00.000Z": time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 9*3600)),
		"9999-12-31T23:59:59.999Z": time.Unix(1<<50, 0),
		"9999-12-31T23:00:00.000Z": time.Date(10000, 1, 1, 8, 0, 0, 0, time.FixedZone("", 9*3600)),
	} {
		if got := string(appendTime(nil, at)); got != `,"created_at":"`+want+`"` {
			t.Errorf("got %s, want %q", got, want)
		}
	}
}

// sample makes n inquiries of everyday size with two responses each.
func sample(n int) []upstream.Inquiry {
	at := time.Date(2026, 3, 14, 1, 59, 26, 535_897_932, time.UTC)
	list := make([]upstream.Inquiry, n)
	for i := range list {
		list[i] = upstream.Inquiry{
			Title: "Delivery date of order 20931 – please confirm",
			Content: "Hello,\nwe ordered \"M8 x 40\" bolts on Monday. Could you tell us when they leave your warehouse, " +
				"and whether a part delivery is possible?\nThank you, 김민준",
			Status:      "answered",
			InquiryType: upstream.NullString{String: "delivery", Valid: i%5 != 0},
			CompanyName: "Hansung Precision Co., Ltd.",
			CreatedAt:   at.Add(time.Duration(i) * time.Minute),
			Responses: []upstream.Response{
				{
					Content:       "They leave on Thursday; a part delivery is possible from 200 pieces.",
					ResponderType: upstream.NullString{String: "staff", Valid: true}, CreatedAt: at.Add(time.Hour),
				},
				{Content: "안녕하세요. 목요일에 출고될 예정입니다. 감사합니다.", CreatedAt: at.Add(2 * time.Hour)},
			},
		}
	}
	return list
}

// Rendering allocates the body and nothing else, and hardly more than it needs.
func TestRenderingAllocatesTheBody(t *testing.T) {
	list := sample(20)
	for _, k := range Kinds() {
		if n := testing.AllocsPerRun(20, func() { render(t, k.Name, list) }); n != 1 {
			t.Errorf("%s: %v allocations", k.Name, n)
		}
		if body := render(t, k.Name, list); cap(body) > len(body)+len(body)/8 {
			t.Errorf("%s: %d bytes lie in %d", k.Name, len(body), cap(body))
		}
	}
}

// What is selected is a list, and selecting the same again changes nothing.
func FuzzSelect(f *testing.F) {
	whole := render(f, "buyer", sample(2))
	for _, b := range [][]byte{
		whole, render(f, "seller", sample(2)), Empty(), nil, NotFound.Render("r"), whole[:len(whole)/2],
		append(bytes.Clone(whole), ' '),
	} {
		f.Add(b, "answered", "delivery")
	}
	f.Fuzz(func(t *testing.T, body []byte, status, inquiryType string) {
		got, err := Select(body, status, inquiryType)
		if err != nil || !jsontext.Value(body).IsValid() {
			return // which nobody has rendered
		}
		again, err := Select(got, status, inquiryType)
		if err != nil || !bytes.Equal(again, got) || len(got) > len(body) || !jsontext.Value(got).IsValid() {
			t.Fatalf("%s\nselected %s\nthen %s, %v", body, got, again, err)
		}
	})
}

// BenchmarkList decides what of rendering is worth being written by hand, and whether a
// filtered list may be made anew whenever it is not in the cache: it is the price of each such
// look-up.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{20, 1000} {
		inquiries := sample(n)
		list := render(b, "buyer", inquiries)
		b.Run(fmt.Sprint("render/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				render(b, "buyer", inquiries)
			}
		})
		b.Run(fmt.Sprint("select/", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Select(list, "answered", ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
