//go:build real

package real

import (
	"os"
	"testing"
)

// TestPostGraphile asks PostGraphile for connections with Relay's cursors, with a JWT that a mutation gives, good for half a minute.
func TestPostGraphile(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("postgraphile@5.1.5")
	database, sql := s.postgres("support")
	if err := os.CopyFS(s.dir, os.DirFS("testdata/postgraphile")); err != nil {
		t.Fatal(err)
	}
	s.run("", "psql -q -v ON_ERROR_STOP=1 -f "+s.dir+"/schema.sql "+database)
	s.command = "env ADDR=" + s.addr + " DATABASE=" + database + " GRAPHILE_ENV=production " + bin + "/node node_modules/postgraphile/dist/cli-run.js -C graphile.config.mjs"
	s.start()

	type object map[string]any
	admin := ""
	ask := func(query string, variables object) {
		answer := s.ask("POST", "/graphql", "", asJSON(object{"query": query, "variables": variables}), "Authorization", "Bearer "+admin)
		if answer.Get("errors").Exists() {
			t.Fatal(answer)
		}
	}
	admin = s.ask("POST", "/graphql", "", `{"query": "mutation { authenticate(input: {name: \"admin\", password: \"a word for admin\"}) { result } }"}`).
		Get("data.authenticate.result").String()
	create := func(kind string, fields object) {
		ask("mutation($fields: Create"+kind+"Input!) { create"+kind+"(input: $fields) { clientMutationId } }", object{"fields": fields})
	}
	s.further = hard
	for account, name := range companies {
		create("Customer", object{"customer": object{"no": account, "name": name}})
	}
	all, previous := seeds(s.further...), ""
	for n, i := range all {
		id := uuid(n)
		i = i.with(previous, id)
		create("Inquiry", object{"inquiry": object{
			"rowId": id, "customerNo": i.Customer, "vendor": i.Vendor, "subject": i.Title, "body": i.Content,
			"state": []string{"NEW", "IN_PROCESS", "ANSWERED", "CLOSED"}[i.State], "topic": i.topic(), "createdAt": i.Created,
		}})
		for m, r := range i.Replies {
			create("Reply", object{"reply": object{
				"rowId": uuid(n, m), "inquiryId": id, "body": r.Content, "staff": r.Staff, "internal": r.Private, "writtenAt": r.Created,
			}})
		}
		previous = id
	}
	s.retitle = func(old, title string) {
		sql("UPDATE app.inquiries SET subject = $$" + title + "$$ WHERE subject = $$" + old + "$$")
	}
	s.password = func() string {
		sql("UPDATE private.users SET password = 'another word' WHERE name = 'gateway'")
		return "another word"
	}
	s.responses = func(readable bool) {
		sql(map[bool]string{true: "GRANT SELECT ON app.replies TO reader", false: "REVOKE SELECT ON app.replies FROM reader"}[readable])
	}
	s.unreadable = "Replies do not fit the mapping" // it tells that with 200
	s.judge(all, "GraphQL, Relay cursors, JWT by a mutation", "postgraphile.yaml", "a word")
}
