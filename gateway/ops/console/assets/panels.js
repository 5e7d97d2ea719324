// The parts of the page that are texts and tables: incident line, figures,
// canary, what another TTL would do, accounts, marks, and explanations.
(() => {
  "use strict";
  const { el, show, write, count, seconds, ratio, ttlName, clock, known, overTTL, swatch, fit } = window.gateway;
  const byId = (id) => document.getElementById(id);
  const words = { good: "All well", warning: "Notice", bad: "Problem" };
  const symbols = { good: "✔", warning: "▲", bad: "✖" };
  const ago = (s) => (s < 120 ? Math.max(0, Math.round(s)) + " s" : s < 7200 ? Math.floor(s / 60) + " min" : Math.floor(s / 3600) + " h");
  // Texts have commands between backticks, and [links](#id) to parts of the page.
  const marked = (text) => text.split(/(`[^`]+`|\[[^\]]+\]\(#[a-z]+\))/).map((part) => {
    const link = /^\[(.+)\]\((#[a-z]+)\)$/.exec(part);
    return link ? el("a", { href: link[2] }, link[1]) : part.startsWith("`") ? el("code", null, part.slice(1, -1)) : part;
  });
  const chapterLink = (f) => (f.chapter ? el("a", { href: "console/runbook#" + f.chapter.toLowerCase(), class: "chapter-link" }, "Runbook: " + f.chapter) : null);
  const targetOf = (target) => "#" + (byId("chart-" + target) ? "chart-" + target : target);

  function incident(i, now) {
    const bad = i.level !== "good";
    document.title = symbols[i.level] + " " + i.name + " – inquiry gateway";
    byId("incident").className = "incident " + i.level;
    show(byId("headline"), [el("span", { class: "symbol", "aria-hidden": "true" }, symbols[i.level]), bad && i.since ? i.name + " since " + clock(i.since) + " UTC" : i.name]);
    show(byId("incident-text"), [
      el("p", { class: "what" }, (bad && i.since ? "For " + ago(now - i.since) + ". " : "") + (i.text ?? "")),
      i.hit ? el("p", { class: "hit" }, el("strong", null, i.hit), i.get ? " " + i.get : "") : null,
      i.press || i.chapter ? el("p", { class: "press" }, i.press ? [el("strong", null, "Do this: "), ...marked(i.press), " "] : null, chapterLink(i)) : null,
    ]);
    show(byId("findings"), i.evidence.slice(1).map((f) => el("li", { class: f.level }, el("strong", null, words[f.level]),
      el("span", null, el("a", { href: targetOf(f.target) }, f.text), " Since " + clock(f.since) + ". ", f.press ? [...marked(f.press), " "] : null, chapterLink(f)))));
  }

  const sum = (counts, prefix, not) => Object.entries(counts).reduce((n, [name, v]) => (name.startsWith(prefix) && !not?.(name) ? n + v : n), 0);
  const share = (part, all) => (all > 0 ? ratio(part / all) : "none");
  const pair = (values, name, q) => ["buyer", "seller"].map((kind) => write("seconds", values[name + "." + kind + "." + q])).join(" / ");

  function tiles(f, point) {
    const c = f.counts, v = f.values;
    const hits = sum(c, "lookups.hit") + sum(c, "lookups.stale-revalidate"), lookups = sum(c, "lookups.");
    const fetches = sum(c, "fetches.", (n) => n.includes("canceled") || n.includes("unavailable")), fetchesFailed = fetches - sum(c, "fetches.ok");
    const redis = point["breaker.redis"], redisFailed = c["redis.timeout"] + c["redis.error"];
    const open = Math.max(point["breaker.buyer"] ?? -1, point["breaker.seller"] ?? -1);
    const states = (k) => write("state", point["breaker." + k]);
    return [
      { id: "answers", label: "Answers", chart: "answers", value: count(c.answers), note: write("rate", f.seconds > 0 ? c.answers / f.seconds : null) + ", now in flight: " + write("count", point["inflight.public"]) },
      { id: "failed", label: "Failed answers", chart: "traffic", value: count(c["answers.failed"]), note: c.answers > 0 ? share(c["answers.failed"], c.answers) + " of all are 5xx" : "nobody asked" },
      { id: "hits", label: "Hit ratio", chart: "hits", value: lookups > 0 ? ratio(hits / lookups) : "–", note: lookups > 0 ? count(hits) + " of " + count(lookups) + " look-ups" : "nobody asked", level: lookups > 0 && hits === 0 ? "warning" : "" },
      { id: "age", label: "Age served, buyer / seller", chart: "age", value: pair(v, "age", "p50"), note: "99 of 100 below " + pair(v, "age", "p99") },
      { id: "fetches", label: "Legacy requests", chart: "fetches", value: count(fetches), note: fetches > 0 ? count(fetchesFailed) + " failed, " + share(fetchesFailed, fetches) : "none sent", level: fetches > 0 && fetchesFailed === fetches ? "bad" : "" },
      { id: "latency", label: "Legacy latency, buyer / seller", chart: "latency", value: pair(v, "fetch", "p50"), note: "99 of 100 below " + pair(v, "fetch", "p99") },
      { id: "breaker", label: "Legacy breakers", chart: "breakers", value: write("state", open < 0 ? null : open), note: "buyer " + states("buyer") + ", seller " + states("seller"), level: ["", "warning", "bad"][open] },
      { id: "redis", label: "Redis", chart: "redis", value: !known(redis) ? "not used" : ["up", "probing", "down"][redis],
        note: !known(redis) ? "lists are in this process only" : redis === 2 ? count(c["redis.skipped"]) + " calls skipped" : count(redisFailed) + " of " + count(redisFailed + c["redis.ok"]) + " calls failed; 99 of 100 below " + write("seconds", v["redis.p99"]) },
    ];
  }

  function figures(state) {
    const worst = (t) => state.incident.evidence.find((f) => f.target === t.chart)?.level ?? t.level ?? "";
    byId("figures-span").textContent = ago(state.figures.seconds);
    show(byId("tiles"), tiles(state.figures, state.point).map((t) => el("li", { class: "tile " + worst(t), "data-tile": t.id }, el("a", { href: "#chart-" + t.chart },
      el("span", { class: "label" }, t.label, worst(t) ? el("span", { class: "flag" }, words[worst(t)].toLowerCase()) : null), el("span", { class: "value" }, t.value), el("span", { class: "note" }, t.note)))));
  }

  const checks = {
    cross_read: ["No cross-read", "no record of one account in the other's list, and no 304 for its entity tag"],
    access: ["Refusals", "no key, an invented one and one of the other kind are refused"],
    contract: ["Contract", "status, headers and bodies are as documented"],
    freshness: ["Freshness", "no list is older than the configuration allows"],
    keys: ["Keys", "the canary's keys are good, and of different accounts"],
  };
  const checkLevels = { ok: "good", empty: "warning", unavailable: "warning", failed: "bad" };
  const table = (caption, head, body) => el("table", { class: "data" }, el("caption", { class: "hidden" }, caption), el("thead", null, el("tr", null, head.map((h) => el("th", { scope: "col" }, h)))), el("tbody", null, body));

  function canary(rows) {
    const kinds = [...new Set(rows.map((r) => r.kind))];
    const cell = (r) => el("td", { "data-check": r.check + "." + r.kind }, el("strong", { class: "state " + (checkLevels[r.state] ?? "") }, r.state === "empty" ? "empty list" : r.state),
      el("span", { class: "note" }, (r.t > 0 ? " " + clock(r.t) : "") + (r.failed > 0 ? ", failed " + r.failed + " times in 15 min" : "")),
      r.reasons ? el("ul", { class: "reasons" }, r.reasons.map((text) => el("li", null, text))) : null);
    if (rows.every((r) => r.state === "off")) {
      show(byId("canary-checks"), el("p", null, el("strong", { class: "state" }, "off"), " No keys are configured: ", el("code", null, "canary.buyer_keys"), ", ", el("code", null, "canary.seller_keys"), "."));
      return;
    }
    show(byId("canary-checks"), Object.assign(table("Checks of the canary by kind of list", ["Check", ...kinds.map((k) => k + " lists")], Object.entries(checks).map(([id, [label, help]]) =>
      el("tr", null, el("th", { scope: "row" }, label + " ", el("span", { class: "note" }, help)), rows.filter((r) => r.check === id).map(cell)))), { className: "data canary" }));
  }

  function accounts(list) {
    if (!byId("accounts-table")) return;
    show(byId("accounts-table"), table("Accounts by fetches", ["Account", "fetches", "at least", "share of all"], (list ?? []).length === 0 ? el("tr", null, el("td", { colspan: "4" }, "No fetch yet")) :
      list.map((a) => el("tr", null, el("th", { scope: "row" }, el("code", null, a.name)), [write("rate", a.per_second), write("rate", a.at_least), ratio(a.share)].map((t) => el("td", null, t))))));
  }

  function marks(list) {
    show(byId("marks-list"), list.length === 0 ? el("li", null, "None.") : list.slice(-12).reverse().map((m) => el("li", null, el("strong", null, clock(m.t)), " " + m.text)));
  }

  const estimate = (e, unit) => (e ? write(unit, e.value) + (e.std_err > 0 ? " ± " + write(unit, e.std_err) : "") : "not known yet");

  function outdatedText(o) {
    if (!o) return ["Served outdated: re-checks are off (", el("code", null, "cache.recheck.budget_per_second"), ")."];
    if (o.checked === 0 || !known(o.share)) return ["Served outdated: no list was re-checked in the last hour."];
    return ["Served outdated: ", el("strong", null, ratio(o.share)), " of the answers of the last hour, by " + count(o.checked) + " re-checks.", known(o.goal) ? " The goal is at most " + ratio(o.goal) + "." : null,
      known(o.goal) && o.share > o.goal ? el("span", { class: "flag" }, "over the goal") : null];
  }

  function lateText(l) {
    return ["Changed more than " + ttlName(l.after_seconds) + " before: ", el("strong", null, count(l.per_million)), " of a million answers (" + count(l.low) + " to " + count(l.high) + "). At most " + count(l.most) + " are promised.", l.low > l.most ? el("span", { class: "flag" }, "broken") : null];
  }

  function ttlCard(k, outdated) {
    const id = "title-ttl-" + k.kind.replace(/[^a-z0-9]/gi, "-"), advised = (c) => (k.advice ?? []).filter((a) => a.ttl_seconds === c.ttl_seconds).map((a) => "advised by " + a.goal + " " + a.limit + (a.provisional ? ", too early" : ""));
    const flags = (c) => [c.current ? "today" : null, ...advised(c), c.settled ? null : "short observation"].filter(Boolean).map((f) => el("span", { class: "flag" }, f));
    const legend = ["hit ratio", "legacy requests", "outdated answers"].map((label, i) => el("li", null, swatch({}, i), label));
    const rows = (k.candidates ?? []).map((c) => el("tr", { class: c.current ? "current" : null }, el("th", { scope: "row" }, ttlName(c.ttl_seconds) + " ", flags(c)),
      [estimate(c.hit_ratio, "ratio"), estimate(c.upstream_per_second, "rate"), estimate(c.mean_age_seconds, "seconds"), seconds(c.p99_age_seconds), estimate(c.outdated, "ratio")].map((t) => el("td", null, t))));
    const advice = (k.advice ?? []).length > 0 ? el("ul", null, k.advice.map((a) => el("li", null, el("strong", null, a.ttl_seconds > 0 ? ttlName(a.ttl_seconds) : "no TTL"), " by ", el("code", null, "cache.goals." + a.goal + ": " + a.limit), ": " + a.reason + ".")), k.verdict ? el("li", null, el("strong", null, "By all goals: "), k.verdict + ".") : null) :
      el("p", { class: "help" }, "No goal is set, so there is no advice: set ", el("code", null, "cache.goals.max_upstream_per_second"), " or ", el("code", null, "cache.goals.max_outdated"), ".");
    return el("section", { class: "card chart", "aria-labelledby": id }, el("h3", { id }, "TTL of " + k.kind + " lists"),
      el("div", { class: "plot", role: "img", "aria-label": "Hit ratio, requests and outdated answers of " + k.kind + " lists by TTL. The table below says the same.", "data-ttl-kind": k.kind }),
      el("p", { class: "readout", "aria-hidden": "true" }), el("ul", { class: "legend" }, legend),
      el("div", { class: "advice" }, rows.length === 0 ? el("p", null, "Nothing was looked up yet.") :
        el("p", null, "Today's TTL is ", el("strong", null, ttlName(k.ttl_seconds)), ". Observed " + seconds(k.observed_seconds) + (report?.nodes > 1 ? " of " + report.nodes + " nodes" : " of this node") + ": " + write("rate", k.lookups_per_second) + " look-ups, " + count(k.watched_keys) + " lists watched.", k.rechecks_per_second > 0 ? " Re-checks are " + write("rate", k.rechecks_per_second) + " of the requests to the legacy system." : null,
          k.regime ? " The traffic has changed at " + clock(Date.parse(k.regime.since) / 1000) + " UTC: " + k.regime.reason + "; what was counted before counts for little." : null),
        ["buyer", "seller"].includes(k.kind) ? el("p", { class: "outdated" }, outdatedText(outdated[k.kind])) : null, k.served?.late ? el("p", { class: "late" }, lateText(k.served.late)) : null, k.ttl_changes ? el("p", null, "Last change: ", changeText(k.ttl_changes.at(-1))) : null, rows.length > 0 ? advice : null),
      el("details", null, el("summary", null, "TTL of " + k.kind + " lists as a table"), el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": id },
        table("What each TTL of " + k.kind + " lists would do", ["TTL", "hit ratio", "legacy requests", "mean age", "99th percentile", "outdated"], rows))),
      k.outage ? outageTable(k.kind, k.outage, id) : null, k.ttl_changes ? changesList(k.ttl_changes) : null);
  }

  // What was said of a new TTL, and what then happened.
  function changeText(c) {
    const points = (v) => (v > 0 ? "+" : "") + v.toFixed(2), both = (f) => ratio(f.hit_ratio) + " and " + (100 * f.requests_per_lookup).toFixed(1), e = c.error;
    const off = e && Math.max(Math.abs(e.hit_ratio_points), Math.abs(e.requests_points)) > 2;
    return [ttlName(c.from_seconds) + " to " + ttlName(c.to_seconds) + ", " + new Date(c.at).toISOString().slice(0, 16).replace("T", " ") + ": ", c.predicted ? ratio(c.predicted.hit_ratio) + " hits and " + (100 * c.predicted.requests_per_lookup).toFixed(1) + " requests predicted, " : null,
      e ? [el("strong", null, both(c.measured)), " measured" + (c.simulated ? ", " + both(c.simulated) + " simulated" : "") + ": " + points(e.hit_ratio_points) + " and " + points(e.requests_points) + " points (± " + e.margin_points.toFixed(2) + "). "] :
        c.state !== "abandoned" ? c.state + " until " + clock(Date.parse(c.until) / 1000) + " at least. " : null, c.why ? "no verdict: " + c.why : e ? el("span", { class: "flag" }, off ? "off" : "right") : null].flat();
  }

  // The newest first.
  function changesList(changes) {
    return el("details", null, el("summary", null, "Predicted and measured: " + changes.length + (changes.length === 1 ? " change" : " changes") + " of the TTL"), el("p", { class: "help" }, "Hit ratio, and requests to the legacy system per 100 look-ups. Simulated are the look-ups that were measured: near to measured, the traffic is another one than before; near to predicted, the cache does what the lab does not know."),
      el("ul", { class: "advice" }, changes.slice().reverse().map((c) => el("li", null, changeText(c)))));
  }

  // What would be answered while the legacy system is away, by stale_if_error.
  function outageTable(kind, o, id) {
    const rows = o.rows.map((r) => el("tr", { class: r.current ? "current" : null }, el("th", { scope: "row" }, ttlName(r.stale_if_error_seconds), r.current ? [" ", el("span", { class: "flag" }, "today")] : null), r.answered.map((a) => el("td", null, known(a) ? ratio(a) : "–"))));
    return el("details", null, el("summary", null, "If the legacy system were away"), el("p", { class: "help" }, "Share of the look-ups that would be answered, by the length of the outage and stale_if_error. – has not been observed for as long."),
      el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": id }, table("Look-ups of " + kind + " lists answered during an outage", ["stale_if_error", ...o.for_seconds.map(ttlName)], rows)));
  }

  let drawn = [], report = null;
  // ttl shows a new report, or draws the last one again.
  function ttl(next, outdated) {
    const grid = byId("ttl-grid");
    report = next ?? report;
    if (!grid || !report) return;
    drawn.forEach((c) => c.plot.destroy());
    show(grid, report.kinds?.length > 0 ? [report.notes ? el("ul", { class: "card advice" }, report.notes.map((n) => el("li", null, n))) : null, ...report.kinds.map((k) => ttlCard(k, outdated))].filter(Boolean) : el("p", null, "There is no report yet."));
    drawn = [...grid.querySelectorAll(".plot")].flatMap((box, i) => (report.kinds[i].candidates?.length > 0 ? [overTTL(box, report.kinds[i])] : []));
  }

  // tree shows any JSON value.
  function tree(v) {
    if (v === null) return el("span", { class: "text" }, "–");
    if (typeof v !== "object") return el("span", { class: "text" }, v === true ? "yes" : v === false ? "no" : v === "" ? "(empty)" : String(v));
    const parts = Object.entries(v);
    if (parts.length === 0) return el("span", { class: "text" }, "(none)");
    return el("dl", null, parts.map(([name, part]) => el("div", { class: part && typeof part === "object" ? "group" : null }, el("dt", null, Array.isArray(v) ? String(Number(name) + 1) : name), el("dd", null, tree(part)))));
  }

  window.gateway.panels = {
    update(state) {
      incident(state.incident, state.t);
      figures(state);
      canary(state.canary);
      accounts(state.accounts);
      marks(state.marks);
    },
    lost(since) {
      incident({ level: "bad", name: "No fresh figures", text: "The console gets nothing from the gateway. What stands below is old.", since, hit: "", get: "", press: "Ask the node: `inquiry-gateway health http://HOST:9090/readyz`. No answer: read the end of its log.", chapter: "InquiryGatewayDown", evidence: [] }, Date.now() / 1000);
    },
    ttl, tree, resizeTTL: () => drawn.forEach(fit),
  };
})();
