// Command bare is what the gateway is measured against: net/http alone, with
// the gateway's server settings, and nothing logged or counted.
//
//	-bodies FILE              writes the gateway's bytes to everybody
//	-bodies FILE -keys FILE   the same from copies for each key, 401 to others;
//	                          /auth tells a key's account. The origin of peers, too
//	-bodies FILE -fields      the gateway's bytes with as many fields as its answers have
//	-proxy URL                httputil.ReverseProxy in front of URL
package main

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	_ "net/http/pprof"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:9500", "`HOST:PORT` of HTTP/1.1 and clear-text HTTP/2")
	tlsListen := flag.String("tls-listen", "", "`HOST:PORT` of TLS; empty: none")
	cert, key := flag.String("cert", "", "certificate `FILE`"), flag.String("key", "", "its key's `FILE`")
	control := flag.String("control", "", "`HOST:PORT` of /debug/pprof; empty: none")
	bodies := flag.String("bodies", "", "JSON `FILE`: raw query to body")
	keys := flag.String("keys", "", "JSON `FILE`: API key to account; empty: anybody is answered")
	fields := flag.Bool("fields", false, "send as many header fields as the gateway")
	proxy := flag.String("proxy", "", "`URL` to pass everything on to")
	flag.Parse()
	var h http.Handler
	var err error
	if *proxy != "" {
		h, err = newProxy(*proxy)
	} else {
		h, err = newHandler(*bodies, *keys)
	}
	if err != nil {
		log.Fatal(err)
	}
	if *fields {
		h = withFields(h)
	}
	// The first listener that ends ends the program.
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

// newProxy keeps connections open, as the gateway does.
func newProxy(to string) (http.Handler, error) {
	target, err := url.Parse(to)
	if err != nil {
		return nil, err
	}
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
	}, nil
}

// withFields adds fields like the gateway's. Two of them change with each answer, as the
// gateway's id and what is left of a rate do: over HTTP/2 such a field is sent whole.
func withFields(next http.Handler) http.Handler {
	fixed := map[string][]string{
		"Age": {"3"}, "Cache-Control": {"private, no-cache"}, "Cache-Status": {"inquiry-gateway; hit; ttl=7"}, "Etag": {`W/"Bc1ATlG5VUuZSnxcrL3k2g"`},
		"Ratelimit-Policy": {`"default";q=100000;w=1`}, "Vary": {"Authorization, Accept-Encoding"}, "X-Content-Type-Options": {"nosniff"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, n := w.Header(), rand.Uint64()
		maps.Copy(h, fixed)
		h["X-Request-Id"] = []string{hex.EncodeToString(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, n), n))}
		h["Ratelimit"] = []string{`"default";r=` + strconv.FormatUint(n%100_000, 10) + ";t=1"}
		next.ServeHTTP(w, r)
	})
}

// answer is a body with its header value made once.
type answer struct {
	body   []byte
	length []string
}

// answers are by raw query.
type answers map[string]answer

// newAnswers copies the bodies, so that two callers of it share no memory.
func newAnswers(bodies map[string]string) answers {
	a := make(answers, len(bodies))
	for query, body := range bodies {
		a[query] = answer{[]byte(body), []string{strconv.Itoa(len(body))}}
	}
	return a
}

// newHandler reads its files once. With keys each of them has copies of all bodies, so
// that the processor's caches serve it no better than a cache with as many lists.
func newHandler(bodiesFile, keysFile string) (http.Handler, error) {
	bodies, err := readMap(bodiesFile)
	if err != nil {
		return nil, err
	}
	shared := newAnswers(bodies)
	if keysFile == "" {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, shared) }), nil
	}
	accounts, err := readMap(keysFile)
	if err != nil {
		return nil, err
	}
	own := make(map[string]answers, len(accounts))
	for key := range accounts {
		own["Bearer "+key] = newAnswers(bodies)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Authorization")
		a, ok := own[key]
		switch {
		case !ok:
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/auth":
			w.Header().Set("X-Account", accounts[strings.TrimPrefix(key, "Bearer ")])
			w.WriteHeader(http.StatusNoContent)
		default:
			serve(w, r, a)
		}
	}), nil
}

// serve writes the body of the raw query; another query is 404.
func serve(w http.ResponseWriter, r *http.Request, from answers) {
	a, ok := from[r.URL.RawQuery]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	// The values are made once, as the gateway makes its own: a copy for each answer
	// would flatter the gateway.
	h["Content-Type"], h["Content-Length"] = jsonType, a.length
	_, _ = w.Write(a.body) // a caller that left is not a concern
}

// jsonType is shared by all answers and never changed.
var jsonType = []string{"application/json; charset=utf-8"}

// readMap reads a JSON object of texts.
func readMap(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var m map[string]string
	return m, json.Unmarshal(text, &m)
}
