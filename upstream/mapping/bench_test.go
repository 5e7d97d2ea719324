package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"

	"github.com/bytedance/sonic"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"inquiry-gateway/upstream/internal/sample"
)

// BenchmarkMap supports the decision to walk a reply once with a tree of the
// configured paths instead of asking gjson for each path of each record, or
// decoding first. It is the CPU time of a miss but for HTTP and rendering, with
// the same bytes for all. Only the tree does all of the work (strict, duplicate
// names refused, times, ids, filters, owners), and takes its paths from a
// configuration; see decoders for what the others leave undone. Microseconds of
// CPU for 1,000 records of 540 bytes, minimum of 10:
//
//	tree            980
//	jsontext        1,210, its tokens only
//	sonic           1,920, and it is not strict
//	jsonv2          2,670
//	encoding/json   5,060, duplicate names accepted
//	gjson           5,440, of which 540 to validate
func BenchmarkMap(b *testing.B) {
	plan := planFrom(b, sample.YAML, "buyer")
	for _, n := range []int{20, 1000, 5000} {
		body := sample.Tickets(n)
		text := []byte(body)
		all := decoders()
		all["tree"] = func(_ []byte, body string) (int, error) { return mapAll(plan, body) }
		for name, decode := range all {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				report := cpu(b)
				for b.Loop() {
					if got, err := decode(text, body); got != n || err != nil {
						b.Fatal(got, err)
					}
				}
				report()
			})
		}
	}
}

// mapAll maps a reply.
func mapAll(plan *Plan, body string) (int, error) {
	r := plan.NewReply(Request{Kind: "buyer", Account: "acme"})
	if err := whole(r, body); err != nil {
		return 0, err
	}
	return len(r.List), nil
}

// cpu reports the processor time of the whole process per operation: the figure
// that a busy machine does not change. Call its result after the loop.
func cpu(b *testing.B) (report func()) {
	b.Helper()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/float64(b.N), "cpu-ns/op") }
}

// mapWithGJSON picks the same values with gjson alone: no check for duplicate
// names, no times parsed, no ids looked for.
func mapWithGJSON(body string) int {
	if !gjson.Valid(body) {
		return 0
	}
	var list []Inquiry
	gjson.Get(body, "result.items").ForEach(func(_, r gjson.Result) bool {
		inq := Inquiry{
			Title: r.Get("subject").String(), Content: r.Get("body.text").String(), Status: r.Get("state").String(),
			InquiryType: NullString{r.Get("category").String(), true}, CompanyName: r.Get("opened").String(),
		}
		_, _, _ = r.Get("customer.id").String(), r.Get("uuid").String(), r.Get("replies.#.uuid").Raw
		r.Get("replies").ForEach(func(_, a gjson.Result) bool {
			inq.Responses = append(inq.Responses, Response{Content: a.Get("text").String(), ResponderType: NullString{a.Get("by.role").String(), true}})
			_ = a.Get("at").String()
			return true
		})
		list = append(list, inq)
		return true
	})
	return len(list)
}

// ticketReply fits this one reply: a decoder into structs cannot follow a
// mapping that is known at start only.
type ticketReply struct {
	Result struct {
		Items []struct {
			UUID     string `json:"uuid"`
			Customer struct {
				ID string `json:"id"`
			} `json:"customer"`
			Subject  string `json:"subject"`
			State    string `json:"state"`
			Category string `json:"category"`
			Opened   string `json:"opened"`
			Body     struct {
				Text string `json:"text"`
			} `json:"body"`
			Replies []struct {
				UUID string `json:"uuid"`
				Text string `json:"text"`
				At   string `json:"at"`
				By   struct {
					Role string `json:"role"`
				} `json:"by"`
			} `json:"replies"`
		} `json:"items"`
	} `json:"result"`
}

// decoders are the alternatives, each with what it leaves undone: none looks
// for ids or parses times. encoding/json and sonic let a second member of the
// same name win; gjson takes the first one without a word; sonic is not strict
// about UTF-8 and needs unsafe code made for each Go release.
func decoders() map[string]func(text []byte, body string) (int, error) {
	into := func(decode func([]byte, any) error) func([]byte, string) (int, error) {
		return func(text []byte, _ string) (int, error) {
			var r ticketReply
			err := decode(text, &r)
			return len(r.Result.Items), err
		}
	}
	return map[string]func([]byte, string) (int, error){
		"encoding-json": into(json.Unmarshal),
		"jsonv2":        into(func(b []byte, v any) error { return jsonv2.Unmarshal(b, v) }),
		"sonic":         into(sonic.Unmarshal),
		"gjson":         func(_ []byte, body string) (int, error) { return mapWithGJSON(body), nil },
		"jsontext":      func(text []byte, _ string) (int, error) { return countTokens(text) },
	}
}

// countTokens streams: it is strict and finds duplicate names, and is the floor
// of what a mapping on top of jsontext would cost.
func countTokens(body []byte) (records int, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	for {
		t, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return 0, err
		}
		if t.Kind() == '}' && d.StackDepth() == 3 {
			records++
		}
	}
}
