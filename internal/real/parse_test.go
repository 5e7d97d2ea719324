//go:build real

package real

import (
	"fmt"
	"net/url"
	"testing"
	"time"
)

// TestParseServer asks Parse Server, over PostgreSQL, by queries in JSON, in a user's session.
func TestParseServer(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("parse-server@9.10.0")
	database, _ := s.postgres("parse")
	host, port := s.hostPort()
	s.file("parse.json", asJSON(map[string]any{
		"appId": "support", "masterKey": "master", "databaseURI": database, "serverURL": "http://" + s.addr + "/parse", "publicServerURL": "http://" + s.addr + "/parse",
		"mountPath": "/parse", "host": host, "port": port, "allowCustomObjectId": true, "logsFolder": s.dir + "/logs", "silent": true,
	}))
	s.command, s.ready = bin+"/node node_modules/parse-server/bin/parse-server parse.json", "/parse/health"
	s.start()

	type object map[string]any
	ask := func(method, path string, body object) string {
		return s.ask(method, "/parse"+path, "", asJSON(body), "X-Parse-Application-Id", "support", "X-Parse-Master-Key", "master").Get("objectId").String()
	}
	rights := func(readable bool) object {
		who := object{}
		if readable {
			who["requiresAuthentication"] = true
		}
		return object{"find": who, "count": who, "get": who}
	}
	date := func(t time.Time) object {
		return object{"__type": "Date", "iso": t.UTC().Format("2006-01-02T15:04:05.000Z")}
	}
	for name, fields := range map[string]object{
		"Customer": {"no": object{"type": "String"}, "name": object{"type": "String"}},
		"Inquiry": {"customerNo": object{"type": "String"}, "customer": object{"type": "Pointer", "targetClass": "Customer"}, "vendor": object{"type": "String"}, "subject": object{"type": "String"},
			"body": object{"type": "String"}, "state": object{"type": "String"}, "topic": object{"type": "String"}, "openedAt": object{"type": "Date"}},
		"Reply": {"inquiry": object{"type": "String"}, "body": object{"type": "String"}, "staff": object{"type": "Boolean"}, "internal": object{"type": "Boolean"}, "writtenAt": object{"type": "Date"}},
	} {
		ask("POST", "/schemas/"+name, object{"className": name, "fields": fields, "classLevelPermissions": rights(true)})
	}
	user := ask("POST", "/users", object{"username": "gateway", "password": "a word"})
	s.further = hard
	customers := map[string]string{}
	for account, name := range companies {
		customers[account] = ask("POST", "/classes/Customer", object{"no": account, "name": name, "objectId": fmt.Sprintf("cus%07d", len(customers))})
	}
	all, previous := seeds(s.further...), ""
	for n, i := range all {
		id := fmt.Sprintf("inq%07d", n)
		i = i.with(previous, id)
		inquiry := object{
			"objectId": id, "customerNo": i.Customer, "customer": object{"__type": "Pointer", "className": "Customer", "objectId": customers[i.Customer]}, "vendor": i.Vendor,
			"subject": i.Title, "body": i.Content, "state": states[i.State], "openedAt": date(i.Created),
		}
		if topic := i.topic(); topic != nil {
			inquiry["topic"] = topic
		}
		ask("POST", "/classes/Inquiry", inquiry)
		for m, r := range i.Replies {
			ask("POST", "/classes/Reply", object{
				"objectId": fmt.Sprintf("rep%04d%03d", n, m), "inquiry": id, "body": r.Content, "staff": r.Staff, "internal": r.Private, "writtenAt": date(r.Created),
			})
		}
		previous = id
	}
	s.retitle = func(old, title string) {
		found := s.ask("GET", "/parse/classes/Inquiry?where="+url.QueryEscape(asJSON(object{"subject": old})), "", "", "X-Parse-Application-Id", "support", "X-Parse-Master-Key", "master")
		ask("PUT", "/classes/Inquiry/"+found.Get("results.0.objectId").String(), object{"subject": title})
	}
	s.password = func() string {
		ask("PUT", "/users/"+user, object{"password": "another word"})
		return "another word"
	}
	s.responses = func(readable bool) {
		ask("PUT", "/schemas/Reply", object{"className": "Reply", "classLevelPermissions": rights(readable)})
	}
	s.judge(all, "REST, where in JSON, offsets, session", "parse-server.yaml", "a word")
}
