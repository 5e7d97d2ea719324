package console

import (
	"crypto/subtle"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// explainFields are the parameters of an explanation.
var explainFields = [...]string{"key_id", "kind", "account", "status", "inquiry_type"}

// explainView is the form, and the answer where there is one.
type explainView struct {
	Asked  url.Values
	Answer *node
	Error  string
}

// Of gives the form's field back as it was sent.
func (v explainView) Of(field string) string { return v.Asked.Get(field) }

func (c *Console) explain(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	asked := url.Values{}
	for _, field := range explainFields {
		if value := strings.TrimSpace(query.Get(field)); value != "" {
			asked.Set(field, value)
		}
	}
	v, status := c.view("../"), http.StatusOK
	v.Explain.Asked = asked
	answer, err := c.opts.Explain(r.Context(), asked)
	if err == nil {
		v.Explain.Answer, err = nodeOf(answer)
	}
	if err != nil {
		v.Explain.Error, status = err.Error(), http.StatusUnprocessableEntity
	}
	c.write(w, status, "explained", v)
}

// purgeView is one step of a purge: the question, or what came of it.
type purgeView struct {
	Form          string // proves that the form is of this process
	Kind, Account string
	Done          bool
	Epoch         uint64
	Error         string
}

// What names what is purged.
func (v purgeView) What() string {
	if v.Account != "" {
		return "all lists of account " + v.Account
	}
	return "all " + v.Kind + " lists"
}

// purge asks for confirmation first: what is purged has to be fetched again, and
// the legacy system bears that.
func (c *Console) purge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxFormBytes)
	v := c.view("../")
	v.Purge.Kind, v.Purge.Account = r.PostFormValue("kind"), strings.TrimSpace(r.PostFormValue("account"))
	switch {
	case subtle.ConstantTimeCompare([]byte(r.PostFormValue("form")), []byte(c.form)) != 1:
		v.Purge.Error = "This form is of an earlier run of the gateway, or of another page. Nothing was purged. Go back to the console and send it again."
		c.write(w, http.StatusForbidden, "purged", v)
	case (v.Purge.Kind == "") == (v.Purge.Account == "") || v.Purge.Kind != "" && !slices.Contains(kinds[:], v.Purge.Kind):
		v.Purge.Error = "Choose a kind, or enter an account; not both. Nothing was purged."
		c.write(w, http.StatusUnprocessableEntity, "purged", v)
	case r.PostFormValue("confirmed") != "yes":
		c.write(w, http.StatusOK, "confirm", v)
	default:
		c.doPurge(w, r, v)
	}
}

func (c *Console) doPurge(w http.ResponseWriter, r *http.Request, v view) {
	status := http.StatusOK
	epoch, err := c.opts.Purge(r.Context(), v.Purge.Kind, v.Purge.Account)
	v.Purge.Done, v.Purge.Epoch = err == nil, epoch
	if err != nil {
		v.Purge.Error, status = "Purged on this node only; repeat it when Redis is back: "+err.Error(), http.StatusBadGateway
		if epoch != 0 {
			v.Purge.Error = "Purged, but not as wanted: " + err.Error()
		}
	}
	c.write(w, status, "purged", v)
}
