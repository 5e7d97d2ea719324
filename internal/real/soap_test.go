//go:build real

package real

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestSOAP asks a service of npm's soap, after a sign-in by WS-Security, and with WS-Security in each request.
func TestSOAP(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("soap@1.13.0")
	if err := os.CopyFS(s.dir, os.DirFS("testdata/soap")); err != nil {
		t.Fatal(err)
	}
	s.file("password", "a word & <more>")
	s.file("answers", "")
	s.command = bin + "/node server.js " + s.addr
	s.start()

	call := func(operation, body string) {
		s.ask("POST", "/services/InquiryService", "", `<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns="urn:acme:inquiry"><s:Body><`+operation+">"+
			body+"</"+operation+"></s:Body></s:Envelope>", "Content-Type", "text/xml; charset=utf-8", "SOAPAction", `"urn:acme:inquiry/`+operation+`"`)
	}
	s.further = hard
	all, previous := seeds(s.further...), ""
	for n, i := range all {
		id := fmt.Sprintf("INQ-%05d", n+1)
		i = i.with(previous, id)
		var answers strings.Builder
		for m, r := range i.Replies {
			by := map[bool]string{true: "S", false: "C"}[r.Staff]
			fmt.Fprintf(&answers, `<answer id="%s-%d" by="%s" internal="%v"><text>%s</text><at>%s</at></answer>`, id, m, by, r.Private,
				escaped(r.Content), r.Created.Format(time.RFC3339))
		}
		call("PutInquiry", fmt.Sprintf(`<inquiry id="%s"><customerNo>%s</customerNo><vendorNo>%s</vendorNo><company>%s</company><subject>%s</subject><text>%s</text><state>%s</state>`+
			"<category>%s</category><openedAt>%s</openedAt><answers>%s</answers></inquiry>", id, escaped(i.Customer), escaped(i.Vendor), escaped(i.Company),
			escaped(i.Title), escaped(i.Content), []string{"N", "P", "A", "C"}[i.State], categories[i.Category],
			i.Created.Format(time.RFC3339), answers.String()))
		previous = id
	}
	s.retitle = func(old, title string) {
		call("Retitle", "<old>"+escaped(old)+"</old><subject>"+escaped(title)+"</subject>")
	}
	s.password = func() string {
		s.file("password", "another word")
		return "another word"
	}
	s.responses = func(readable bool) {
		if readable {
			s.file("answers", "")
		} else if err := os.Remove(s.dir + "/answers"); err != nil {
			t.Fatal(err)
		}
	}
	s.unreadable = "Replies do not fit the mapping" // it leaves them out
	s.judge(all, "document/literal, WS-Security, session", "soap.yaml", "a word & <more>")
	if os.Getenv("RECORD") != "" {
		return // one recording for an example
	}
	s.password = func() string {
		s.file("password", `a "third" word`)
		return `a "third" word`
	}
	s.adapt = func(config string) string {
		header := regexp.MustCompile(`(?s)<soap:Header>.*</soap:Header>`).FindString(config)
		header = strings.NewReplacer("{username}", "inquiry-gateway", "{password}", "{secret}").Replace(header)
		auth := "  auth:\n    type: secret\n    secret_file: secrets/legacy-password\n" + regexp.MustCompile(`    renew_if: .*\n`).FindString(config) + "  buyer:"
		config = regexp.MustCompile(`(?s)  auth:\n    type: session.*?  buyer:`).ReplaceAllLiteralString(config, auth)
		return strings.ReplaceAll(config, "<soap:Body>", header+"\n        <soap:Body>")
	}
	s.judge(all, "document/literal, WS-Security in each request", "soap.yaml", "another word")
}

// escaped is a text in XML.
func escaped(text string) string {
	var b bytes.Buffer
	if err := xml.EscapeText(&b, []byte(text)); err != nil {
		panic(err)
	}
	return b.String()
}
