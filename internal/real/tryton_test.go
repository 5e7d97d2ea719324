//go:build real

package real

import (
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"
)

// TestTryton asks Tryton by JSON-RPC for complaints, and for the notes of several at a time.
func TestTryton(t *testing.T) {
	s := newSystem(t)
	s.debian("tryton-server", "tryton-server (>= 6.0), tryton-server (<< 6.1), tryton-modules-sale-complaint")
	s.file("trytond.conf", "[database]\nuri = sqlite://\npath = "+s.dir+"\n[web]\nlisten = "+s.addr+"\n[password]\nentropy = 0\n")
	fresh := s.tools(s.title) // making a database takes half a minute
	s.once(fresh, `printf '[database]\nuri = sqlite://\npath = %s\n' $PWD >trytond.conf
echo a word for admin >pass
rm -f support.sqlite
touch support.sqlite
TRYTONPASSFILE=pass trytond-admin -c trytond.conf -d support -u sale_complaint --activate-dependencies --email admin@example.com`)
	s.further = hard
	all := seeds(s.further...)
	for _, i := range all {
		for n := range i.Replies {
			i.Replies[n].Private = false // Tryton's notes have no such mark
		}
	}
	seed, err := filepath.Abs("testdata/tryton.py")
	if err != nil {
		t.Fatal(err)
	}
	s.run(asJSON(all), "cd "+s.dir+" && cp "+fresh+"/support.sqlite . && /usr/bin/python3 "+seed+" trytond.conf support")
	s.command = "trytond -c trytond.conf"
	s.start()

	rpc := func(method string, params ...any) gjson.Result {
		res := s.ask("POST", "/support/", "admin:a word for admin", asJSON(map[string]any{"id": 1, "method": "model." + method, "params": append(params, map[string]any{})}))
		if res.Get("error").Exists() {
			t.Fatal(method, res)
		}
		return res
	}
	s.retitle = func(old, title string) {
		id := rpc("sale.complaint.search", [][]string{{"reference", "=", old}}, 0, nil, nil).Get("result.0").Int()
		rpc("sale.complaint.write", []int64{id}, map[string]string{"reference": title})
	}
	s.password = func() string {
		rpc("res.user.write", []int{2}, map[string]string{"password": "another word"})
		return "another word"
	}
	s.judge(all, "JSON-RPC, notes in batches", "tryton.yaml", "a word for Tryton")
}
