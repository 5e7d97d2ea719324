package canary

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
)

// rules are the header fields that each sort of answer has: the form of their
// value, and whether they must be there. What is not listed must not be there,
// so that no field of the legacy system's gets out.
type rules struct {
	list, unchanged, refusal map[string]rule
}

// rule is what is documented of one header field. The form is anchored at both ends.
type rule struct {
	form *regexp.Regexp
	must bool
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// newRules writes the header fields of the public contract down a second time.
func newRules() *rules {
	exactly := func(value string) rule { return rule{regexp.MustCompile("^" + regexp.QuoteMeta(value) + "$"), true} }
	must := func(form string) rule { return rule{regexp.MustCompile("^(?:" + form + ")$"), true} }
	may := func(form string) rule { return rule{regexp.MustCompile("^(?:" + form + ")$"), false} }
	all := map[string]rule{ // the last three are HTTP's own
		"X-Request-Id": {requestID, true}, "X-Content-Type-Options": exactly("nosniff"),
		"Ratelimit": may(`"[^"]+";r=\d+;t=\d+`), "Ratelimit-Policy": may(`"[^"]+";q=\d+;w=\d+`),
		"Content-Length": may(`\d+`), "Date": may(".+"), "Connection": may("(?i:close|keep-alive)"),
	}
	with := func(base, more map[string]rule) map[string]rule {
		both := maps.Clone(base)
		maps.Copy(both, more)
		return both
	}
	unchanged := with(all, map[string]rule{
		"Cache-Control": exactly("private, no-cache"), "Vary": exactly("Authorization, Accept-Encoding"),
		"Etag": must(`W/"[A-Za-z0-9_-]+"`), "Age": must(`\d{1,9}`), "Cache-Status": must("[^,]+"),
	})
	json := exactly("application/json; charset=utf-8")
	return &rules{
		unchanged: unchanged,
		list:      with(unchanged, map[string]rule{"Content-Type": json, "Content-Encoding": may("gzip")}),
		refusal: with(all, map[string]rule{
			"Content-Type": json, "Cache-Control": exactly("no-store"),
			"Retry-After": may(`[1-9]\d*`), "Www-Authenticate": may(`Bearer realm="inquiries".*`),
		}),
	}
}

// problems names the fields that are not as the rules have them; a value is not
// repeated, because it may be anything.
func problems(rules map[string]rule, header http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		switch values := header[name]; {
		case len(values) > 1:
			all = append(all, "header "+name+" is there more than once")
		case len(values) == 0 && rules[name].must:
			all = append(all, "header "+name+" is missing")
		case len(values) == 1 && !rules[name].form.MatchString(values[0]):
			all = append(all, "header "+name+" has not the documented form")
		}
	}
	// net/http has canonical names, as the rules have.
	for _, name := range slices.Sorted(maps.Keys(header)) {
		if _, known := rules[name]; !known {
			all = append(all, "header "+name+" is not documented")
		}
	}
	return all
}

// codes are the error codes that go with a status; none for a status that no canary
// should meet.
func codes(status int) []string {
	return map[int][]string{
		http.StatusUnauthorized:       {"missing_api_key", "invalid_api_key"},
		http.StatusForbidden:          {"wrong_key_kind", "insufficient_scope", "api_access_required"},
		http.StatusTooManyRequests:    {"rate_limited"},
		http.StatusBadGateway:         {"upstream_error", "upstream_invalid_response"},
		http.StatusServiceUnavailable: {"upstream_unavailable", "auth_unavailable"},
		http.StatusGatewayTimeout:     {"upstream_timeout"},
	}[status]
}

// declared tells whether a status says that there is no list now, through no fault
// of the gateway's.
func declared(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout
}

// challenges are the values of WWW-Authenticate (RFC 6750) by error code.
func challenges() map[string]string {
	return map[string]string{
		"missing_api_key": `Bearer realm="inquiries"`,
		"invalid_api_key": `Bearer realm="inquiries", error="invalid_token"`,
	}
}
