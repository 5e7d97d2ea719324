package address

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"

	"inquiry-gateway/internal/invalid"
)

var all = []string{Account, Status, Type, IDs, Page, Cursor, Size}

// posting compiles a request with a body that is written in YAML.
func posting(t testing.TB, bodyType, body string) (Plan, error) {
	t.Helper()
	s := Spec{Path: "/search", InQuery: all, Sending: Sending{Method: "POST", BodyType: bodyType}}
	if err := yaml.Unmarshal([]byte(body), &s.Body); err != nil {
		t.Fatal(err)
	}
	var problems invalid.Problems
	plan := s.Compile("http://h", "buyer", &problems)
	return plan, problems.Err()
}

func TestBody(t *testing.T) {
	acme := Values{Account: {"acme"}}
	with := func(pairs ...string) Values {
		v := Values{Account: {"acme"}}
		for i := 0; i < len(pairs); i += 2 {
			v[pairs[i]] = append(v[pairs[i]], pairs[i+1])
		}
		return v
	}
	at := with(Size, "50")
	at.SetCursor("17", `[17,"b"]`)
	first := with()
	first.SetCursor("*", "")
	mediaTypes := map[string]string{"": "application/json", "json": "application/json", "form": "application/x-www-form-urlencoded", "xml": "text/xml; charset=utf-8"}
	for _, tc := range []struct {
		bodyType, body string
		values         Values
		want           string
	}{
		{"", `{a: "{account}", n: 1, f: 1.5, t: true, z: null, e: "", o: {}, l: []}`, acme, `{"a":"acme","e":"","f":1.5,"l":[],"n":1,"o":{},"t":true,"z":null}`},
		{"", `{a: "{account}", s: "{status}"}`, acme, `{"a":"acme"}`},
		{"", `{a: "{account}", s: "{status:null}"}`, acme, `{"a":"acme","s":null}`},
		{"", `{a: "{account}", s: "{status:null}"}`, with(Status, "N"), `{"a":"acme","s":"N"}`},
		{"json", `{filter: [{term: {c: "{account}"}}, {term: {s: "{status}"}}]}`, acme, `{"filter":[{"term":{"c":"acme"}}]}`},
		{"json", `{filter: [{term: {c: "{account}"}}, {term: {s: "{status}"}}]}`, with(Status, "N"), `{"filter":[{"term":{"c":"acme"}},{"term":{"s":"N"}}]}`},
		{"", `{s: {terms: {x: ["{status}"]}}, a: "{account}"}`, with(Status, "N", Status, "P"), `{"a":"acme","s":{"terms":{"x":["N","P"]}}}`},
		{"", `{s: {terms: {x: ["{status}"]}}, a: "{account}"}`, acme, `{"a":"acme"}`},
		{"", `["{status}", 1, "{account}"]`, acme, `[1,"acme"]`},
		{"", `{s: "{status}"}`, acme, `{}`},
		{"", `{q: "owner:{account}[ AND state:{status}]"}`, acme, `{"q":"owner:acme"}`},
		{"", `{q: "owner:{account}[ AND state:{status}]"}`, with(Status, "N"), `{"q":"owner:acme AND state:N"}`},
		{"", `{n: "{account:number}", size: "{size}", after: "{cursor}"}`, Values{Account: {"4711"}, Size: {"50"}}, `{"n":4711,"size":50}`},
		{"", `{q: "a[ AND x{[}1{]} IN {[}{status}{]}] {]}"}`, with(Status, "N"), `{"q":"a AND x[1] IN [N] {]}"}`},
		{"", `{q: "a[ AND x IN {[}{status}{]}]"}`, acme, `{"q":"a"}`},
		{"", `{size: "{size}", text: "{size} of", after: "{cursor}"}`, at, `{"after":[17,"b"],"size":50,"text":"50 of"}`},
		{"", `{after: "{cursor:number}"}`, at, `{"after":17}`},
		{"", `{after: "{cursor}"}`, first, `{"after":"*"}`},
		{"", `{after: "{cursor:null}"}`, acme, `{"after":null}`},
		{"", `{query: "query($c: [ID!]) { list(c: $c) { a{ b { c }} } }"}`, acme, `{"query":"query($c: [ID!]) { list(c: $c) { a{ b { c }} } }"}`},
		{"form", `{c: "{account}", s: "{status}", n: 5, b: a&b}`, acme, "b=a%26b&c=acme&n=5"},
		{"form", `{c: "{account}", s: "{status}"}`, with(Status, "N", Status, "P"), "c=acme&s=N&s=P"},
		{"xml", `"<a b='{account}'>[<s>{status}</s>][<t>{inquiry_type}</t>]</a>"`, with(Status, "<N>"), "<a b='acme'><s>&lt;N&gt;</s></a>"},
	} {
		plan, err := posting(t, tc.bodyType, tc.body)
		if err != nil {
			t.Errorf("%s: %v", tc.body, err)
			continue
		}
		if got, err := plan.Request(tc.values); err != nil || got.Body != tc.want || got.Method != "POST" || got.Headers["Content-Type"] != mediaTypes[tc.bodyType] {
			t.Errorf("%s: %+v %v, want %s", tc.body, got, err, tc.want)
		}
	}
}

