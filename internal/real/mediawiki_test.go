//go:build real

package real

import (
	"path/filepath"
	"testing"

	"inquiry-gateway/internal/testkit"
)

// TestMediaWiki asks MediaWiki for pages of JSON in a namespace of their own, and for the talk pages of each.
func TestMediaWiki(t *testing.T) {
	s := newSystem(t)
	folder := s.unpack("mediawiki=1:1.39.* mediawiki-classes=1:1.39.*", "apache2|php |php-mysql|mediawiki-", "php-cli, php-sqlite3")
	wiki := s.dir + "/wiki"
	s.run("", "cp -r "+folder+"/usr/share/mediawiki "+wiki+" && cd "+wiki+" && find . -maxdepth 1 -type l -delete && mkdir images cache extensions && "+
		"php maintenance/install.php --dbtype sqlite --dbpath "+s.dir+" --dbname wiki --server http://"+s.addr+" --scriptpath '' --pass 'a word for admin' Wiki Admin")
	s.run(testkit.Read(t, "testdata/mediawiki/settings.php"), "cat >>"+wiki+"/LocalSettings.php")
	s.file("password", "a word")
	all := seeds()
	seed, err := filepath.Abs("testdata/mediawiki/seed.php")
	if err != nil {
		t.Fatal(err)
	}
	s.run(asJSON(all), "WIKI="+wiki+" php "+seed)
	s.command, s.ready, s.unsorted = "env PHP_CLI_SERVER_WORKERS=4 php -q -d opcache.enable_cli=1 -S "+s.addr+" -t wiki", "/api.php", true
	s.start()
	s.retitle = func(old, title string) {
		s.run("", "WIKI="+wiki+" php "+seed+" '"+old+"' '"+title+"'")
	}
	s.password = func() string {
		s.file("password", "another word")
		return "another word"
	}
	s.judge(all, "pages of JSON, continue tokens", "mediawiki.yaml", "a word", accounts[2], accounts[3])
}
