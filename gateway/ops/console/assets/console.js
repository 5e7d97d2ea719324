// Asks for the state every few seconds, keeps the charts' history while the page is open,
// and shows what fails, the TTL report, explanations and purges.
(() => {
  "use strict";
  const { el, svg, show, table, charts, known, seconds, ratio, write, clock } = window.gateway;
  const byId = (id) => document.getElementById(id);
  const every = 5000, kept = 720; // points: an hour
  // A page that was opened with user and password in its address may not fetch relative to that.
  const address = (path) => location.origin + location.pathname.replace(/[^/]*$/, "") + path;
  const kinds = document.body.dataset.kinds.split(" "); // of the lists that there are
  for (const option of document.querySelectorAll("#explain-kind option, #purge-kind option")) if (option.value && !kinds.includes(option.value)) option.remove();

  // --- figures: sums of the selected families, and what they have grown by.

  // total adds up the series of a family whose labels match; null: there is none.
  const total = (sums, family, match) => {
    const found = Object.entries(sums?.[family] ?? {}).filter(([key]) => !match || match(key.split(" ")));
    return found.length === 0 ? null : found.reduce((n, [, s]) => n + s.v, 0);
  };
  const rate = (family, match) => (now, before, dt) => {
    const n = total(now, family, match);
    return known(n) ? Math.max(0, n - (total(before, family, match) ?? 0)) / dt : null;
  };
  const state = (family, key) => (now) => now?.[family]?.[key]?.v ?? null;
  const share = (family, part, all) => (now, before, dt) => {
    const whole = rate(family, all)(now, before, dt);
    return whole > 0 ? (rate(family, part)(now, before, dt) ?? 0) / whole : null;
  };

  // quantile is what PromQL's histogram_quantile gives for the minute: linear inside a
  // bucket, the largest bound for what lies beyond it.
  const quantile = (family, key, q) => (now, before, dt, minuteAgo) => {
    const h = now?.[family]?.[key], old = minuteAgo?.[family]?.[key];
    if (!h?.le) return null;
    const counts = h.n.map((n, i) => n - (old?.n?.[i] ?? 0)), all = h.v - (old?.v ?? 0);
    if (all <= 0) return null;
    const rank = q * all;
    let lower = 0, below = 0;
    for (let i = 0; i < counts.length; i++) {
      if (counts[i] >= rank && counts[i] > 0) return counts[i] === below ? lower : lower + ((h.le[i] - lower) * (rank - below)) / (counts[i] - below);
      [lower, below] = [h.le[i], counts[i]];
    }
    return lower;
  };

  let next = 0;
  const line = (label, of, bad) => ({ id: "l" + next++, label, of, bad });
  const has = (place, ...values) => (labels) => values.includes(labels[place]);
  const lookups = (outcome) => rate("cache_lookups_total", has(1, outcome)), fetches = (result) => rate("upstream_requests_total", has(1, result)), redis = (result) => rate("redis_operations_total", has(0, result));
  const times = (family) => kinds.flatMap((k) => [line(k + ", median", quantile(family, k, 0.5)), line(k + ", 99th percentile", quantile(family, k, 0.99))]);
  const specs = [
    { id: "traffic", title: "Answers", unit: "rate", help: "Lists per second by cache outcome, and failed answers (5xx).", lines: [
      line("hit", lookups("hit")), line("stale, refreshing", lookups("stale-revalidate")), line("waited for another's fill", lookups("collapsed")),
      line("miss", lookups("miss")), line("old after an error", lookups("stale-error")), line("failed", rate("http_requests_total", (l) => l[0].startsWith("5")), true)] },
    { id: "hits", title: "Hit ratio", unit: "ratio", help: "Share of look-ups answered at once: hits, and stale lists that are refreshed in the background.", lines: kinds.map((k) =>
      line(k, share("cache_lookups_total", (l) => l[0] === k && ["hit", "stale-revalidate"].includes(l[1]), has(0, k)))) },
    { id: "age", title: "Age served", unit: "seconds", help: "How old the lists were, counted from the legacy system's answer.", lines: times("cache_age_seconds") },
    { id: "fetches", title: "Legacy requests", unit: "rate", help: "Per second by result. Unavailable: the breaker, the bulkhead or the ceiling kept them away.", lines: [
      line("ok", fetches("ok")), line("unavailable", fetches("unavailable")), line("caller left", fetches("canceled")), line("timeout", fetches("timeout")), line("invalid answer", fetches("invalid")), line("failed", fetches("upstream"), true)] },
    { id: "breakers", title: "Breakers", unit: "state", help: "A low bar is closed, which is good; a half one half-open; a full one open.", lines: [...kinds.map((k) => line(k, state("upstream_breaker_state", k))), line("redis", state("redis_breaker_state", ""))] },
    { id: "latency", title: "Legacy latency", unit: "seconds", help: "How long requests to the legacy system took, mapping included.", lines: times("upstream_request_duration_seconds") },
    { id: "answers", title: "Answer time", unit: "seconds", help: "From a request's header to the answer's last byte.", lines: [line("median", quantile("http_request_duration_seconds", "", 0.5)), line("99th percentile", quantile("http_request_duration_seconds", "", 0.99))] },
    { id: "redis", title: "Redis calls", unit: "rate", help: "Per second by result. Skipped: the breaker in front of Redis is open.", lines: [line("ok", redis("ok")), line("skipped", redis("skipped")), line("timeout", redis("timeout")), line("error", redis("error"), true)] },
    { id: "refusals", title: "Refusals", unit: "rate", help: "Per second: requests over their account's rate or without a valid key; of these the guesses that got 429; fields the mapping refused; records of another account.", lines: [
      line("rate limited", rate("rate_limit_decisions_total", has(0, "limited"))),
      line("not authenticated", rate("auth_requests_total", (l) => l[0] !== "ok")),
      line("guesses", rate("auth_requests_total", has(0, "limited"))), line("refused by the mapping", rate("upstream_records_invalid_total")), line("foreign records", rate("upstream_foreign_records_total"), true)] },
  ];

  const history = { t: [] }, past = []; // past: the sums of the last minute
  specs.forEach((s) => s.lines.forEach((l) => { history[l.id] = []; }));

  function point(s) {
    const before = past.at(-1);
    if (before?.t === s.t) return;
    past.push(s);
    while (past.length > 13) past.shift();
    if (!before) return;
    history.t.push(s.t);
    specs.forEach((spec) => spec.lines.forEach((l) => history[l.id].push(l.of(s.sums, before.sums, s.t - before.t, past[0].sums))));
    if (history.t.length > kept) Object.values(history).forEach((values) => values.shift());
  }

  // --- what fails now.

  // rich writes a text with commands between backticks and [links](#id). A line of a command ends between its words, never
  // behind a dash of --buyer.
  const words = (command) => command.split(/( )/).map((word) => word === " " ? word : el("span", null, word));
  const rich = (text) => text.split(/(`[^`]+`|\[[^\]]+\]\(#[a-z]+\))/).map((part) => {
    const link = /^\[(.+)\]\((#.+)\)$/.exec(part);
    return part.startsWith("`") ? el("code", null, ...words(part.slice(1, -1))) : link ? el("a", { href: link[2] }, link[1]) : part;
  });
  const day = (t, now) => (now - t > 43200 ? new Date(t * 1000).toISOString().slice(0, 10) + " " : "") + clock(t);
  const row = (label, content) => (content ? el("div", null, el("dt", null, label), el("dd", null, content)) : null);

  function lineOf(l, now) {
    const what = el("dl", null, row("What", rich(l.text)), row("Whom", rich(l.hits)), row("Cause", l.cause ? l.cause + "." : null), row("Do this", l.do ? rich(l.do) : null),
      l.chapter ? row("More", el("a", { href: "console/runbook#" + l.chapter.toLowerCase() }, "Runbook: " + l.chapter)) : null);
    return el("li", { class: l.bad ? "bad" : "warning", "data-line": l.id }, el("h2", null, (l.bad ? "Problem: " : "Notice: ") + l.name),
      el("p", { class: "when" }, l.since === 0 ? "Now or in the last minute." : "Since " + day(l.since, now) + " UTC" + (now > l.since ? ", for " + seconds(now - l.since) : "") + (now - l.last > 8 ? "; the last failure was at " + day(l.last, now) : "") + "."), what);
  }

  function showLines(s) {
    const open = s.lines, bad = open.filter((l) => l.bad);
    const headline = open.length === 0 ? (s.t === 0 ? "No figures yet" : "Nothing fails") : open[0].name + (open.length > 1 ? ", and " + (open.length - 1) + " more" : "");
    byId("headline").textContent = headline;
    byId("headline").className = open.length === 0 ? "good" : bad.length > 0 ? "bad" : "warning";
    document.title = (bad.length > 0 ? "✖ " : open.length > 0 ? "▲ " : "") + headline + " – inquiry gateway";
    show(byId("lines"), open.map((l) => lineOf(l, s.now)));
  }

  // --- accounts, TTL.

  function panels(s) {
    show(byId("accounts-table"), table("Accounts by fetches", ["Account", "fetches", "share of all"], s.accounts.length === 0 ? el("tr", null, el("td", { colspan: "3" }, "No fetch yet")) :
      s.accounts.map((a) => el("tr", null, el("th", { scope: "row" }, el("code", null, a.name)), el("td", null, write("rate", a.per_second)), el("td", null, ratio(a.share))))));
  }

  // As the configuration writes a TTL: 90s, 5m, 24h.
  const ttlName = (v) => (v === 0 || v % 60 !== 0 ? v + "s" : v % 3600 === 0 ? v / 3600 + "h" : v / 60 + "m");

  // curve draws what each TTL of the report would do. The TTLs are evenly spaced, as the steps between them grow. Shares
  // have the left axis, from 0 to 1, and requests the right one.
  function curve(candidates) {
    const width = 520, height = 190, left = 44, right = 66, top = 20, bottom = 24;
    const x = (i) => left + (i * (width - left - right)) / Math.max(1, candidates.length - 1);
    const y = (share) => height - bottom - share * (height - top - bottom);
    const most = Math.max(0.1, ...candidates.map((c) => c.upstream_per_second?.value ?? 0));
    const text = (at, down, anchor, content) => svg("text", { x: at, y: down, "text-anchor": anchor }, content);
    const lines = [["do not wait", (c) => c.hit_ratio?.value], ["outdated", (c) => c.outdated?.value], ["legacy requests (right axis)", (c) => known(c.upstream_per_second) ? c.upstream_per_second.value / most : null]];
    const today = candidates.findIndex((c) => c.current), every = Math.ceil(candidates.length / 8);
    const points = (of) => candidates.map((c, i) => [x(i), of(c)]).filter(([, v]) => known(v)).map(([at, v]) => at.toFixed(1) + "," + y(v).toFixed(1)).join(" ");
    return el("figure", { class: "curve" },
      svg("svg", { viewBox: "0 0 " + width + " " + height, role: "img", "aria-label": "What each TTL would do, drawn. The table below says the same." },
        [0, 0.5, 1].map((v) => [svg("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }), text(left - 6, y(v) + 4, "end", ratio(v)), text(width - right + 6, y(v) + 4, "start", write("rate", v * most))]),
        candidates.map((c, i) => i === today || (i % every === 0 && Math.abs(i - today) > (today < 0 ? -1 : every / 2)) ? text(x(i), height - 6, "middle", ttlName(c.ttl_seconds)) : null),
        today < 0 ? null : [svg("line", { class: "today", x1: x(today), x2: x(today), y1: top, y2: height - bottom }), text(x(today), top - 6, "middle", "today")],
        lines.map(([, of], i) => svg("polyline", { class: "s" + i, points: points(of) }))),
      el("ul", { class: "legend" }, lines.map(([label], i) => el("li", null, el("span", { class: "swatch s" + i }), label))));
  }

  function ttl(report) {
    const estimate = (e, unit) => (e ? write(unit, e.value) : "not known yet");
    show(byId("ttl-tables"), (report.kinds ?? []).length === 0 ? el("p", null, "There is no report yet.") : report.kinds.map((k) => {
      const id = "title-ttl-" + k.kind.replace(/[^a-z0-9]/gi, "-");
      const rows = (k.candidates ?? []).map((c) => el("tr", { class: c.current ? "current" : null }, el("th", { scope: "row" }, ttlName(c.ttl_seconds), c.current ? " (today)" : ""),
        [estimate(c.hit_ratio, "ratio"), estimate(c.upstream_per_second, "rate"), estimate(c.mean_age_seconds, "seconds"), estimate(c.outdated, "ratio")].map((t) => el("td", null, t))));
      return el("section", { class: "card", "aria-labelledby": id, "data-ttl": k.kind }, el("h3", { id }, "TTL of " + k.kind + " lists"), el("p", null, k.summary),
        rows.length > 0 ? curve(k.candidates) : null,
        rows.length > 0 ? el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": id }, table("What each TTL of " + k.kind + " lists would do, by the look-ups of this node alone", ["TTL", "do not wait", "legacy requests", "mean age", "outdated"], rows)) : null);
    }));
  }

  // --- explain and purge.

  const alert = (title, text) => el("p", { class: "alert" }, el("strong", null, title + " "), text);
  const failed = (text) => alert("Not done.", text);
  const filled = (form) => [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== "");
  const at = (text) => text.slice(0, 19).replace("T", " ") + " UTC";

  function explanation(x) {
    const c = x.cache, k = c.key, a = x.access, r = x.rate_limit;
    const filters = [["status", k.status], ["inquiry_type", k.inquiry_type]].filter(([, v]) => v).map(([name, v]) => ", " + name + "=" + v).join("");
    const entry = c.tier ? "In " + (c.tier === "local" ? "this process" : "Redis") + ", " + c.bytes.toLocaleString("en") + " bytes. The legacy system answered at " + at(c.answered_at) + ", " + seconds(c.age_seconds) + " ago." : "In neither this process nor Redis.";
    const left = !c.tier ? "" : c.ttl_left_seconds > 0 ? " Fresh for " + seconds(c.ttl_left_seconds) + " more." : " Stale for " + seconds(-c.ttl_left_seconds) + ".";
    return [
      el("p", { class: "result" }, el("strong", null, x.prediction.http_status + (x.prediction.code ? " " + x.prediction.code : "") + ", " + x.prediction.outcome), ": " + x.prediction.text + "."),
      el("dl", null,
        row("List", "The " + k.kind + " list of " + k.account + filters + (c.derived_from ? ", selected from " + c.derived_from : "") + "."),
        a ? row("Key", a.key_id + " is " + a.verdict + (a.reason ? ": " + a.reason : "") + ". A " + a.key_kind + " key, scopes " + (a.scopes.join(" ") || "none") + ", paid access " + (a.paid_access ? "yes" : "no") + ", plan " + (a.plan || "none") + ".") : null,
        r ? row("Rate", r.per_second > 0 ? r.per_second + " per second, burst " + r.burst + ", by " + r.from + "." : "No limit.") : null,
        row("Stored", entry + left + (c.refused_entry ? " The entry in Redis was refused: " + c.refused_entry + "." : "") + (c.unconfirmed ? " A purge may have been missed, so Redis is asked before anything is served." : "")),
        row("TTL", seconds(c.ttl_seconds) + " by " + c.policy + (c.jitter_seconds > 0 ? ", less " + seconds(c.jitter_seconds) + " of jitter" : "") + ". Then served for " + seconds(c.stale_while_revalidate_seconds) + " more while it is refreshed, and for " + seconds(c.stale_if_error_seconds) + " while the legacy system fails."),
        row("Legacy", "Its breaker is " + x.upstream.breaker + "." + (c.in_flight ? " A fetch is under way." : "") + (c.failing ? " The last fetch failed." : "") + (c.retry_at ? " Not tried again before " + at(c.retry_at) + "." : "")),
        row("Redis", c.redis + "."), c.purged_at ? row("Purged", "Last at " + at(c.purged_at) + ".") : null),
      el("p", { class: "help" }, "As of " + clock(Date.now() / 1000) + " UTC."),
    ];
  }

  byId("explain").querySelector("form").addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const answer = await fetch(address("ops/explain?" + new URLSearchParams(filled(e.target))));
      show(byId("answer"), answer.ok ? explanation(await answer.json()) : failed(await answer.text()));
    } catch (error) {
      show(byId("answer"), failed(error.message));
    }
  });

  const confirm = byId("confirm");
  let purging = null;
  byId("purge").querySelector("form").addEventListener("submit", (e) => {
    e.preventDefault();
    purging = Object.fromEntries(filled(e.target).map(([name, value]) => [name + "s", [value]]));
    if (Object.keys(purging).length !== 1) {
      show(byId("purged"), failed("Choose a kind, or enter an account; not both. Nothing was purged."));
      return;
    }
    byId("confirm-title").textContent = "Purge " + (purging.accounts ? "all lists of account " + purging.accounts[0] : "all " + purging.kinds[0] + " lists") + "?";
    byId("confirm-kind").hidden = !purging.kinds;
    confirm.returnValue = "no"; // as the Escape key leaves it
    confirm.showModal();
  });
  confirm.addEventListener("close", async () => {
    if (confirm.returnValue !== "yes") return;
    try {
      const answer = await fetch(address("ops/purge"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(purging) });
      const text = await answer.text(), now = clock(Date.now() / 1000) + " UTC";
      if (answer.ok) {
        const where = JSON.parse(text).reached === "fleet" ? "Purged on all nodes at " + now + "." : "Purged on this node at " + now + ". Without Redis it reaches no other: purge the lists on each node.";
        show(byId("purged"), el("p", { class: "alert good", id: "done" }, where));
      } else {
        show(byId("purged"), text.startsWith("purged on this node only") ? alert("Not on all nodes.", text) : failed(text));
      }
    } catch (error) {
      show(byId("purged"), failed(error.message));
    }
  });

  // --- the loop.

  const drawn = charts(byId("chart-grid"), specs, history);
  drawn.build();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawn.build);
  new ResizeObserver(drawn.resize).observe(byId("chart-grid"));

  async function get(path) {
    const answer = await fetch(address(path), { cache: "no-store", signal: AbortSignal.timeout(every) });
    if (!answer.ok) throw new Error(answer.status + " " + (await answer.text()).trim());
    return answer.json();
  }

  let fresh = 0; // when the last state came
  async function poll() {
    try {
      const s = await get("console/state");
      fresh = s.t;
      showLines(s);
      panels(s);
      if (s.t > 0 && s.now - s.t > (3 * every) / 1000) throw new Error("the gateway cannot read its counters; the charts are old, incidents are shown as they are now");
      point(s);
      drawn.update();
      byId("status").textContent = "Live, " + clock(s.t) + " UTC";
      byId("status").className = "status good";
    } catch (error) {
      byId("status").textContent = "No fresh figures" + (fresh > 0 ? " since " + clock(fresh) + " UTC" : "") + ": " + error.message + ". Ask the node: inquiry-gateway health " + location.origin + "/readyz";
      byId("status").className = "status bad";
      document.title = "✖ No fresh figures – inquiry gateway";
    }
    setTimeout(poll, every);
  }
  async function pollTTL() {
    try { ttl(await get("ops/ttl")); } catch { /* the status says that nothing comes */ }
    setTimeout(pollTTL, 3 * every);
  }
  poll();
  pollTTL();
})();
