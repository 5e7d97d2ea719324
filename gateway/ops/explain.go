package ops

import (
	"maps"
	"net/url"
	"slices"

	"inquiry-gateway/cache"
	"inquiry-gateway/internal/filters"
	"inquiry-gateway/upstream"
)

// maxExplainValue is the maximum size of each parameter of a question, in bytes.
const maxExplainValue = 128

// ExplainRequest asks what a request for one list would get now. It names
// either a key, whose account and kind are then used, or an account and a kind.
type ExplainRequest struct {
	KeyID       string
	Account     string
	Kind        string // buyer or seller; may be empty with a KeyID: the kind of the key
	Status      string // the filter; empty: none
	InquiryType string // the filter; empty: none
}

// Explanation is the answer: no secret, no content. Durations are in seconds. What is asked
// for stands in Cache.Key.
type Explanation struct {
	Prediction Prediction        `json:"prediction"`
	Access     *Access           `json:"access,omitempty"`     // with a key
	RateLimit  *RateLimitState   `json:"rate_limit,omitempty"` // with a key
	Cache      cache.Explanation `json:"cache"`
	Upstream   UpstreamState     `json:"upstream"`
}

// Access is what authorization says of a key.
type Access struct {
	KeyID      string   `json:"key_id"`
	Verdict    string   `json:"verdict"` // allowed or refused
	Reason     string   `json:"reason,omitempty"`
	HTTPStatus int      `json:"http_status"`
	Code       string   `json:"code,omitempty"` // of the error; empty when allowed
	KeyKind    string   `json:"key_kind"`
	Scopes     []string `json:"scopes"`
	PaidAccess bool     `json:"paid_access"`
	Plan       string   `json:"plan,omitempty"`
}

// Prediction is what the request would get, as far as it can be known without
// asking the legacy system.
type Prediction struct {
	Outcome    string `json:"outcome"` // refused, unavailable, unsupported, failing, or as in Cache-Status: hit, miss, ...
	HTTPStatus int    `json:"http_status"`
	Code       string `json:"code,omitempty"`
	Text       string `json:"text"`
}

// UpstreamState is how the legacy system is seen for this kind.
type UpstreamState struct {
	Breaker string  `json:"breaker"` // closed, half-open or open
	Ceiling Ceiling `json:"ceiling"`
	// Incidents are the failures of the kind that are not over; never nil.
	Incidents []upstream.Incident `json:"incidents"`
}

// Ceiling is what the fleet may send to the legacy system, as far as this node knows.
type Ceiling struct {
	PerSecond int  `json:"per_second"` // of the whole fleet; 0: no ceiling
	Fallback  bool `json:"fallback"`   // Redis is unavailable: the node keeps to its own part
}

// RateLimitState is the limit that counts for the account.
type RateLimitState struct {
	From      string  `json:"from"`       // the configuration key it comes from
	PerSecond float64 `json:"per_second"` // 0: no limit
	Burst     int     `json:"burst"`
}

// parseExplain reads the query of GET /ops/explain, as strictly as the public API
// reads its own: a filter that is dropped would explain another list.
func parseExplain(query string) (ExplainRequest, error) {
	var want ExplainRequest
	fields := map[string]*string{
		"key_id": &want.KeyID, "account": &want.Account, "kind": &want.Kind, "status": &want.Status, "inquiry_type": &want.InquiryType,
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return want, badRequest("the query cannot be read: %v", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // of two mistakes the same one is always named
		given := values[name]
		field, known := fields[name]
		switch {
		case !known:
			return want, badRequest("parameter %.32q is not known; send key_id, or account and kind, and status, inquiry_type", name)
		case len(given) > 1:
			return want, badRequest("parameter %s was sent twice", name)
		case given[0] == "" || len(given[0]) > maxExplainValue:
			return want, badRequest("parameter %s wants 1 to %d bytes", name, maxExplainValue)
		}
		*field = given[0]
	}
	return want, want.check()
}

// check holds the parameters against each other and against the rules of the public
// API.
func (want ExplainRequest) check() error {
	switch {
	case want.KeyID == "" && (want.Account == "" || want.Kind == ""):
		return badRequest("send either key_id, or account and kind")
	case want.KeyID != "" && want.Account != "":
		return badRequest("send either key_id or account: a key has its own account")
	case want.Kind != "" && want.Kind != cache.KindBuyer && want.Kind != cache.KindSeller:
		return badRequest("kind must be buyer or seller")
	}
	for _, filter := range [][2]string{{"inquiry_type", want.InquiryType}, {"status", want.Status}} {
		if name, value := filter[0], filter[1]; value != "" && !filters.Valid(value) {
			return badRequest("%s must be 1 to 64 of A-Z a-z 0-9 . _ - as on the public listener", name)
		}
	}
	return nil
}
