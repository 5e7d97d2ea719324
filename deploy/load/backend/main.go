// Command backend is what stands behind the servers under load: the legacy
// system's own replies, with as many buyers as wanted and lists of a known
// length; and, for peers that cannot map them, the gateway's finished bytes and
// a service that tells good keys. Its CPU time is never counted.
//
//	GET /r20/v2/tickets?customer=ANY&state=N   a list of 20 records
//	GET /api/v1/buyer/inquiries?...            finished bytes (-bodies) for a key of -keys, else 401
//	GET /auth                                  204 and X-Account for such a key, else 401
//	GET /requests                              how many of each were served
package main

import (
	"encoding/json"
	"flag"
	"log"
	"net/http"
	"time"
)

// inquiries are enough for 5,000 in the rarest state, which a quarter are in.
const inquiries = 22_000

func main() {
	listen := flag.String("listen", "127.0.0.1:9501", "`HOST:PORT`")
	bodies := flag.String("bodies", "", "JSON `FILE`: raw query to finished body")
	keys := flag.String("keys", "", "JSON `FILE`: key to account")
	latency := flag.Duration("latency", 0, "spent before every list")
	flag.Parse()
	mux, c := http.NewServeMux(), &counters{}
	mux.Handle("GET /{records}/v2/tickets", c.lists(newLists(inquiries, *latency)))
	mux.HandleFunc("GET /requests", c.report)
	if *bodies != "" {
		known := accounts(mustRead(*keys))
		mux.Handle("GET /api/v1/buyer/inquiries", c.finished(known, mustRead(*bodies)))
		mux.Handle("GET /auth", c.auth(known))
	}
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func (c *counters) report(w http.ResponseWriter, _ *http.Request) {
	_ = json.NewEncoder(w).Encode(map[string]int64{
		"lists": c.listRequests.Load(), "finished": c.finishedRequests.Load(), "auth": c.authRequests.Load(),
	})
}
