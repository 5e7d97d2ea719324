//go:build real

package real

import (
	"path/filepath"
	"testing"
)

// TestWordPress asks WordPress for a post type of its own, and for the comments of several posts at a time.
func TestWordPress(t *testing.T) {
	s := newSystem(t)
	folder := s.unpack("wordpress=6.1.*", "apache2|libapache2|default-mysql|libjs-", "php-cli, php-xml, php-mbstring, php-curl, mariadb-server")
	socket := s.mariadb("wordpress")
	s.run("", "cp -r "+folder+"/usr/share/wordpress "+s.dir+"/site && mkdir "+s.dir+"/site/wp-content/mu-plugins && cp testdata/wordpress/support.php "+s.dir+"/site/wp-content/mu-plugins/")
	s.file("site/wp-config.php", `<?php
define('DB_HOST', 'localhost:`+socket+`');
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_CHARSET', 'utf8mb4');
define('WP_ENVIRONMENT_TYPE', 'local'); // passwords of applications without https
define('DISABLE_WP_CRON', true);
define('WP_HTTP_BLOCK_EXTERNAL', true);
$table_prefix = 'wp_';
require_once ABSPATH.'wp-settings.php';
`)
	s.further = hard
	all := seeds(s.further...)
	seed, err := filepath.Abs("testdata/wordpress/seed.php")
	if err != nil {
		t.Fatal(err)
	}
	password := s.run(asJSON(all), "cd "+s.dir+" && php "+seed+" "+s.addr)
	s.command, s.ready = "env PHP_CLI_SERVER_WORKERS=4 php -q -S "+s.addr+" -t site", "/wp-json/"
	s.start()
	php := func(script string) string {
		return s.run("", "cd "+s.dir+" && php -r 'require \"site/wp-load.php\"; "+script+"'")
	}
	s.retitle = func(old, title string) {
		php(`wp_update_post(["ID" => get_page_by_title("` + old + `", OBJECT, "inquiry")->ID, "post_title" => "` + title + `"]);`)
	}
	s.denied = "Replies do not fit the mapping" // it says 400
	s.password = func() string {
		return php(`WP_Application_Passwords::delete_all_application_passwords(1); echo WP_Application_Passwords::create_new_application_password(1, ["name" => "gateway"])[0];`)
	}
	s.judge(all, "custom post type, comments in batches", "wordpress.yaml", password)
}
