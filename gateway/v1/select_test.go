package v1

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"unicode/utf8"

	"inquiry-gateway/upstream"

	"pgregory.net/rapid"
)

// wanted are the records that upstream's mapping keeps for a filter.
func wanted(list []upstream.Inquiry, f Filter) []upstream.Inquiry {
	return slices.DeleteFunc(slices.Clone(list), func(q upstream.Inquiry) bool {
		return f.Status != "" && q.Status != f.Status ||
			f.InquiryType != "" && (!q.InquiryType.Valid || q.InquiryType.String != f.InquiryType)
	})
}

// lookalikes are texts that could be taken for the structure of a list.
var lookalikes = []string{
	"pending", "null", `pending","inquiry_type":"x`, `","status":"pending`, `]}]}`, `],"meta":{},"errors":[]}`, `{"data":[`,
	`\`, `\\`, `\"`, `x\\\"`, "\u2028", "배송", "Pending", "pending ", "\xff", "\ufffd", `\ufffd`,
}

func filterValues(t *rapid.T, list []upstream.Inquiry, name string, of func(*upstream.Inquiry) string) string {
	values := append([]string{"", "", "absent"}, lookalikes...)
	for i := range list {
		values = append(values, of(&list[i]), of(&list[i]))
	}
	return rapid.OneOf(rapid.SampledFrom(values), texts()).Draw(t, name)
}

func TestSelectionEqualsRenderingTheFilteredList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := inquiries().Draw(t, "list")
		for i := range list {
			if rapid.Bool().Draw(t, "alike") {
				list[i].Status = rapid.SampledFrom(lookalikes).Draw(t, "status")
				list[i].Title = rapid.SampledFrom(lookalikes).Draw(t, "title")
				list[i].InquiryType = upstream.NullString{String: rapid.SampledFrom(lookalikes).Draw(t, "type"), Valid: true}
			}
		}
		f := Filter{
			Status:      filterValues(t, list, "wanted status", func(q *upstream.Inquiry) string { return q.Status }),
			InquiryType: filterValues(t, list, "wanted type", func(q *upstream.Inquiry) string { return q.InquiryType.String }),
		}
		for name, kind := range kinds {
			whole := kind.render(nil, list)
			before := bytes.Clone(whole)
			got, err := kind.pick(whole, f)
			if !utf8.ValidString(f.Status) || !utf8.ValidString(f.InquiryType) {
				if !errors.Is(err, ErrNotSelectable) {
					t.Fatalf("%s: %v for a filter that is no UTF-8", name, err)
				}
				continue
			}
			if want := kind.render(nil, wanted(list, f)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, %+v: %v\ngot  %s\nwant %s", name, f, err, got, want)
			}
			if cap(got) != len(got) {
				t.Fatalf("%s: %d bytes lie in %d", name, len(got), cap(got))
			}
			if len(got) > 0 {
				got[0] = 'x'
			}
			if !bytes.Equal(whole, before) {
				t.Fatalf("%s: the selection shares memory with the list", name)
			}
		}
	})
}

var kinds = map[string]struct {
	render func([]byte, []upstream.Inquiry) []byte
	pick   func([]byte, Filter) ([]byte, error)
	decode func([]byte) (any, error)
}{
	"buyer":  {AppendBuyer, SelectBuyer, decodeAs[wireBuyer]},
	"seller": {AppendSeller, SelectSeller, decodeAs[wireSeller]},
}

func decodeAs[R any](b []byte) (any, error) {
	var w wireList[R]
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return w, d.Decode(&w)
}

// A list that lost a byte, or has one too many, is refused: nothing is guessed.
func TestOnlyWholeListsAreSelectedFrom(t *testing.T) {
	list := goldenList()
	for name, kind := range kinds {
		whole := kind.render(nil, list)
		if _, err := kind.pick(whole, Filter{}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range whole {
			if got, err := kind.pick(whole[:i], Filter{}); err == nil {
				t.Errorf("%s: cut off at %d, and selected %s", name, i, got)
			}
		}
		for _, bad := range [][]byte{
			nil, append(bytes.Clone(whole), ' '), append([]byte(" "), whole...), bytes.Replace(whole, []byte(`"status"`), []byte(`"Status"`), 1),
			bytes.Replace(whole, []byte(`},{`), []byte(`}{`), 1), bytes.Replace(whole, []byte(`[{`), []byte(`[,{`), 1),
			AppendErrors(nil, goldenError()), []byte(`{"data":[{}],"meta":{},"errors":[]}`),
		} {
			if got, err := kind.pick(bad, Filter{}); err == nil {
				t.Errorf("%s: %s\nselected %s", name, bad, got)
			}
		}
	}
	if _, err := SelectBuyer(AppendSeller(nil, list), Filter{}); err == nil {
		t.Error("a sellers' list was taken for a buyers'")
	}
}

func FuzzSelect(f *testing.F) {
	list := goldenList()
	f.Add(AppendBuyer(nil, list), "answered", "")
	f.Add(AppendSeller(nil, list), "", "배송")
	f.Add([]byte(`{"data":[],"meta":{},"errors":[]}`), "a", "b")
	f.Add([]byte(`{"data":[{"title":"\\","status":"\"","inquiry_type":null,"company_name":"","created_at":"2006-01-02T15:04:05.000Z"}],"meta":{},"errors":[]}`), `"`, "")
	f.Fuzz(func(t *testing.T, body []byte, status, inquiryType string) {
		want := Filter{status, inquiryType}
		for name, kind := range kinds {
			got, err := kind.pick(body, want)
			if err != nil {
				continue
			}
			if len(got) > len(body) {
				t.Fatalf("%s: %d bytes out of %d", name, len(got), len(body))
			}
			again, err := kind.pick(got, want)
			if err != nil || !bytes.Equal(again, got) {
				t.Fatalf("%s: selecting again gives %s, %v, not %s", name, again, err, got)
			}
			if !json.Valid(body) {
				continue
			}
			if _, err := kind.decode(got); err != nil {
				t.Fatalf("%s: %s selected from a valid list: %v", name, got, err)
			}
		}
	})
}

// Decides whether a filtered list may be made anew whenever it is not in the
// cache: it is the price of each such look-up.
func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{20, 1000} {
		list := AppendBuyer(nil, sample(n))
		for _, f := range []Filter{{Status: "answered"}, {Status: "none"}} {
			b.Run(fmt.Sprintf("%s/%d", f.Status, n), func(b *testing.B) {
				b.SetBytes(int64(len(list)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := SelectBuyer(list, f); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
