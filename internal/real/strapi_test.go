//go:build real

package real

import (
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestStrapi asks Strapi for inquiries with their relations, by a token that may read so much and no more.
func TestStrapi(t *testing.T) {
	s := newSystem(t)
	bin := s.npm("@strapi/strapi@5.54.0", "better-sqlite3@12.6.2", "react@18.3.1", "react-dom@18.3.1", "react-router-dom@6.30.3", "styled-components@6.3.8")
	if err := os.CopyFS(s.dir, os.DirFS("testdata/strapi")); err != nil {
		t.Fatal(err)
	}
	type object map[string]any
	s.file("package.json", asJSON(object{"name": "support", "version": "1.0.0", "private": true, "dependencies": object{"@strapi/strapi": "5.54.0"}, "strapi": object{"uuid": false}}))
	s.run("", "mkdir -p "+s.dir+"/public/uploads "+s.dir+"/database/migrations")
	relation := func(kind, target, inverse string) object {
		r := object{"type": "relation", "relation": kind, "target": target}
		if inverse != "" {
			r[map[string]string{"oneToMany": "mappedBy", "manyToOne": "inversedBy"}[kind]] = inverse
		}
		return r
	}
	text, long, flag, date := object{"type": "string"}, object{"type": "text"}, object{"type": "boolean"}, object{"type": "datetime"}
	for name, attributes := range map[string]object{
		"customer": {"no": text, "name": text},
		"inquiry": {"customer": relation("manyToOne", "api::customer.customer", ""), "vendor": text, "subject": text, "body": long, "state": text, "topic": text, "openedAt": date,
			"replies": relation("oneToMany", "api::reply.reply", "inquiry")},
		"reply": {"inquiry": relation("manyToOne", "api::inquiry.inquiry", "replies"), "body": long, "staff": flag, "internal": flag, "writtenAt": date},
	} {
		plural := strings.ReplaceAll(name+"s", "ys", "ies")
		folder := "src/api/" + name + "/"
		s.file(folder+"content-types/"+name+"/schema.json", asJSON(object{"kind": "collectionType", "collectionName": plural, "options": object{"draftAndPublish": false},
			"info": object{"singularName": name, "pluralName": plural, "displayName": name}, "attributes": attributes}))
		for _, part := range []string{"Controller", "Router", "Service"} {
			file := map[string]string{"Controller": "controllers", "Router": "routes", "Service": "services"}[part] + "/" + name + ".js"
			s.file(folder+file, "module.exports = require('@strapi/strapi').factories.createCore"+part+"('api::"+name+"."+name+"');\n")
		}
	}
	s.command, s.ready = "env ADDR="+s.addr+" NODE_ENV=production STRAPI_TELEMETRY_DISABLED=true "+bin+"/node node_modules/@strapi/strapi/bin/strapi.js start", "/_health"
	s.start()

	admin := s.ask("POST", "/admin/register-admin", "", asJSON(object{"email": "admin@example.com", "password": "Password1234", "firstname": "A", "lastname": "B"})).Get("data.token").String()
	manage := func(method, path string, body object) (id, key string) {
		answer := s.ask(method, "/admin/api-tokens"+path, "", asJSON(body), "Authorization", "Bearer "+admin).Get("data")
		return answer.Get("id").String(), answer.Get("accessKey").String()
	}
	token := func(replies bool) object {
		may := []string{"api::customer.customer.find", "api::inquiry.inquiry.find"}
		if replies {
			may = append(may, "api::reply.reply.find")
		}
		return object{"name": "gateway", "description": "", "type": "custom", "permissions": may}
	}
	id, first := manage("POST", "", token(true))
	_, full := manage("POST", "", object{"name": "filling", "description": "", "type": "full-access"})
	ask := func(method, path string, body object) string {
		return s.ask(method, "/api"+path, "", asJSON(object{"data": body}), "Authorization", "Bearer "+full).Get("data.documentId").String()
	}
	s.further = hard
	customers := map[string]string{}
	for account, name := range companies {
		customers[account] = ask("POST", "/customers", object{"no": account, "name": name})
	}
	all, previous := seeds(s.further...), ""
	for _, i := range all {
		inquiry := ask("POST", "/inquiries", object{
			"customer": customers[i.Customer], "vendor": i.Vendor, "subject": quote(i.Title, previous, ""), "body": quote(i.Content, previous, ""),
			"state": states[i.State], "topic": i.topic(), "openedAt": i.Created,
		})
		for _, r := range i.Replies {
			ask("POST", "/replies", object{"inquiry": inquiry, "body": quote(r.Content, previous, inquiry), "staff": r.Staff, "internal": r.Private, "writtenAt": r.Created})
		}
		previous = inquiry
	}
	s.retitle = func(old, title string) {
		found := s.ask("GET", "/api/inquiries?"+url.Values{"filters[subject][$eq]": {old}}.Encode(), "", "", "Authorization", "Bearer "+full)
		ask("PUT", "/inquiries/"+found.Get("data.0.documentId").String(), object{"subject": title})
	}
	s.password = func() string {
		_, key := manage("POST", "/"+id+"/regenerate", object{})
		return key
	}
	s.responses = func(readable bool) { manage("PUT", "/"+id, token(readable)) }
	s.unreadable = "Replies do not fit the mapping" // it leaves them out, without a word
	s.judge(all, "REST, relations within records", "strapi.yaml", first)
}
