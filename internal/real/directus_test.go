//go:build real

package real

import (
	"fmt"
	"net/url"
	"testing"
)

// TestDirectus asks Directus for the buyers' lists by REST and for the sellers' by GraphQL, in sessions of half a minute.
func TestDirectus(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("directus@11.17.4")
	host, port := s.hostPort()
	env := fmt.Sprintf("PATH=%s:$PATH HOST=%s PORT=%s DB_CLIENT=sqlite3 DB_FILENAME=db.sqlite SECRET=%s TELEMETRY=false PRESSURE_LIMITER_ENABLED=false QUERY_LIMIT_MAX=50 ACCESS_TOKEN_TTL=30s "+
		"ADMIN_EMAIL=admin@example.com ADMIN_PASSWORD=admin-word ADMIN_TOKEN=admin LOG_LEVEL=warn node node_modules/directus/cli.js ", bin, host, port, uuid(0))
	s.run("", "cd "+s.dir+" && env "+env+"bootstrap")
	s.command, s.ready = "env "+env+"start", "/server/ping"
	s.start()

	post := func(path string, body any) { s.ask("POST", path, "", asJSON(body), "Authorization", "Bearer admin") }
	type object map[string]any
	field := func(name, kind string, special ...string) object {
		return object{"field": name, "type": kind, "meta": object{"special": special}, "schema": object{"is_primary_key": name == "id" || name == "no"}}
	}
	for name, fields := range map[string][]object{
		"customers": {field("no", "string"), field("name", "string")},
		"inquiries": {field("id", "uuid"), field("customer", "string"), field("vendor", "string"), field("subject", "string"), field("body", "text"), field("state", "string"),
			field("topic", "string"), field("created_at", "timestamp")},
		"replies": {field("id", "uuid"), field("inquiry", "uuid"), field("body", "text"), field("staff", "boolean", "cast-boolean"), field("internal", "boolean", "cast-boolean"),
			field("written_at", "timestamp")},
	} {
		post("/collections", object{"collection": name, "schema": object{}, "meta": object{}, "fields": fields})
	}
	post("/relations", object{"collection": "inquiries", "field": "customer", "related_collection": "customers"})
	post("/relations", object{"collection": "replies", "field": "inquiry", "related_collection": "inquiries"})
	role := s.ask("GET", "/roles", "", "", "Authorization", "Bearer admin").Get("data.0.id").String()
	post("/users", object{"id": uuid(1), "email": "gateway@example.com", "password": "a word", "role": role})
	for account, name := range companies {
		post("/items/customers", object{"no": account, "name": name})
	}
	s.further = hard
	all, previous := seeds(s.further...), ""
	var inquiries, replies []object
	for n, i := range all {
		id := uuid(n, n)
		i = i.with(previous, id)
		inquiries = append(inquiries, object{
			"id": id, "customer": i.Customer, "vendor": i.Vendor, "subject": i.Title, "body": i.Content,
			"state": states[i.State], "topic": i.topic(), "created_at": i.Created,
		})
		for m, r := range i.Replies {
			replies = append(replies, object{"id": uuid(n, n, m), "inquiry": id, "body": r.Content, "staff": r.Staff, "internal": r.Private, "written_at": r.Created})
		}
		previous = id
	}
	post("/items/inquiries", inquiries)
	post("/items/replies", replies)
	s.retitle = func(old, title string) {
		s.ask("PATCH", "/items/inquiries", "", asJSON(object{"query": object{"filter": object{"subject": object{"_eq": old}}}, "data": object{"subject": title}}), "Authorization", "Bearer admin")
	}
	s.password = func() string {
		s.ask("PATCH", "/users/"+url.PathEscape(uuid(1)), "", `{"password": "another word"}`, "Authorization", "Bearer admin")
		return "another word"
	}
	s.judge(all, "REST; GraphQL; session", "directus.yaml", "a word")
}
