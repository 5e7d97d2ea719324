package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func explainer(answer func(ExplainRequest) (Explanation, error)) http.Handler {
	return newListener("", "", Options{Explain: func(_ context.Context, want ExplainRequest) (Explanation, error) { return answer(want) }})
}

func TestExplainTakesItsParameters(t *testing.T) {
	for query, want := range map[string]ExplainRequest{
		"key_id=k1":                {KeyID: "k1"},
		"key_id=k1&kind=seller":    {KeyID: "k1", Kind: "seller"},
		"account=a%26b&kind=buyer": {Account: "a&b", Kind: "buyer"},
		"account=a&kind=buyer&status=s&inquiry_type=t.": {Account: "a", Kind: "buyer", Status: "s", InquiryType: "t."},
	} {
		var got ExplainRequest
		h := explainer(func(r ExplainRequest) (Explanation, error) { got = r; return Explanation{}, nil })
		w := ask(h, http.MethodGet, "/ops/explain?"+query, "")
		if w.Code != http.StatusOK || got != want || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %+v", query, w.Code, got)
		}
	}
}

func TestExplainRefusesWhatItCannotTake(t *testing.T) {
	h := explainer(func(ExplainRequest) (Explanation, error) { return Explanation{}, errors.New("was asked") })
	for query, says := range map[string]string{
		"":                                   "key_id, or account and kind",
		"kind=buyer":                         "key_id, or account and kind",
		"account=a":                          "key_id, or account and kind",
		"key_id=":                            "1 to 128 bytes",
		"key_id=" + strings.Repeat("k", 129): "1 to 128 bytes",
		"key_id=k&account=a":                 "its own account",
		"key_id=k&key_id=l":                  "twice",
		"key_id=k&kind=admin":                "buyer or seller",
		"key_id=k&Status=x":                  `"Status" is not known`,
		"key_id=k&status=a+b":                "status must be",
		"key_id=k&inquiry_type=%00":          "inquiry_type must be",
		"key_id=k&status=" + strings.Repeat("s", 65): "1 to 64",
		"key_id=%zz":          "cannot be read",
		"key_id=k;kind=buyer": "cannot be read",
	} {
		if w := ask(h, http.MethodGet, "/ops/explain?"+query, ""); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}

func TestExplainErrors(t *testing.T) {
	for code, err := range map[int]error{
		http.StatusNotFound: fmt.Errorf("%w: no key", ErrNothingToExplain), http.StatusNotImplemented: fmt.Errorf("%w: no ids", ErrCannotExplain), http.StatusBadGateway: errors.New("away"),
	} {
		h := explainer(func(ExplainRequest) (Explanation, error) { return Explanation{}, err })
		if w := ask(h, http.MethodGet, "/ops/explain?key_id=k", ""); w.Code != code || !strings.Contains(w.Body.String(), err.Error()) {
			t.Errorf("%v: %d %s", err, w.Code, w.Body)
		}
	}
}
