// Command peer is what the load script needs beside the gateway: the handler and the
// proxy that the gateway is compared with, and the system behind all of them.
//
//	peer fixture DIR KEYS    writes so many API keys, for the gateway, redis-cli, wrk and nginx, and a certificate
//	peer serve DIR           127.0.0.1:9500 writes the bytes of DIR/list.json to each key, from a copy
//	                         of its own, as a cache has; :9501 does so over TLS; :9502 is
//	                         httputil.ReverseProxy in front of the legacy system at :9503
//	peer legacy              the legacy system: the reply to /N/tickets?customer=ID has N records
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"inquiry-gateway/internal/testkit"
)

func main() {
	if len(os.Args) == 4 && os.Args[1] == "fixture" {
		count, err := strconv.Atoi(os.Args[3])
		if err != nil {
			log.Fatal(err)
		}
		fixture(os.Args[2], count)
		return
	}
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		serve(os.Args[2])
	}
	if len(os.Args) == 2 && os.Args[1] == "legacy" {
		log.Fatal(http.ListenAndServe("127.0.0.1:9503", http.HandlerFunc(legacy)))
	}
	log.Fatal("usage: peer fixture DIR KEYS | peer serve DIR | peer legacy")
}

func write(dir, name string, text []byte) {
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		log.Fatal(err)
	}
}

func fixture(dir string, count int) {
	var accounts, keys, plain, nginx, redis bytes.Buffer
	for i := range count {
		key := fmt.Sprintf("load-%026d", i)
		fmt.Fprintf(&accounts, "  - {id: account-%06d, api_access: paid}\n", i)
		fmt.Fprintf(&keys, "  - {id: key-%06d, sha256: %x, kind: buyer, account: account-%06d, scopes: [\"inquiries:read\"]}\n", i, sha256.Sum256([]byte(key)), i)
		fmt.Fprintln(&plain, key)
		digest, account := sha256.Sum256([]byte(key)), fmt.Sprintf("account-%06d", i)
		fmt.Fprintf(&redis, "HSET iq:{auth.%x} sha256:%x '{\"id\":\"key-%06d\",\"kind\":\"buyer\",\"account\":%q,\"scopes\":[\"inquiries:read\"]}'\n", digest[0]>>4, digest, i, account)
		fmt.Fprintf(&redis, "HSET iq:{auth.%x} account:%s '{\"id\":%q,\"api_access\":\"paid\"}'\n", sha256.Sum256([]byte(account))[0]>>4, account, account)
		fmt.Fprintf(&nginx, "\"Bearer %s\" account-%06d;\n", key, i)
	}
	write(dir, "keys.yaml", []byte("accounts:\n"+accounts.String()+"keys:\n"+keys.String()))
	write(dir, "keys.txt", plain.Bytes())
	write(dir, "nginx.keys", nginx.Bytes())
	for i := range 16 {
		fmt.Fprintf(&redis, "HINCRBY iq:{auth.%x} version 1\n", i)
	}
	write(dir, "redis.keys", redis.Bytes())
	authority, err := testkit.NewAuthority("load")
	if err == nil {
		err = authority.WriteFiles(dir, "load")
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve has the gateway's server settings, and logs and counts nothing.
func serve(dir string) {
	behind, err := url.Parse("http://127.0.0.1:9503")
	if err != nil {
		log.Fatal(err)
	}
	lists := handler(dir)
	listen := func(address string, h http.Handler) *http.Server {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(true)
		protocols.SetHTTP2(true)
		protocols.SetUnencryptedHTTP2(true)
		return &http.Server{Addr: address, Handler: h, Protocols: protocols, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 15 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(behind) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}
	ended := make(chan error)
	go func() { ended <- listen("127.0.0.1:9500", lists).ListenAndServe() }()
	go func() {
		ended <- listen("127.0.0.1:9501", lists).ListenAndServeTLS(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	}()
	go func() { ended <- listen("127.0.0.1:9502", proxy).ListenAndServe() }()
	log.Fatal(<-ended)
}

// handler reads its files once. The header's values are made once, as the gateway makes
// its own: a copy for each answer would flatter the gateway.
func handler(dir string) http.Handler {
	list, err := os.ReadFile(filepath.Join(dir, "list.json"))
	if err != nil {
		log.Fatal(err)
	}
	keys, err := os.ReadFile(filepath.Join(dir, "keys.txt"))
	if err != nil {
		log.Fatal(err)
	}
	copies := map[string][]byte{}
	for key := range strings.FieldsSeq(string(keys)) {
		copies["Bearer "+key] = bytes.Clone(list)
	}
	contentType, length := []string{"application/json; charset=utf-8"}, []string{strconv.Itoa(len(list))}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := copies[r.Header.Get("Authorization")]
		if !ok {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header()["Content-Type"], w.Header()["Content-Length"] = contentType, length
		_, _ = w.Write(body) // a caller that left is no concern
	})
}

// legacy writes records of about 400 bytes; each third has a reply.
func legacy(w http.ResponseWriter, r *http.Request) {
	count, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	n, err := strconv.Atoi(count)
	if err != nil || n > 100_000 {
		http.NotFound(w, r)
		return
	}
	var b bytes.Buffer
	b.WriteString(`{"result":{"items":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		replies := ""
		if i%3 == 0 {
			replies = `{"id":` + strconv.Itoa(900000+i) + `,"text":"We have sent you a new one today.","by":{"role":"S"},"at":"2026-10-02 09:30:00"}`
		}
		fmt.Fprintf(&b, `{"uuid":"1b4e28ba-2fa1-11d2-883f-%012d","customer":{"id":%q},"subject":"Where is parcel %d?","body":{"text":"It was announced for last Tuesday, and nobody came. %s"},`+
			`"state":"N","category":"delivery","opened":"2026-10-01 14:%02d:%02d","replies":[%s]}`,
			i, r.URL.Query().Get("customer"), i, strings.Repeat("Please look into it. ", 6), i/60%60, i%60, replies)
	}
	b.WriteString("]}}")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b.Bytes())
}
