package main

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector is a receiver of traces. Its spans are whole when the program that sends them has stopped.
type collector struct {
	t      *testing.T
	server *httptest.Server

	mu       sync.Mutex
	header   http.Header // of the last request
	raw      []byte      // all that has come
	resource map[string]string
	spans    []*tracepb.Span
}

// collect starts a collector, and has programs that are started afterwards send
// their traces to it. Further variables come in pairs.
func collect(t *testing.T, env ...string) *collector {
	t.Helper()
	c := &collector{t: t}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.server.URL)
	for i := 0; i < len(env); i += 2 {
		t.Setenv(env[i], env[i+1])
	}
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		zip, err := gzip.NewReader(r.Body)
		if err != nil {
			c.t.Error(err)
			return
		}
		body = zip
	}
	text, err := io.ReadAll(body)
	var request collectorpb.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &request)
	}
	if err != nil || r.URL.Path != "/v1/traces" || r.Method != http.MethodPost {
		c.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.take(&request, r.Header, text)
}

func (c *collector) take(r *collectorpb.ExportTraceServiceRequest, header http.Header, raw []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header, c.raw = header, append(c.raw, raw...)
	for _, resource := range r.ResourceSpans {
		c.resource = attributes(resource.Resource.Attributes)
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func attributes(list []*commonpb.KeyValue) map[string]string {
	m := map[string]string{}
	for _, a := range list {
		v := a.Value.GetStringValue()
		if v == "" {
			v = strings.Trim(a.Value.String(), " ")
		}
		m[a.Key] = v
	}
	return m
}

// got gives what has come so far.
func (c *collector) got() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// named are the spans of that name.
func (c *collector) named(name string) []*tracepb.Span {
	return slices.DeleteFunc(c.got(), func(s *tracepb.Span) bool { return s.Name != name })
}

// one is the only span of that name.
func (c *collector) one(name string) *tracepb.Span {
	c.t.Helper()
	all := c.named(name)
	if len(all) != 1 {
		c.t.Fatalf("%d spans %s among\n%s", len(all), name, strings.Join(c.paths(), "\n"))
	}
	return all[0]
}

// paths names each span by those above it, sorted.
func (c *collector) paths() []string {
	byID := map[string]*tracepb.Span{}
	for _, s := range c.got() {
		byID[string(s.SpanId)] = s
	}
	var all []string
	for _, s := range c.got() {
		path := s.Name
		for up := byID[string(s.ParentSpanId)]; up != nil; up = byID[string(up.ParentSpanId)] {
			path = up.Name + " > " + path
		}
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// below lists the paths under one, without it.
func (c *collector) below(root string) []string {
	var all []string
	for _, path := range c.paths() {
		if rest, ok := strings.CutPrefix(path, root+" > "); ok {
			all = append(all, rest)
		}
	}
	return all
}

// traceparent is how a span names itself to others.
func traceparent(s *tracepb.Span) string {
	return "00-" + hex.EncodeToString(s.TraceId) + "-" + hex.EncodeToString(s.SpanId) + "-01"
}
