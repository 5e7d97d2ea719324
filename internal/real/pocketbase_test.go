//go:build real

package real

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPocketBase asks PocketBase by filters that are expressions, and for the replies of several inquiries at a time.
func TestPocketBase(t *testing.T) {
	s := newSystem(t)
	program := s.module("github.com/pocketbase/pocketbase@v0.36.8", "./examples/base", "") + "/program"
	for user, password := range map[string]string{"admin@example.com": "a word for admin", "gateway@example.com": "a word for it"} {
		s.run("", "cd "+s.dir+" && "+program+" superuser upsert "+user+" '"+password+"'")
	}
	s.command, s.ready = program+" serve --http "+s.addr, "/api/health"
	s.start()

	signIn := asJSON(map[string]string{"identity": "admin@example.com", "password": "a word for admin"})
	admin := s.ask("POST", "/api/collections/_superusers/auth-with-password", "", signIn).Get("token").String()
	ask := func(method, path string, body any) string {
		return s.ask(method, "/api/collections"+path, "", asJSON(body), "Authorization", admin).Get("id").String()
	}
	type object map[string]any
	kinds := map[string]string{}
	for _, collection := range []struct{ name, fields string }{
		{"customers", "no:text name:text"},
		{"inquiries", "customer:relation vendor:text subject:text body:text state:text topic:text created:date"},
		{"replies", "inquiry:relation body:text staff:bool internal:bool created:date"},
	} {
		var fields []object
		for field := range strings.FieldsSeq(collection.fields) {
			name, kind, _ := strings.Cut(field, ":")
			fields = append(fields, object{"name": name, "type": kind, "collectionId": kinds[name+"s"], "maxSelect": 1})
		}
		kinds[collection.name] = ask("POST", "", object{"name": collection.name, "type": "base", "fields": fields})
		kinds["inquirys"] = kinds["inquiries"]
	}
	s.further = hard
	customers := map[string]string{}
	for account, name := range companies {
		customers[account] = ask("POST", "/customers/records", object{"no": account, "name": name})
	}
	all, previous := seeds(s.further...), ""
	for n, i := range all {
		id := "inq" + strings.Repeat("0", 9-len(strconv.Itoa(n))) + strconv.Itoa(n) + "abc"
		i = i.with(previous, id)
		ask("POST", "/inquiries/records", object{
			"id": id, "customer": customers[i.Customer], "vendor": i.Vendor, "subject": i.Title, "body": i.Content,
			"state": states[i.State], "topic": categories[i.Category], "created": i.Created.Format(time.RFC3339),
		})
		for _, r := range i.Replies {
			ask("POST", "/replies/records", object{
				"inquiry": id, "body": r.Content, "staff": r.Staff, "internal": r.Private, "created": r.Created.Format(time.RFC3339),
			})
		}
		previous = id
	}
	s.retitle = func(old, title string) {
		found := s.ask("GET", "/api/collections/inquiries/records?filter="+url.QueryEscape("subject='"+old+"'"), "", "", "Authorization", admin)
		ask("PATCH", "/inquiries/records/"+found.Get("items.0.id").String(), object{"subject": title})
	}
	s.password = func() string {
		s.run("", "cd "+s.dir+" && "+program+" superuser update gateway@example.com 'another word'")
		return "another word"
	}
	s.responses = func(readable bool) {
		names := []string{"replies", "hidden"}
		if readable {
			names = []string{"hidden", "replies"}
		}
		ask("PATCH", "/"+names[0], object{"name": names[1]})
	}
	s.unreadable = "Replies do not fit the mapping" // it says 404
	s.judge(all, "REST, filter expressions, session", "pocketbase.yaml", "a word for it")
}