func TestBodyMistakes(t *testing.T) {
	for _, tc := range []struct{ bodyType, body, key, says string }{
		{"", `{a: {b: ["x {acount}"]}}`, "buyer.body.a.b[0]", "unknown placeholder {acount}"},
		{"", `{a: "{account:int}"}`, "buyer.body.a", "unknown placeholder {account:int}"},
		{"", `{a: "x {account:number}"}`, "buyer.body.a", "unknown placeholder"},
		{"", `{"{status}": 1}`, "buyer.body.{status}", "a key cannot hold a placeholder"},
		{"", `{a: "{account} {status}"}`, "buyer.body.a", "the account with it"},
		{"", `{a: .nan}`, "buyer.body.a", "cannot be written as JSON"},
		{"form", `text`, "buyer.body", "a form is a mapping"},
		{"form", `{a: [1]}`, "buyer.body.a", "one text"},
		{"xml", `{a: b}`, "buyer.body", "XML is one text"},
		{"xml", `"<a>{status}</a>"`, "buyer.body", "put the part that depends on it in brackets"},
		{"xml", `"<a>"`, "buyer.body", "not XML"},
		{"xml", `text`, "buyer.body", "no element"},
		{"xml", `"<a[></a><b{status}]></a>"`, "buyer.body", "not XML"},
		{"xml", `"<a><![CDATA[ x]]{account}></a>"`, "buyer.body", ""},
		{"xml", `"<a><!-- {account} --></a>"`, "buyer.body", ""},
		{"xml", `"<a><?pi {account}?></a>"`, "buyer.body", "a placeholder may stand"},
		{"xml", `"<{account}/>"`, "buyer.body", "not XML"},
		{"xml", `"<a b={account}/>"`, "buyer.body", "not XML"},
	} {
		_, err := posting(t, tc.bodyType, tc.body)
		if err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(fmt.Sprint(fieldsOf(err)), tc.key) {
			t.Errorf("%s: %v at %v, want %s at %s", tc.body, err, fieldsOf(err), tc.says, tc.key)
		}
	}
	var problems invalid.Problems
	Spec{Path: "/x", Sending: Sending{Body: "x", Headers: map[string]string{"a b": "c", "d": "{account}"}}}.Compile("", "buyer", &problems)
	Spec{Path: "/x", Sending: Sending{Method: "POST", BodyType: "json"}}.Compile("", "seller", &problems)
	for _, key := range []string{"buyer.body", "buyer.headers.a b", "buyer.headers.d", "seller.body_type"} {
		if !strings.Contains(fmt.Sprint(fieldsOf(problems.Err())), key) {
			t.Errorf("nothing at %s: %v", key, problems)
		}
	}
}

func fieldsOf(err error) (fields []string) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			fields = append(fields, one.(*invalid.Error).Field())
		}
	}
	return fields
}

func TestWhatABodyCannotHold(t *testing.T) {
	for _, tc := range []struct {
		bodyType, body string
		values         Values
	}{
		{"", `{a: "{account:number}"}`, Values{Account: {"acme"}}},
		{"", `{a: "{account:number}"}`, Values{Account: {"1,\"b\":2"}}},
		{"", `{a: "{account:number}"}`, Values{Account: {" 1"}}},
		{"", `{a: "{account:number}"}`, Values{Account: {"true"}}},
		{"", `{a: "{account}"}`, Values{Account: {"a\xff"}}},
		{"", `{a: "x:{account}"}`, Values{Account: {"a b"}}},
		{"", `{a: "{account}", q: "[state:{status}]"}`, Values{Account: {"a"}, Status: {"N OR 1=1"}}},
		{"", `{a: "{account}", q: "[after '{cursor}']"}`, Values{Account: {"a"}, Cursor: {"x' OR '"}}},
		{"form", `{a: "{account}", q: "[state:{status}]"}`, Values{Account: {"a"}, Status: {"N)"}}},
		{"", `{a: "{cursor}"}`, Values{Account: {"a"}, Cursor: {"x"}, cursorJSON: {`1,"b":2`}}},
		{"xml", `<a>{account}</a>`, Values{Account: {"a\x01"}}},
	} {
		plan, err := posting(t, tc.bodyType, tc.body)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := plan.Request(tc.values); err == nil {
			t.Errorf("%s was sent", r.Body)
		}
	}
}

