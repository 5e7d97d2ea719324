package contract

import (
	"strings"
	"testing"

	v1 "inquiry-gateway/gateway/v1"
)

// Each is a good reply with one thing wrong, and a word that the complaint must
// have.
func TestViolationsInBodies(t *testing.T) {
	c := newChecker(t)
	seller := list()
	seller.target, seller.body = "/api/v1/seller/inquiries", string(v1.AppendSeller(nil, inquiries()))
	for name, v := range map[string]struct {
		reply reply
		want  string
	}{
		"another field in a record":   {replaced(t, list(), `"title":"t"`, `"title":"t","uuid":"x"`), "uuid"},
		"another field in a response": {replaced(t, list(), `"content":"r"`, `"content":"r","id":1`), "id"},
		"another field in meta":       {replaced(t, list(), `"meta":{}`, `"meta":{"page":1}`), "page"},
		"another field beside data":   {replaced(t, list(), `"meta":{}`, `"meta":{},"next":1`), "next"},
		"field missing":               {replaced(t, list(), `"content":"c",`, ``), "content"},
		"null array":                  {replaced(t, list(), `"responses":[{"content":"r","responder_type":null,"created_at":"2026-03-02T01:02:03.000Z"}]`, `"responses":null`), "responses"},
		"null title":                  {replaced(t, list(), `"title":"t"`, `"title":null`), "title"},
		"number as text":              {replaced(t, list(), `"status":"s"`, `"status":5`), "status"},
		"no milliseconds":             {replaced(t, list(), `:03.000Z`, `:03Z`), "created_at"},
		"zone":                        {replaced(t, list(), `:03.000Z`, `:03.000+00:00`), "created_at"},
		"month 13":                    {replaced(t, list(), `2026-03`, `2026-13`), "created_at"},
		"key twice":                   {replaced(t, list(), `"title":"t"`, `"title":"t","title":"u"`), "duplicate"},
		"invalid UTF-8":               {replaced(t, list(), `"t"`, "\"\xff\""), "UTF-8"},
		"not JSON":                    {replaced(t, list(), `"data"`, `data`), "body"},
		"repeated JSON":               {replaced(t, list(), `"errors":[]}`, `"errors":[]}{}`), "body"},
		"errors in a list":            {replaced(t, list(), `"errors":[]`, `"errors":[{}]`), "errors"},
		"null type of a seller":       {replaced(t, seller, `"inquiry_type":"i"`, `"inquiry_type":null`), "inquiry_type"},
		"content for a seller":        {replaced(t, seller, `"title":"t"`, `"title":"t","content":"c"`), "content"},
		"data in an error":            {replaced(t, failure(v1.UpstreamError.Problem()), `"data":[]`, `"data":[{}]`), "data"},
		"error without a detail":      {replaced(t, failure(v1.UpstreamError.Problem()), `"title":"The inquiry system failed",`, ``), "title"},
		"status as a number":          {replaced(t, failure(v1.UpstreamError.Problem()), `"status":"502"`, `"status":502`), "status"},
		"code of another status":      {replaced(t, failure(v1.UpstreamError.Problem()), `"upstream_error"`, `"upstream_timeout"`), "not documented"},
		"unknown code":                {replaced(t, failure(v1.UpstreamError.Problem()), `"upstream_error"`, `"oops"`), "code"},
		"another id":                  {replaced(t, failure(v1.UpstreamError.Problem()), `"req-1"`, `"req-2"`), "X-Request-Id"},
	} {
		t.Run(name, func(t *testing.T) { wantComplaint(t, v.reply.check(c), v.want) })
	}
}

