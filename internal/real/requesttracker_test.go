//go:build real

package real

import (
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
)

// TestRequestTracker asks Request Tracker, with its login form, for tickets and for the texts of each by two further requests.
func TestRequestTracker(t *testing.T) {
	s := newSystem(t)
	folder := s.unpack("request-tracker5=5.0.3*", "rt5-|dbconfig-|debconf|default-mta|fonts-|ucf|perl-doc", "libdbd-sqlite3-perl, libterm-readkey-perl, starman")
	// The package has its folders in its sources.
	s.run("", "cp -r "+folder+"/usr "+folder+"/etc "+s.dir+" && cd "+s.dir+` && for f in usr/share/request-tracker5/lib/RT/Generated.pm usr/share/request-tracker5/libexec/rt-server usr/sbin/rt-setup-database-5
do sed -i -E 's#/(usr/share|usr/local/share|etc|var/lib|var/cache)/request-tracker5#'$PWD'/\1/request-tracker5#g' $f
done
rm -r etc/request-tracker5/RT_SiteConfig.d
mkdir -p var/lib/request-tracker5 var/cache/request-tracker5/mason_data var/cache/request-tracker5/session_data`)
	host, port := s.hostPort()
	s.file("etc/request-tracker5/RT_SiteConfig.pm", fmt.Sprintf("Set($rtname, 'support');\nSet($DatabaseType, 'SQLite');\nSet($DatabaseName, '%s/rt.db');\n"+
		"Set($WebDomain, '%s');\nSet($WebPort, %s);\nSet($LogToSyslog, undef);\nSet($LogToSTDERR, 'error');\n1;\n", s.dir, host, port))
	s.file("root", "a word for root\n")
	all := seeds()
	for n, i := range all {
		if n%10 == 3 && i.Customer == accounts[0] {
			i.Others = accounts[1:3]
		}
	}
	seed, err := filepath.Abs("testdata/requesttracker.pl")
	if err != nil {
		t.Fatal(err)
	}
	s.run(asJSON(all), "cd "+s.dir+" && perl usr/sbin/rt-setup-database-5 --action init --root-password-file root --force >log && perl -I usr/share/request-tracker5/lib "+seed)
	s.command, s.ready = "perl usr/share/request-tracker5/libexec/rt-server --server Starman --host "+host+" --port "+port+" --workers 4", "/REST/2.0/rt"
	s.start()

	const root, rest = "root:a word for root", "/REST/2.0/"
	s.retitle = func(old, title string) {
		id := s.ask("GET", rest+"tickets?query="+url.QueryEscape("Subject = '"+old+"'"), root, "").Get("items.0.id").String()
		s.ask("PUT", rest+"ticket/"+id, root, asJSON(map[string]string{"Subject": title}))
	}
	s.password = func() string {
		// A session outlives its password.
		s.run("", "cd "+s.dir+` && perl -I usr/share/request-tracker5/lib -MRT -e 'RT::LoadConfig(); RT::Init(); my $u = RT::User->new(RT->SystemUser);
$u->Load("gateway"); my ($ok, $why) = $u->SetPassword("another word"); die $why unless $ok' && rm -r var/cache/request-tracker5/session_data/*`)
		return "another word"
	}
	s.judge(all, "REST 2, TicketSQL, login form", "request-tracker.yaml", "a word for it")
}