// Whatever a value is, it arrives as that one value, and nothing around it changes.
func TestAValueStaysOneValue(t *testing.T) {
	asJSON, err := posting(t, BodyJSON, `{a: "{account}", l: ["{status}"], t: "x", n: {s: "{inquiry_type}"}}`)
	if err != nil {
		t.Fatal(err)
	}
	asForm, err := posting(t, BodyForm, `{a: "{account}", s: "{status}", t: x}`)
	if err != nil {
		t.Fatal(err)
	}
	asXML, err := posting(t, BodyXML, `"<r a=\"{account}\"><a>{account}</a>[<s>{status}</s>]</r>"`)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.StringMatching(`[a"'\\<>&{}\[\]\n/:=;-]{1,8}`), rapid.StringN(1, 12, -1))
		account, status, kind := text.Draw(t, "account"), text.Draw(t, "status"), text.Draw(t, "type")
		values := Values{Account: {account}, Status: {status, status}, Type: {kind}}
		request := func(p Plan) string {
			r, err := p.Request(values)
			if err != nil {
				t.Skip()
			}
			return r.Body
		}
		var got struct {
			A string
			L []string
			T string
			N map[string]string
		}
		if err := json.Unmarshal([]byte(request(asJSON)), &got); err != nil || got.A != account || got.T != "x" || fmt.Sprint(got.L) != fmt.Sprint([]string{status, status}) || len(got.N) != 1 || got.N["s"] != kind {
			t.Errorf("JSON %+v, %v", got, err)
		}
		form, err := url.ParseQuery(request(asForm))
		if err != nil || len(form) != 3 || form.Get("a") != account || len(form["s"]) != 2 || form.Get("s") != status || form.Get("t") != "x" {
			t.Errorf("form %v, %v", form, err)
		}
		var tree struct {
			Attr string   `xml:"a,attr"`
			A    []string `xml:"a"`
			S    []string `xml:"s"`
		}
		if err := xml.Unmarshal([]byte(request(asXML)), &tree); err != nil || tree.Attr != account || len(tree.A) != 1 || tree.A[0] != account || len(tree.S) != 1 || tree.S[0] != status {
			t.Errorf("XML %+v, %v, want %q", tree, err, account)
		}
	})
}

// The operator's own words may hold anything; those of callers and of the legacy may not.
func TestTrustedValues(t *testing.T) {
	plan, err := posting(t, "", `{a: "{account}", q: "state = '{status}'"}`)
	if err != nil {
		t.Fatal(err)
	}
	plan.Trust(Status)
	if r, err := plan.Request(Values{Account: {"a"}, Status: {"In 'progress'"}}); err != nil || r.Body != `{"a":"a","q":"state = 'In 'progress''"}` {
		t.Errorf("%s %v", r.Body, err)
	}
}

// A body in another charset is sent in its bytes, and a declaration of another one than
// those is refused.
func TestBodyCharset(t *testing.T) {
	send := func(bodyType, charset, contentType, body string) (Request, error) {
		s := Spec{Path: "/x", InQuery: all, Sending: Sending{Method: "POST", BodyType: bodyType, BodyCharset: charset}}
		if contentType != "" {
			s.Headers = map[string]string{"content-type": contentType}
		}
		if s.Body = body; bodyType != "xml" {
			if err := yaml.Unmarshal([]byte(body), &s.Body); err != nil {
				t.Fatal(err)
			}
		}
		var problems invalid.Problems
		plan := s.Compile("", "buyer", &problems)
		if err := problems.Err(); err != nil {
			return Request{}, err
		}
		return plan.Request(Values{Account: {"한"}})
	}
	for _, tc := range []struct{ bodyType, charset, contentType, body, want, media string }{
		{"form", "euc-kr", "", `{c: "{account}"}`, "c=%C7%D1", "application/x-www-form-urlencoded"},
		{"form", "", "", `{c: "{account}"}`, "c=%ED%95%9C", "application/x-www-form-urlencoded"},
		{"xml", "euc-kr", "", `<?xml version="1.0" encoding="EUC-KR"?><a>{account}</a>`, "<?xml version=\"1.0\" encoding=\"EUC-KR\"?><a>\xc7\xd1</a>", "text/xml; charset=euc-kr"},
		{"xml", "cp949", "text/xml; charset=euc-kr", `<a>{account}</a>`, "<a>\xc7\xd1</a>", "text/xml; charset=euc-kr"},
	} {
		r, err := send(tc.bodyType, tc.charset, tc.contentType, tc.body)
		if err != nil || r.Body != tc.want || r.Headers["Content-Type"] != tc.media {
			t.Errorf("%s: %q %v %v", tc.body, r.Body, r.Head, err)
		}
	}
	for _, tc := range []struct{ bodyType, charset, contentType, body, says string }{
		{"form", "", "application/x-www-form-urlencoded; charset=EUC-KR", `{c: "{account}"}`, "set body_charset: euc-kr"},
		{"xml", "", "", `<?xml version="1.0" encoding="EUC-KR"?><a>{account}</a>`, "set body_charset: euc-kr"},
		{"xml", "euc-kr", "", `<?xml version="1.0" encoding="UTF-8"?><a>{account}</a>`, "the body is sent in another"},
		{"json", "euc-kr", "", `{c: "{account}"}`, "JSON is always UTF-8"},
		{"form", "klingon", "", `{c: "{account}"}`, "no known charset"},
		{"form", "windows-1252", "", `{c: "{account}"}`, "cannot hold"},
	} {
		if _, err := send(tc.bodyType, tc.charset, tc.contentType, tc.body); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
