package console

import (
	"bytes"
	"net/http"
	"time"
)

const (
	tableEvery   = time.Minute // between two rows of a chart's table
	tablesEvery  = 10          // samples between two updates of the tables in open pages
	shownTop     = 10
	staleSamples = 3 * sampleEvery // without a sample for so long the page says so
)

// view is what the page shows. Maps and slices in it belong to it.
type view struct {
	Root      string // path from the page to "/", relative, so that a proxy's prefix does no harm
	Version   string
	At        time.Time // of the newest sample; zero: none yet
	Stale     bool      // that sample is old
	Since     time.Duration
	Findings  []finding
	Tiles     []tile
	Charts    []chartView
	Totals    []totalGroup
	Accounts  []accountView
	HasTop    bool
	TTL       []ttlView
	HasTTL    bool
	Canary    *canaryView // nil: there are no figures yet
	Explain   *explainView
	Purge     *purgeView
	CanLogout bool
}

// chartView is a chart with the rows of its table, the newest first.
type chartView struct {
	chart
	Rows []row
}

// Now is the newest value of a line, as it is shown.
func (c chartView) Now(line int) string {
	if len(c.Rows) == 0 {
		return unknown
	}
	return format(float64(c.Rows[0].Values[line]), c.Unit)
}

type row struct {
	At     time.Time
	Values []number
}

type accountView struct{ Name, PerSecond, AtLeast, Share string }

// home is the console's page.
func (c *Console) home(w http.ResponseWriter, r *http.Request) {
	v := c.view("")
	if c.opts.TTL != nil {
		v.HasTTL = true
		v.TTL, _, _ = c.ttlViews() // a report that cannot be read is one without kinds
	}
	c.write(w, http.StatusOK, "home", v)
}

// write renders whole before the status goes out.
func (c *Console) write(w http.ResponseWriter, status int, name string, data any) {
	var b bytes.Buffer
	if err := c.pages.ExecuteTemplate(&b, name, data); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the browser left; nobody to tell
}

func (c *Console) view(root string) view {
	v := view{Root: root, Version: c.opts.Version, CanLogout: c.opts.Sessions.Guarded()}
	if c.opts.Explain != nil {
		v.Explain = &explainView{}
	}
	if c.opts.Purge != nil {
		v.Purge = &purgeView{Form: c.form}
	}
	c.sampler.fill(&v, c.charts, c.opts.Now())
	if c.opts.TopAccounts != nil {
		v.HasTop = true
		for _, a := range c.opts.TopAccounts.top(shownTop) {
			v.Accounts = append(v.Accounts, accountView{c.opts.AccountName(a.Name), format(a.PerSecond, unitRate), format(a.AtLeast, unitRate), percent(a.Share)})
		}
	}
	return v
}

// fill sets what comes from the metrics.
func (s *sampler) fill(v *view, charts []chart, now time.Time) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, ch := range charts {
		v.Charts = append(v.Charts, chartView{chart: ch})
	}
	if s.samples.len() == 0 {
		v.Stale = true
		return
	}
	minute, all := s.span(tileSpan), s.span(kept)
	v.At = all.to.at
	v.Stale = now.Sub(v.At) > staleSamples
	v.Since = v.At.Sub(all.from.at).Round(time.Second)
	v.Tiles = minute.tiles()
	v.Findings = findings(minute, all, s.err)
	v.Totals = s.totals
	v.Canary = s.canary()
	s.tables(v)
}

// tables takes the newest point and one per minute before it.
func (s *sampler) tables(v *view) {
	var picked []point
	for i := s.points.len() - 1; i >= 0; i-- {
		p := s.points.at(i)
		if len(picked) == 0 || picked[len(picked)-1].at.Sub(p.at) >= tableEvery {
			picked = append(picked, p)
		}
	}
	column := 0
	for i := range v.Charts {
		n := len(v.Charts[i].Lines)
		for _, p := range picked {
			v.Charts[i].Rows = append(v.Charts[i].Rows, row{p.at, p.values[column : column+n]})
		}
		column += n
	}
}

// parts renders what changes in an open page, by the id of the element whose
// content it is. Tables are seldom open, so they come less often.
func (c *Console) parts(n int) map[string]string {
	v := c.view("")
	all := map[string]string{}
	render := func(id, name string, data any) {
		var b bytes.Buffer
		if err := c.pages.ExecuteTemplate(&b, name, data); err == nil { // the page itself would show the error
			all[id] = b.String()
		}
	}
	render("findings", "findings", v)
	render("tiles", "tiles", v)
	render("totals-list", "totals", v)
	render("canary-checks", "canary", v.Canary)
	for _, ch := range v.Charts {
		render("legend-"+ch.ID, "legend", ch)
	}
	if v.HasTop {
		render("accounts-rows", "accounts", v)
	}
	if n%tablesEvery == 0 {
		for _, ch := range v.Charts {
			render("rows-"+ch.ID, "rows", ch)
		}
	}
	return all
}
