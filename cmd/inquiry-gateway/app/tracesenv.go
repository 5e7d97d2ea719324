package app

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// What OTEL_TRACES_EXPORTER and OTEL_EXPORTER_OTLP_PROTOCOL may say.
const (
	exporterOTLP    = "otlp"
	exporterConsole = "console"
	exporterNone    = "none"

	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
	protocolJSON = "http/json"
)

// The SDK's own.
const (
	defaultTraceQueue   = 2048
	defaultTraceBatch   = 512
	defaultTraceSampler = "parentbased_always_on"
)

// traceEnv is what the variables of OpenTelemetry ask for, as far as it is not
// the SDK's alone.
type traceEnv struct {
	name     string // of the exporter; empty: no traces
	protocol string // of OTLP
	endpoint string // of OTLP; empty: the SDK's
	sampler  string
	queue    int64 // spans that may wait
}

// readTraceEnv fails with all that is wrong, each mistake with the name of its
// variable. The SDK passes over a value that it does not understand; here a typing
// error must not turn traces off, or send them elsewhere, in silence. Variables of
// what is not used are not looked at.
func readTraceEnv(getenv func(string) string) (traceEnv, error) {
	c := &envChecker{getenv: getenv}
	disabled := c.boolean("OTEL_SDK_DISABLED")
	e := traceEnv{name: c.oneOf("OTEL_TRACES_EXPORTER", exporterOTLP, exporterConsole, exporterNone)}
	if e.name == "" && c.get("OTEL_EXPORTER_OTLP_ENDPOINT")+c.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "" {
		e.name = exporterOTLP
	}
	if disabled || len(c.errs) == 0 && (e.name == "" || e.name == exporterNone) {
		return traceEnv{}, nil
	}
	if e.name == exporterOTLP {
		for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} { // the latter wins
			c.otlp(prefix)
			e.protocol = cmp.Or(c.oneOf(prefix+"PROTOCOL", protocolHTTP, protocolGRPC, protocolJSON), e.protocol)
			e.endpoint = cmp.Or(c.get(prefix+"ENDPOINT"), e.endpoint)
		}
		e.protocol = cmp.Or(e.protocol, protocolHTTP)
	}
	e.sampler, e.queue = c.sampler(), c.batches()
	c.limits()
	c.attributes()
	c.propagators()
	return e, errors.Join(c.errs...)
}

// envChecker collects what is wrong with variables. None of its texts quotes a
// value that may be a secret.
type envChecker struct {
	getenv func(string) string
	errs   []error
}

// add notes a mistake with the name of its variable.
func (c *envChecker) add(name, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(name+": "+format, args...))
}

// get reads a variable as the SDK does: without the spaces around it.
func (c *envChecker) get(name string) string { return strings.TrimSpace(c.getenv(name)) }

// oneOf reads a value from a fixed set; empty stays empty.
func (c *envChecker) oneOf(name string, known ...string) string {
	value := c.get(name)
	if value != "" && !slices.Contains(known, value) {
		c.add(name, "%q is not known here; give %s", value, strings.Join(known, ", "))
	}
	return value
}

// boolean reads true or false. To the SDK everything but true is false, a typing
// error included.
func (c *envChecker) boolean(name string) bool {
	value := strings.ToLower(c.get(name))
	if value != "" && value != "true" && value != "false" {
		c.add(name, "%q is neither true nor false", value)
	}
	return value == "true"
}

// whole reads a whole number of at least least; fallback where there is none, or a wrong
// one.
func (c *envChecker) whole(name string, least, fallback int) int {
	text := c.getenv(name) // with spaces the SDK would not read it
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least {
		c.add(name, "%q is no whole number of at least %d", text, least)
		return fallback
	}
	return n
}

