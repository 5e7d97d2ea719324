//go:build real

package real

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"os"
	"testing"
)

// TestCAP asks SAP's server for OData version 4, and for version 2 by the adapter that SAP has for it.
func TestCAP(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("@sap/cds@10.1.1", "@cap-js/sqlite@3.1.1", "express@5.3.0", "@cap-js-community/odata-v2-adapter@1.15.10")
	if err := os.CopyFS(s.dir, os.DirFS("testdata/cap")); err != nil {
		t.Fatal(err)
	}
	users := func(password string) {
		s.file("package.json", asJSON(map[string]any{
			"name":         "support",
			"dependencies": map[string]string{"@sap/cds": "*", "@cap-js/sqlite": "*", "@cap-js-community/odata-v2-adapter": "*"},
			"cds": map[string]any{"server": map[string]any{"body_parser": map[string]string{"limit": "2mb"}}, "requires": map[string]any{
				"db":   map[string]any{"kind": "sqlite", "credentials": map[string]string{"url": "db.sqlite"}},
				"auth": map[string]any{"kind": "basic", "users": map[string]any{"inquiry-gateway": map[string]string{"password": password}, "admin": map[string]string{"password": "admin"}}},
			}},
		}))
	}
	users("a word")
	s.run("", fmt.Sprintf("cd %s && %s/node node_modules/@sap/cds/bin/deploy.js", s.dir, bin))
	_, port := s.hostPort()
	s.command = bin + "/node node_modules/@sap/cds/bin/serve.js all --port " + port
	s.start()

	const root, admin = "/odata/v4/support/", "admin:admin"
	for account, name := range companies {
		s.ask("POST", root+"Customers", admin, asJSON(map[string]string{"No": account, "Name": name}))
	}
	s.further = hard
	all, previous := seeds(s.further...), ""
	for n, i := range all {
		id := uuid(n)
		i = i.with(previous, id)
		var answers []map[string]any
		for m, r := range i.Replies {
			answers = append(answers, map[string]any{
				"Id": uuid(n, m), "Text": r.Content, "Internal": r.Private, "CreatedAt": r.Created,
				"Side": map[bool]string{true: "Employee", false: "Customer"}[r.Staff],
			})
		}
		s.ask("POST", root+"Inquiries", admin, asJSON(map[string]any{
			"Id": id, "CustomerNo": i.Customer, "VendorNo": i.Vendor, "Subject": i.Title, "Text": i.Content,
			"State": []string{"New", "InProcess", "Answered", "Closed"}[i.State], "Category": i.topic(), "CreatedAt": i.Created, "Answers": answers,
		}))
		previous = id
	}
	s.retitle = func(old, title string) {
		id := s.ask("GET", root+"Inquiries?$filter="+url.PathEscape("Subject eq '"+old+"'"), admin, "").Get("value.0.Id").String()
		s.ask("PATCH", root+"Inquiries/"+id, admin, asJSON(map[string]string{"Subject": title}))
	}
	s.password = func() string {
		s.stop()
		users("another word")
		s.start()
		return "another word"
	}
	for _, w := range [][2]string{{"OData V4", "odata-v4.yaml"}, {"OData V2, JSON", "odata-v2.yaml"}, {"OData V2, Atom", "odata-atom.yaml"}} {
		s.stop()
		users("a word")
		s.start()
		s.judge(all, w[0], w[1], "a word")
	}
}

// uuid makes one of numbers, the same each time.
func uuid(numbers ...int) string {
	x := fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(numbers))))
	return fmt.Sprintf("%s-%s-4%s-8%s-%s", x[:8], x[8:12], x[12:15], x[15:18], x[18:30])
}
