// The charts over time: what each shows, its legend, and its table.
(() => {
  "use strict";
  const { el, show, write, clock, overTime } = window.gateway;

  const line = (id, label, bad) => ({ id, label, bad });
  const times = (histogram) => ["buyer", "seller"].flatMap((k) => [line(histogram + "." + k + ".p50", k + ", median"), line(histogram + "." + k + ".p99", k + ", 99th percentile")]);
  const specs = [
    { id: "traffic", title: "Answers", unit: "rate", help: "Lists per second by cache outcome, and failed answers (5xx).", lines: [
      line("lookups.hit", "hit"), line("lookups.stale-revalidate", "stale, refreshing"), line("lookups.collapsed", "waited for another's fill"),
      line("lookups.miss", "miss"), line("lookups.stale-error", "old after an error"), line("answers.failed", "failed", true)] },
    { id: "hits", title: "Hit ratio", unit: "ratio", help: "Share of look-ups answered at once: hits, and stale lists that are refreshed in the background.", lines: [line("hits.buyer", "buyer"), line("hits.seller", "seller")] },
    { id: "age", title: "Age served", unit: "seconds", help: "How old the lists were, counted from the legacy system's answer.", lines: times("age") },
    { id: "fetches", title: "Legacy requests", unit: "rate", help: "Per second by result. Unavailable: the breaker or the bulkhead kept them away.", lines: [
      line("fetches.ok", "ok"), line("fetches.unavailable", "unavailable"), line("fetches.canceled", "caller left"), line("fetches.timeout", "timeout"), line("fetches.invalid", "invalid answer"), line("fetches.upstream", "failed", true)] },
    { id: "breakers", title: "Breakers", unit: "state", help: "A low bar is closed, which is good; a half one half-open; a full one open.", lines: [line("breaker.buyer", "buyer"), line("breaker.seller", "seller"), line("breaker.redis", "redis")] },
    { id: "latency", title: "Legacy latency", unit: "seconds", help: "How long requests to the legacy system took, mapping included.", lines: times("fetch") },
    { id: "answers", title: "Answer time", unit: "seconds", help: "From a request's header to the answer's last byte.", lines: [line("answer.p50", "median"), line("answer.p99", "99th percentile")] },
    { id: "redis", title: "Redis calls", unit: "rate", help: "Per second by result. Skipped: the breaker in front of Redis is open.", lines: [line("redis.ok", "ok"), line("redis.skipped", "skipped"), line("redis.timeout", "timeout"), line("redis.error", "error", true)] },
    { id: "refusals", title: "Refusals", unit: "rate", help: "Per second: requests over their account's rate or without a good key, of these the guesses that got 429; fields the mapping refused; records of another account; changes in shape.", lines: [
      line("limited", "rate limited"), line("refused", "not authenticated"), line("guesses", "of addresses that guess keys"), line("invalid", "refused by the mapping"), line("foreign", "foreign records", true)] },
  ];

  const swatch = (l, i) => el("span", { class: "swatch " + (l.bad ? "bad" : "s" + i), "aria-hidden": "true" });

  function card(spec) {
    const title = "title-" + spec.id;
    return el("section", { class: "card chart", id: "chart-" + spec.id, "aria-labelledby": title },
      el("h3", { id: title }, spec.title), el("p", { class: "help" }, spec.help),
      el("div", { class: "plot", role: "img", "aria-label": spec.title + ", drawn over time. The table below says the same." }),
      el("p", { class: "readout", "aria-hidden": "true" }), el("ul", { class: "legend" }),
      el("details", null, el("summary", null, spec.title + " as a table"),
        el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": title },
          el("table", { class: "data" }, el("caption", { class: "hidden" }, spec.title + ", a row per minute, the newest first"),
            el("thead", null, el("tr", null, el("th", { scope: "col" }, "UTC"), spec.lines.map((l) => el("th", { scope: "col" }, l.label)))), el("tbody")))));
  }

  // One row per minute, the newest first.
  function rows(spec, history) {
    const picked = [];
    for (let i = history.t.length - 1; i >= 0; i--) if (picked.length === 0 || history.t[picked.at(-1)] - history.t[i] >= 60) picked.push(i);
    return picked.map((i) => el("tr", null, el("th", { scope: "row" }, clock(history.t[i])), spec.lines.map((l) => el("td", null, write(spec.unit, history[l.id][i])))));
  }

  // charts fills the grid and gives what keeps it up to date.
  window.gateway.charts = (grid, view) => {
    const all = specs.map((spec) => {
      const box = card(spec);
      grid.append(box);
      box.querySelector("details").addEventListener("toggle", () => table(spec, box));
      return { spec, box, drawn: null };
    });
    function table(spec, box) {
      if (box.querySelector("details").open) show(box.querySelector("tbody"), rows(spec, view.history));
    }
    return {
      build() {
        for (const c of all) {
          c.drawn?.plot.destroy();
          c.drawn = overTime(c.box.querySelector(".plot"), c.spec, view);
        }
      },
      update(state) {
        for (const { spec, box, drawn } of all) {
          drawn.redraw();
          show(box.querySelector(".legend"), spec.lines.map((l, i) => el("li", null, swatch(l, i), l.label + " ", el("span", { class: "figure", "data-figure": l.id }, write(spec.unit, state.point[l.id])))));
          const worst = state.incident.evidence.find((f) => f.target === spec.id)?.level ?? "";
          box.className = "card chart " + worst;
          if (state.t % 60 < 2) table(spec, box);
        }
      },
      resize() {
        for (const { drawn } of all) fit(drawn);
      },
    };
  };

  function fit(drawn) {
    if (drawn && drawn.box.clientWidth > 0 && drawn.box.clientWidth !== drawn.plot.width) drawn.plot.setSize({ width: drawn.box.clientWidth, height: drawn.plot.height });
  }
  window.gateway.fit = fit;
  window.gateway.swatch = swatch;
})();
