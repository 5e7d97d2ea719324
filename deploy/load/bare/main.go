// Command bare is what the gateway is measured against: net/http alone, with
// the gateway's server settings, writing the gateway's bytes. It does not look
// at who asks, keeps no log and counts nothing.
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	_ "net/http/pprof"
	"os"
	"strconv"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9500", "`HOST:PORT` of HTTP/1.1 and clear-text HTTP/2")
	tlsListen := flag.String("tls-listen", "", "`HOST:PORT` of TLS; empty: none")
	cert, key := flag.String("cert", "", "certificate `FILE`"), flag.String("key", "", "its key's `FILE`")
	control := flag.String("control", "", "`HOST:PORT` of /debug/pprof; empty: none")
	bodies := flag.String("bodies", "", "JSON `FILE`: raw query to body")
	keys := flag.String("keys", "", "JSON `FILE` with API keys as names: each has copies of the bodies of its own; empty: all share them")
	flag.Parse()
	h, err := newHandler(*bodies, *keys)
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	if *control != "" {
		go func() { ended <- http.ListenAndServe(*control, nil) }()
	}
	if *tlsListen != "" {
		go func() { ended <- newServer(*tlsListen, h).ListenAndServeTLS(*cert, *key) }()
	}
	go func() { ended <- newServer(*listen, h).ListenAndServe() }()
	log.Fatal(<-ended)
}

// newServer has the settings of the gateway's public listener.
func newServer(address string, h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Addr:              address,
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      15 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		Protocols:         protocols,
	}
}

// answer is a body with its header values made once.
type answer struct {
	body   []byte
	length []string
}

// answers are by raw query.
type answers map[string]answer

func newAnswers(bodies map[string]string) answers {
	a := make(answers, len(bodies))
	for query, body := range bodies {
		a[query] = answer{[]byte(body), []string{strconv.Itoa(len(body))}}
	}
	return a
}

func newHandler(bodiesFile, keysFile string) (http.Handler, error) {
	bodies, err := readMap(bodiesFile)
	if err != nil {
		return nil, err
	}
	shared := newAnswers(bodies)
	if keysFile == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, shared) }), nil
	}
	keys, err := readMap(keysFile)
	if err != nil {
		return nil, err
	}
	own := make(map[string]answers, len(keys))
	for key := range keys {
		own["Bearer "+key] = newAnswers(bodies)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve(w, r, own[r.Header.Get("Authorization")])
	}), nil
}

func serve(w http.ResponseWriter, r *http.Request, from answers) {
	a, ok := from[r.URL.RawQuery]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = jsonType, a.length
	_, _ = w.Write(a.body) // a caller that left is not a concern
}

// jsonType is shared by all answers and never changed.
var jsonType = []string{"application/json; charset=utf-8"}

func readMap(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var m map[string]string
	return m, json.Unmarshal(text, &m)
}
