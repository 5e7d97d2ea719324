package legacy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"go.uber.org/goleak"

	"inquiry-gateway/upstream/legacy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a legacy system behind a real listener, with little data where o
// does not say how much.
func start(t *testing.T, o legacy.Options) (*legacy.Server, *httptest.Server) {
	t.Helper()
	if o.Inquiries == 0 {
		o.Inquiries, o.Buyers = 1000, 40
	}
	s := legacy.New(o)
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	web.Client().CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return s, web
}

type answer struct {
	status int
	header http.Header
	body   []byte
	err    error // of reading the body
}

func do(t *testing.T, web *httptest.Server, method, path string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := web.Client().Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, body, err}
}

func get(t *testing.T, web *httptest.Server, path string) answer {
	t.Helper()
	a := do(t, web, http.MethodGet, path)
	if a.err != nil {
		t.Fatalf("GET %s: %v", path, a.err)
	}
	return a
}

func buyerList(t *testing.T, web *httptest.Server, account string) []byte {
	t.Helper()
	return get(t, web, "/v2/tickets?"+url.Values{"customer": {account}}.Encode()).body
}

func sellerList(t *testing.T, web *httptest.Server, account string) []byte {
	t.Helper()
	return get(t, web, "/v2/vendors/"+url.PathEscape(account)+"/tickets").body
}
