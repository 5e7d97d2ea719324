//go:build real

package real

import (
	"net/url"
	"strings"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// TestRedmine asks Redmine for the buyers' lists in JSON, with the journal of each issue by a second request, and for the sellers' in XML.
func TestRedmine(t *testing.T) {
	s := newSystem(t)
	folder := s.unpack("redmine=5.0.4*", "redmine-|dbconfig-|debconf", "ruby-sqlite3, puma")
	// The package keeps what is an installation's own elsewhere on the machine.
	home := s.dir + "/redmine"
	const own = "/instances/default"
	s.run("", "cp -r "+folder+"/usr/share/redmine "+home+" && cd "+home+" && rm -r Gemfile.lock instances config/database.yml && mkdir -p ."+own+"/config ."+own+"/log ."+own+"/tmp ."+own+"/files")
	s.file("redmine/Gemfile.local", "gem 'sqlite3', '~> 1.4.0'\ngem 'puma'\n")
	s.file("redmine"+own+"/config/database.yml", "production: {adapter: sqlite3, database: "+s.dir+"/redmine.db, timeout: 60000}\n")
	s.file("redmine"+own+"/config/secret_key.txt", "0123456789abcdef0123456789abcdef\n")
	s.further = hard
	all := seeds(s.further...)
	s.file("seed.rb", testkit.Read(t, "testdata/redmine.rb"))
	s.run(asJSON(all), "cd "+home+" && export RAILS_ENV=production SCHEMA=/dev/null && bundle install --local --quiet && bundle exec rake db:migrate >log && bundle exec rails runner ../seed.rb")
	for _, i := range all {
		i.Content = strings.ReplaceAll(i.Content, "\n", "\r\n") // Redmine keeps the lines of a description so
	}
	s.command = "sh -c 'cd redmine && exec puma -e production -b tcp://" + s.addr + " -t 2:4 config.ru'"
	s.start()

	const admin = "admin:admin"
	s.retitle = func(old, title string) {
		id := s.ask("GET", "/issues.json?status_id=*&subject="+url.QueryEscape(old), admin, "").Get("issues.0.id").String()
		s.ask("PUT", "/issues/"+id+".json", admin, asJSON(map[string]any{"issue": map[string]string{"subject": title}}))
	}
	s.password = func() string {
		s.ask("PUT", "/users/5.json", admin, `{"user": {"password": "another word"}}`)
		return "another word"
	}
	s.judge(all, "JSON with journals; XML", "redmine.yaml", "a word for it")
}
