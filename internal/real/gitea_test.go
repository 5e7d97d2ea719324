//go:build real

package real

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestGitea asks Gitea for issues by milestone and by label, and for the comments of each.
func TestGitea(t *testing.T) {
	s := newSystem(t)
	folder := s.module("code.gitea.io/gitea@v1.26.0", ".", "sqlite sqlite_unlock_notify")
	s.run("", "../../.ci/packages 'git, sqlite3'")
	host, port := s.hostPort()
	s.file("app.ini", fmt.Sprintf(`I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = %[1]s
[server]
HTTP_ADDR = %[2]s
HTTP_PORT = %[3]s
ROOT_URL = http://%[2]s:%[3]s/
STATIC_ROOT_PATH = %[4]s
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
PATH = %[1]s/gitea.db
[security]
INSTALL_LOCK = true
SECRET_KEY = %[5]s
PASSWORD_COMPLEXITY = off
[indexer]
ISSUE_INDEXER_TYPE = db
[repository]
ROOT = %[1]s/repositories
[log]
LEVEL = error
`, s.dir, host, port, folder, uuid(0)))
	gitea := "cd " + s.dir + " && " + folder + "/program --config app.ini "
	s.run("", gitea+"migrate >migrate.log")
	for _, user := range []string{"support --admin", "customer", "agent", "notes", "gateway"} {
		name, _, _ := strings.Cut(user, " ")
		s.run("", gitea+"admin user create --must-change-password=false --password 'a word for it' --email "+name+"@example.com --username "+user)
	}
	token := func(user, name, scopes string) string {
		return strings.TrimSpace(s.run("", gitea+"admin user generate-access-token --raw --username "+user+" --token-name "+name+" --scopes "+scopes+" | tail -n 1"))
	}
	admin, first := token("support", "admin", "all"), token("gateway", "first", "read:issue,read:repository")
	s.command, s.ready = folder+"/program --config app.ini web", "/api/healthz"
	s.start()

	type object map[string]any
	ask := func(method, path string, body object) int64 {
		return s.ask(method, "/api/v1"+path, "", asJSON(body), "Authorization", "token "+admin).Get("id").Int()
	}
	const repository = "/repos/support/inquiries"
	ask("POST", "/user/repos", object{"name": "inquiries", "private": true})
	read := func(readable bool) {
		ask(map[bool]string{true: "PUT", false: "DELETE"}[readable], repository+"/collaborators/gateway", object{"permission": "read"})
	}
	read(true)
	for _, user := range []string{"customer", "agent", "notes"} {
		ask("PUT", repository+"/collaborators/"+user, object{"permission": "write"})
	}
	s.further = hard
	labels, milestones := map[string]int64{}, map[string]int64{}
	names := append([]string{"answered", "in process"}, categories[1:]...)
	for _, account := range append(accounts, s.further...) {
		names = append(names, "vendor/"+account)
		milestones[account] = ask("POST", repository+"/milestones", object{"title": account, "description": companies[account]})
	}
	for _, name := range names {
		labels[name] = ask("POST", repository+"/labels", object{"name": name, "color": "#00aabb"})
	}
	all, previous := seeds(s.further...), ""
	var times strings.Builder
	for n, i := range all {
		id := fmt.Sprintf("#%d", n+1)
		i = i.with(previous, id)
		has := []int64{labels["vendor/"+i.Vendor]}
		for _, name := range []string{[]string{"", "in process", "answered", ""}[i.State], categories[i.Category]} {
			if name != "" {
				has = append(has, labels[name])
			}
		}
		ask("POST", repository+"/issues", object{
			"title": i.Title, "body": i.Content, "labels": has, "milestone": milestones[i.Customer], "closed": i.State == 3,
		})
		fmt.Fprintf(&times, "UPDATE issue SET created_unix = %d WHERE `index` = %d;\n", i.Created.Unix(), n+1)
		for _, r := range i.Replies {
			by := map[bool]string{true: "agent", false: "customer"}[r.Staff]
			if r.Private {
				by = "notes"
			}
			comment := ask("POST", fmt.Sprintf("%s/issues/%d/comments?sudo=%s", repository, n+1, by), object{"body": r.Content})
			fmt.Fprintf(&times, "UPDATE comment SET created_unix = %d WHERE id = %d;\n", r.Created.Unix(), comment)
		}
		previous = id
	}
	s.stop()
	s.run(times.String(), "cd "+s.dir+" && sqlite3 gitea.db") // its interface sets no times
	s.start()
	s.retitle = func(old, title string) {
		found := s.ask("GET", "/api/v1"+repository+"/issues?state=all&limit=50&q="+url.QueryEscape(old), "", "", "Authorization", "token "+admin)
		ask("PATCH", repository+"/issues/"+found.Get("0.number").String(), object{"title": title})
	}
	s.password = func() string {
		s.ask("DELETE", "/api/v1/users/gateway/tokens/first", "gateway:a word for it", "")
		return token("gateway", "second", "read:issue,read:repository")
	}
	s.responses, s.unreadable = read, "Replies do not fit the mapping" // there is no right for comments alone, and it says 404
	s.judge(all, "REST, milestones, labels, total by header", "gitea.yaml", first, "seller "+accounts[2], "seller "+accounts[3], "seller "+hard[0], "seller "+hard[1])
}