// otlp looks at how to reach a collector.
func (c *envChecker) otlp(prefix string) {
	if name := prefix + "ENDPOINT"; c.get(name) != "" {
		u, err := url.Parse(c.get(name))
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			c.add(name, "give an URL such as http://collector:4318")
		case u.User != nil:
			c.add(name, "a user in the URL is not sent; use %sHEADERS", prefix)
		case u.RawQuery != "" || u.Fragment != "":
			c.add(name, "a query or a fragment is not sent; take it away")
		}
	}
	c.headers(prefix + "HEADERS")
	c.whole(prefix+"TIMEOUT", 0, 0)
	c.oneOf(prefix+"COMPRESSION", "gzip", "none")
	c.boolean(prefix + "INSECURE")
	if name := prefix + "CERTIFICATE"; c.get(name) != "" {
		if pem, err := os.ReadFile(c.get(name)); err != nil {
			c.add(name, "%v", err)
		} else if !x509.NewCertPool().AppendCertsFromPEM(pem) {
			c.add(name, "%s holds no certificate in PEM form", c.get(name))
		}
	}
	cert, key := prefix+"CLIENT_CERTIFICATE", prefix+"CLIENT_KEY"
	if c.get(cert)+c.get(key) != "" {
		if _, err := tls.LoadX509KeyPair(c.get(cert), c.get(key)); err != nil {
			c.add(cert, "with %s: %v", key, err)
		}
	}
}

// headers does not quote what is wrong: a header may carry a token.
func (c *envChecker) headers(name string) {
	if c.get(name) == "" {
		return
	}
	for i, pair := range strings.Split(c.get(name), ",") {
		key, value, found := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !found || err != nil || !httpguts.ValidHeaderFieldName(strings.TrimSpace(key)) {
			c.add(name, "element %d is not name=value; write it as in name1=value1,name2=value2, with %%2C for a comma", i+1)
		}
	}
}

// sampler gives the sampler with its share, for the log.
func (c *envChecker) sampler() string {
	const name, arg = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	sampler := c.oneOf(name, "always_on", "always_off", "traceidratio", defaultTraceSampler, "parentbased_always_off", "parentbased_traceidratio")
	if text := c.get(arg); text != "" && strings.HasSuffix(sampler, "traceidratio") {
		if ratio, err := strconv.ParseFloat(text, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
			c.add(arg, "%q is no share between 0 and 1", text)
		}
		sampler += " " + text
	}
	return cmp.Or(sampler, defaultTraceSampler)
}

// batches gives how many spans may wait.
func (c *envChecker) batches() int64 {
	const batch = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	c.whole("OTEL_BSP_SCHEDULE_DELAY", 1, 0)
	c.whole("OTEL_BSP_EXPORT_TIMEOUT", 0, 0)
	queue := c.whole("OTEL_BSP_MAX_QUEUE_SIZE", 1, defaultTraceQueue)
	if n := c.whole(batch, 1, min(defaultTraceBatch, queue)); n > queue {
		c.add(batch, "%d is more than the %d that may wait (OTEL_BSP_MAX_QUEUE_SIZE)", n, queue)
	}
	return int64(queue)
}

// limits looks at the bounds of a span; to the SDK a negative one is none.
func (c *envChecker) limits() {
	for _, name := range []string{
		"OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT",
		"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT",
	} {
		c.whole(name, math.MinInt, 0)
	}
}

// attributes may be quoted: they are sent with each span.
func (c *envChecker) attributes() {
	const name = "OTEL_RESOURCE_ATTRIBUTES"
	if c.get(name) == "" {
		return
	}
	for _, pair := range strings.Split(c.get(name), ",") {
		key, value, found := strings.Cut(pair, "=")
		if _, err := url.PathUnescape(value); !found || err != nil || strings.TrimSpace(key) == "" {
			c.add(name, "%q is not key=value; write it as in key1=value1,key2=value2, with %%2C for a comma", pair)
		}
	}
}

// propagators refuses those that would be expected to work and do not. Baggage is
// named in the default of OpenTelemetry; it is neither read nor passed on.
func (c *envChecker) propagators() {
	const name = "OTEL_PROPAGATORS"
	for _, p := range strings.FieldsFunc(c.get(name), func(r rune) bool { return r == ',' || r == ' ' }) {
		if p != "tracecontext" && p != "baggage" {
			c.add(name, "%q is not spoken here, only tracecontext", p)
		}
	}
}