func TestViolationsInHeaders(t *testing.T) {
	c := newChecker(t)
	with := func(r reply, name string, values ...string) reply {
		r.header = r.header.Clone()
		if r.header[name] = values; len(values) == 0 {
			delete(r.header, name)
		}
		return r
	}
	for name, v := range map[string]struct {
		reply reply
		want  string
	}{
		"no ETag":                      {with(list(), "Etag"), "ETag is missing"},
		"strong ETag":                  {with(list(), "Etag", `"abc"`), "ETag"},
		"two Age":                      {with(list(), "Age", "1", "2"), "2 times"},
		"negative Age":                 {with(list(), "Age", "-1"), "Age"},
		"public":                       {with(list(), "Cache-Control", "public"), "Cache-Control"},
		"Cache-Status with a key":      {with(list(), "Cache-Status", `inquiry-gateway; hit; key="acme"`), "Cache-Status"},
		"cookie":                       {with(list(), "Set-Cookie", "a=b"), "Set-Cookie is not documented"},
		"header of the legacy's":       {with(list(), "X-Powered-By", "x"), "X-Powered-By"},
		"text":                         {with(list(), "Content-Type", "text/html"), "Content-Type"},
		"not gzip":                     {with(list(), "Content-Encoding", "gzip"), "Content-Encoding"},
		"brotli":                       {with(list(), "Content-Encoding", "br"), "Content-Encoding"},
		"stored error":                 {with(failure(v1.UpstreamError.Problem()), "Cache-Control", "private, no-cache"), "Cache-Control"},
		"503 without Retry-After":      {with(failure(v1.UpstreamUnavailable.Problem()), "Retry-After"), "Retry-After"},
		"Retry-After as a date":        {with(failure(v1.AuthUnavailable.Problem()), "Retry-After", "Sat, 21 Nov 2026 11:00:00 GMT"), "Retry-After"},
		"Retry-After of 0":             {with(failure(v1.AuthUnavailable.Problem()), "Retry-After", "0"), "Retry-After"},
		"401 without a challenge":      {with(failure(v1.InvalidAPIKey.Problem()), "Www-Authenticate"), "WWW-Authenticate is missing"},
		"error= without a key":         {with(failure(v1.MissingAPIKey.Problem()), "Www-Authenticate", `Bearer realm="inquiries", error="invalid_token"`), "missing_api_key"},
		"two headers, no challenge":    {with(failure(v1.InvalidRequest.Problem()), "Www-Authenticate"), "invalid_request"},
		"challenge for a wrong kind":   {with(failure(v1.WrongKeyKind.Problem()), "Www-Authenticate", `Bearer realm="inquiries"`), "no header WWW-Authenticate"},
		"405 without Allow":            {with(failure(v1.MethodNotAllowed.Problem()), "Allow"), "Allow"},
		"404 with Allow":               {with(failure(v1.NotFound.Problem()), "Allow", "GET, HEAD"), "no header Allow"},
		"internal error with an ETag":  {with(failure(v1.InternalError.Problem()), "Etag", `W/"x"`), "not documented"},
		"error without its request id": {with(failure(v1.InternalError.Problem()), "X-Request-Id"), "X-Request-Id is missing"},
	} {
		t.Run(name, func(t *testing.T) { wantComplaint(t, v.reply.check(c), v.want) })
	}
}

func TestViolationsInRouting(t *testing.T) {
	c := newChecker(t)
	change := func(r reply, with func(*reply)) reply {
		with(&r)
		return r
	}
	for name, v := range map[string]struct {
		reply reply
		want  string
	}{
		"list without a key":         {change(list(), func(r *reply) { r.auth = nil }), "without one key"},
		"list with two keys":         {change(list(), func(r *reply) { r.auth = []string{"Bearer a", "Bearer b"} }), "without one key"},
		"list with another scheme":   {change(list(), func(r *reply) { r.auth = []string{"Basic a"} }), "without one key"},
		"list to a repeated filter":  {change(list(), func(r *reply) { r.target += "&status=x" }), "repeated"},
		"list to a bad filter":       {change(list(), func(r *reply) { r.target += "&inquiry_type=a%20b" }), "inquiry_type"},
		"list on an unknown path":    {change(list(), func(r *reply) { r.target = "/api/v1/inquiries" }), "404"},
		"list to a POST":             {change(list(), func(r *reply) { r.method = "POST" }), "405"},
		"404 on a known path":        {change(failure(v1.NotFound.Problem()), func(r *reply) { r.target = list().target }), "not documented"},
		"undocumented status":        {change(list(), func(r *reply) { r.status = 206 }), "not documented"},
		"status beside its body":     {change(failure(v1.UpstreamError.Problem()), func(r *reply) { r.status = 500 }), "not documented"},
		"body to a HEAD":             {change(list(), func(r *reply) { r.method = "HEAD" }), "where none may be"},
		"304 with a body":            {change(list(), func(r *reply) { r.status = 304 }), "where none may be"},
		"seller's reply for a buyer": {change(list(), func(r *reply) { r.body = string(v1.AppendSeller(nil, inquiries())) }), "company_name"},
	} {
		t.Run(name, func(t *testing.T) { wantComplaint(t, v.reply.check(c), v.want) })
	}
}

func wantComplaint(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no complaint, want one with %q", want)
	}
	// The first line names the request and would satisfy many a wish.
	if _, complaints, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(complaints, want) {
		t.Errorf("got %v, want a complaint with %q", err, want)
	}
}
