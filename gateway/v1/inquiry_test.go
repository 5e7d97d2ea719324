package v1

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"inquiry-gateway/upstream"

	"pgregory.net/rapid"
)

func texts() *rapid.Generator[string] {
	special := rapid.SampledFrom([]string{"", "\"", "\\", "\x00", "\x1f", "\b\f\n\r\t", "\x7f", "<&>", "\u2028", "\u2029", "\ufffd", "\xff", "\xe2\x80", "“”", "한글", "😀", "\xed\xa0\x80"})
	parts := rapid.SliceOf(rapid.OneOf(special, rapid.String(), rapid.StringMatching(`[a-z ]{0,20}`)))
	return rapid.Map(parts, func(p []string) string {
		s := ""
		for _, part := range p {
			s += part
		}
		return s
	})
}

func times() *rapid.Generator[time.Time] {
	first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	return rapid.Custom(func(t *rapid.T) time.Time {
		zone := time.FixedZone("", rapid.IntRange(-14*3600, 14*3600).Draw(t, "zone"))
		return time.Unix(rapid.Int64Range(first, last).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).In(zone)
	})
}

func nullStrings() *rapid.Generator[upstream.NullString] {
	return rapid.Custom(func(t *rapid.T) upstream.NullString {
		if rapid.Bool().Draw(t, "null") {
			return upstream.NullString{}
		}
		return upstream.NullString{String: texts().Draw(t, "text"), Valid: true}
	})
}

func inquiries() *rapid.Generator[[]upstream.Inquiry] {
	response := rapid.Custom(func(t *rapid.T) upstream.Response {
		return upstream.Response{Content: texts().Draw(t, "content"), ResponderType: nullStrings().Draw(t, "responder"), CreatedAt: times().Draw(t, "at")}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) upstream.Inquiry {
		return upstream.Inquiry{
			Title: texts().Draw(t, "title"), Content: texts().Draw(t, "content"), Status: texts().Draw(t, "status"),
			CompanyName: texts().Draw(t, "company"), InquiryType: nullStrings().Draw(t, "type"),
			CreatedAt: times().Draw(t, "created"), Responses: rapid.SliceOfN(response, 0, 3).Draw(t, "responses"),
		}
	}), 0, 4)
}

func wantJSON(t rapid.TB, got []byte, wire any) {
	t.Helper()
	want, err := marshal(wire)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestListsEqualEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := inquiries().Draw(t, "list")
		wantJSON(t, AppendBuyer(nil, list), buyersToWire(list))
		wantJSON(t, AppendSeller(nil, list), sellersToWire(list))
	})
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	list := sample(2)
	for name, render := range map[string]func([]byte) []byte{
		"buyer":  func(dst []byte) []byte { return AppendBuyer(dst, list) },
		"seller": func(dst []byte) []byte { return AppendSeller(dst, list) },
		"errors": func(dst []byte) []byte { return AppendErrors(dst, NotFound.Problem().Occurrence("r1")) },
	} {
		t.Run(name, func(t *testing.T) {
			got := render([]byte("before"))
			if want := append([]byte("before"), render(nil)...); !bytes.Equal(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestEmptyListsAreArrays(t *testing.T) {
	const want = `{"data":[],"meta":{},"errors":[]}`
	for name, got := range map[string][]byte{
		"buyer nil":    AppendBuyer(nil, nil),
		"buyer empty":  AppendBuyer(nil, []upstream.Inquiry{}),
		"seller nil":   AppendSeller(nil, nil),
		"seller empty": AppendSeller(nil, []upstream.Inquiry{}),
	} {
		if string(got) != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// The golden files are what a caller sees, indented for the reader; the bytes
// on the wire have no blanks.
func TestGolden(t *testing.T) {
	list := goldenList()
	for file, got := range map[string][]byte{
		"testdata/buyer.json":  AppendBuyer(nil, list),
		"testdata/seller.json": AppendSeller(nil, list),
		"testdata/errors.json": AppendErrors(nil, goldenError()),
	} {
		golden, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		if err := json.Compact(&want, golden); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%s:\ngot  %s\nwant %s", file, got, want.Bytes())
		}
	}
}

func goldenList() []upstream.Inquiry {
	at := time.Date(2026, 3, 2, 9, 30, 0, 987_999_999, time.FixedZone("KST", 9*3600))
	return []upstream.Inquiry{
		{
			Title: "When do you <deliver>?", Content: "Order \"20931\"\n" + `C:\orders` + "\t& more \u2028\x01", Status: "answered",
			InquiryType: upstream.NullString{String: "배송", Valid: true}, CompanyName: "Acme “Bolts”", CreatedAt: at,
			Responses: []upstream.Response{
				{Content: "On Thursday.", ResponderType: upstream.NullString{String: "staff", Valid: true}, CreatedAt: at.Add(time.Hour)},
				{Content: "", CreatedAt: at.Add(-24 * time.Hour)},
			},
		},
		{Title: "bad byte \xff here", Status: "pending", CreatedAt: time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
}

func goldenError() Error {
	e := InvalidParameter.Problem().Occurrence("req-1")
	e.Source = &Source{Parameter: "status"}
	return e
}

func TestRenderingAllocatesOnlyItsBuffer(t *testing.T) {
	list := sample(20)
	buyer, seller := make([]byte, 0, BuyerSize(list)), make([]byte, 0, SellerSize(list))
	for name, render := range map[string]func(){
		"buyer":  func() { AppendBuyer(buyer, list) },
		"seller": func() { AppendSeller(seller, list) },
	} {
		if n := testing.AllocsPerRun(20, render); n != 0 {
			t.Errorf("%s: %v allocations beside the buffer", name, n)
		}
	}
}

func TestSizeIsClose(t *testing.T) {
	for _, n := range []int{0, 1, 20} {
		list := sample(n)
		for name, c := range map[string]struct{ estimate, real int }{
			"buyer":  {BuyerSize(list), len(AppendBuyer(nil, list))},
			"seller": {SellerSize(list), len(AppendSeller(nil, list))},
		} {
			if c.estimate < c.real || c.estimate > c.real+c.real/8 {
				t.Errorf("%s of %d: estimate %d, rendered %d", name, n, c.estimate, c.real)
			}
		}
	}
}

// A kind that nobody has heard of is a bug, not a buyer.
func TestUnknownKindIsRefused(t *testing.T) {
	if body, err := Render("admin", []upstream.Inquiry{{Title: "secret"}}); err == nil || body != nil {
		t.Errorf("rendered %s, %v", body, err)
	}
}
