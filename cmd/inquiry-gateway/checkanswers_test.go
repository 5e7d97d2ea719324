package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What another mapping would make of the replies that a running gateway keeps; what they
// hold is nowhere to be read.
func TestCheckAnswers(t *testing.T) {
	p := start(t, setup{upstream: []string{"max_records: 10000", "keep_replies_bytes: 8MiB"}})
	body := p.get("/api/v1/buyer/inquiries", "buyer").body
	p.get("/api/v1/buyer/inquiries?status=pending", "buyer")
	p.get("/api/v1/seller/inquiries", "seller")
	p.get("/api/v1/buyer/inquiries", "empty-buyer")
	file := filepath.Join(p.dir, "gateway.yaml")
	if out, errOut, code := command(t, "check", "-c", file, "--against", p.app.OpsURL(), "--answers"); code != 0 || !strings.Contains(out, "1 of 4 tried are empty lists") || !strings.Contains(out, "all 4 tried would be the same") {
		t.Fatalf("exit code %d: %s%s", code, out, errOut)
	}
	if used := p.metric("inquiry_gateway_upstream_kept_replies_bytes"); used <= 0 || used > p.metric("inquiry_gateway_upstream_kept_replies_limit_bytes") {
		t.Errorf("%v bytes are kept", used)
	}
	next := strings.NewReplacer("title: subject", "title: body.text", "N: pending, A: answered", "N: answered, A: pending", `category: "{inquiry_type}"`, `kind: "{inquiry_type}"`).Replace(p.read("gateway.yaml"))
	p.write("next.yaml", next)
	out, errOut, code := command(t, "check", "-c", filepath.Join(p.dir, "next.yaml"), "--against", p.app.OpsURL(), "--answers")
	if code != 1 || !strings.Contains(errOut, "of 4 answers would differ") || !strings.Contains(out, "a text of ") {
		t.Errorf("exit code %d: %s%s", code, out, errOut)
	}
	t.Log("\n" + out + errOut)
	_, rest, _ := strings.Cut(string(body), `"content":"`)
	text, _, _ := strings.Cut(rest, `"`)
	if len(text) < 10 || strings.Contains(out+p.logs.String(), text) {
		t.Errorf("%q is shown or logged, or there is none", text)
	}
	p.edit("keep_replies_bytes: 8MiB", "keep_replies_bytes: 0")
	p.reload()
	if used := p.metric("inquiry_gateway_upstream_kept_replies_bytes"); used != 0 {
		t.Errorf("%v bytes are kept after they were switched off", used)
	}
	if _, errOut, code := command(t, "check", "-c", file, "--against", p.app.OpsURL(), "--answers"); code == 0 || !strings.Contains(errOut, "upstream.keep_replies_bytes") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
