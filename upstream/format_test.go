package upstream

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/text/encoding/korean"
)

// soapSection maps a SOAP service whose answers come by a second request.
const soapSection = `
base_url: http://legacy.test
buyer:
  path: /tickets
  query: {customer: "{account}"}
  filtering: gateway
  reply: {format: xml}
  items: Envelope.Body.ListResponse.result.ticket
  internal_ids: [-uuid, "refs.ref.#.-id"]
  owner: customer.-id
  fields:
    title: subject
    content: {path: p.#.$, join: "\n"}
    status: {path: state, values: {N: pending}}
    inquiry_type: {path: category, default: null}
    created_at: {path: opened, format: "2006-01-02 15:04:05", zone: Asia/Seoul}
    responses:
      items: Envelope.Body.NotesResponse.note
      fetch: {path: "/notes/{id}", id: -uuid, reply: {format: xml, media_types: [none], empty_statuses: [404]}}
      fields: {content: text, responder_type: {path: -by, values: {S: staff}}, created_at: at}
seller:
  path: /vendors/{account}
  filtering: gateway
  reply: {media_types: [text/html], charset: windows-1252, empty_statuses: [204, 404]}
  items: "@this"
  fields: {title: t, status: s, inquiry_type: k, company_name: c, created_at: at}
`

const soapHead = `<?xml version="1.0" encoding="EUC-KR"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>`

const soapTicket = `<ticket uuid="%s"><customer id="acme" tier="1"/><subject lang="ko">배송 문의</subject><p n="1">one</p>
  <p n="2">see ref-000001</p><state>N</state><category xsi:nil="true" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"/>
  <opened>2026-03-01 09:30:00</opened><refs><ref id="ref-000001"/></refs></ticket>`

// soapService answers in EUC-KR. replies are by path.
func soapService(t testing.TB, replies map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if accept := r.Header.Get("Accept"); accept != "application/xml, text/xml" {
			t.Errorf("Accept is %q", accept)
		}
		reply, ok := replies[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		euc, err := korean.EUCKR.NewEncoder().String(soapHead + reply + `</soap:Body></soap:Envelope>`)
		if err != nil {
			t.Error(err)
		}
		w.Header()["Content-Type"] = nil // the notes come without
		if r.URL.Path == "/tickets" {
			w.Header().Set("Content-Type", "text/xml")
		}
		_, _ = io.WriteString(w, euc)
	}
}

func soapFixture(t testing.TB, serve http.HandlerFunc) *fixture {
	return newFixture(t, serve, func(cfg *Config) {
		soap := configFrom(t, soapSection)
		cfg.Buyer, cfg.Seller = soap.Buyer, soap.Seller
	})
}

func TestSOAP(t *testing.T) {
	list := func(tickets ...string) string {
		return "<ListResponse><result>" + strings.Join(tickets, "") + "</result></ListResponse>"
	}
	one, two := fmt.Sprintf(soapTicket, "uu-00001"), fmt.Sprintf(soapTicket, "uu-00002")
	note := `<NotesResponse><note by="S"><text>확인</text><at>2026-03-02T00:00:00Z</at></note></NotesResponse>`
	for name, tc := range map[string]struct {
		reply  string
		want   int
		reason string
	}{
		"two records": {list(one, two), 2, ""},
		"one record":  {list(one), 1, ""},
		"no record":   {list(), 0, ""},
		"no result":   {`<ListResponse><error>no</error></ListResponse>`, 0, "items"},
		"a fault":     {`<soap:Fault><faultcode>soap:Server</faultcode></soap:Fault>`, 0, "fault"},
		"cut off":     {`<ListResponse>`, 0, "xml"},
	} {
		t.Run(name, func(t *testing.T) {
			f := soapFixture(t, soapService(t, map[string]string{"/tickets": tc.reply, "/notes/uu-00001": note}))
			if tc.reason != "" {
				failure := "invalid"
				if tc.reason == "fault" {
					failure = "upstream"
				}
				failed(t, f, t.Context(), failure, tc.reason)
				return
			}
			got, err := f.Fetch(t.Context(), acme)
			if err != nil || len(got.Inquiries) != tc.want {
				t.Fatalf("%+v %v", got, err)
			}
			if tc.want == 0 {
				return
			}
			inq := got.Inquiries[0]
			if inq.Title != "배송 문의" || inq.Content != "one\nsee [removed]" || inq.InquiryType.Valid || inq.CreatedAt.Hour() != 0 ||
				len(inq.Responses) != 1 || inq.Responses[0].Content != "확인" || inq.Responses[0].ResponderType.String != "staff" {
				t.Errorf("%+v", inq)
			}
			if last := got.Inquiries[tc.want-1]; tc.want == 2 && len(last.Responses) != 0 {
				t.Errorf("a 404 is no list of responses: %+v", last)
			}
		})
	}
}

// A reply is read as the configuration says, and never guessed at.
func TestRepliesThatAreNotPlainJSON(t *testing.T) {
	record := `[{"t":"caf` + "\xe9" + `","s":"N","k":"k","c":"c","at":"2026-03-01T00:00:00Z"}]`
	for name, tc := range map[string]struct {
		status    int
		mediaType string
		body      string
		want      int
		reason    string
	}{
		"as text/html":               {200, "Text/HTML; charset=utf-8", record, 1, ""},
		"another media type":         {200, "text/plain", record, 0, "media_type"},
		"a login page":               {200, "text/html", "<html>", 0, "json"},
		"bytes not in the charset":   {200, "application/json", strings.Replace(record, "\xe9", "\x81", 1), 0, "charset"},
		"a status that means empty":  {404, "text/html", "<html>", 0, ""},
		"another such":               {204, "", "", 0, ""},
		"a status that does not":     {410, "", "", 0, "status_4xx"},
		"a media type with no name":  {200, "", record, 0, "media_type"},
		"a media type in a bad form": {200, "a/b/c", record, 0, "media_type"},
	} {
		t.Run(name, func(t *testing.T) {
			f := soapFixture(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header()["Content-Type"] = nil
				if tc.mediaType != "" {
					w.Header().Set("Content-Type", tc.mediaType)
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			list, err := f.Fetch(t.Context(), Request{Kind: "seller", Account: "7"})
			if tc.reason != "" {
				if err == nil || asError(err).Reason != tc.reason {
					t.Errorf("%v, want %s", err, tc.reason)
				}
				if tc.reason == "media_type" && !strings.Contains(err.Error(), cmp.Or(tc.mediaType, "no media type")) {
					t.Errorf("it does not name %q: %v", tc.mediaType, err)
				}
				return
			}
			if err != nil || len(list.Inquiries) != tc.want || tc.want == 1 && list.Inquiries[0].Title != "café" {
				t.Errorf("%+v %v", list, err)
			}
		})
	}
}
