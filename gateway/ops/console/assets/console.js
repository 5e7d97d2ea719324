// Keeps the page live: the charts' history and the changed parts of the page
// come as server-sent events, the what-if report when it is asked for.
(() => {
  "use strict";
  const kept = 15 * 60 + 1;
  const { overTime, overTTL, clock } = window.consoleCharts;
  const status = document.getElementById("status");
  const clockText = document.getElementById("clock");
  const pause = document.getElementById("pause");
  const timeBoxes = [...document.querySelectorAll(".plot[data-columns]")];
  const ttlBoxes = [...document.querySelectorAll(".plot[data-ttl-kind]")];

  let shared = null; // the history by column, as drawn
  let charts = [];
  let ttlCharts = [];
  let report = null;
  let paused = false;
  let lastEvent = 0;

  // Changes what differs and leaves the rest, so that focus, selection and a
  // screen reader's place stay.
  function morph(from, to) {
    const old = [...from.childNodes], next = [...to.childNodes];
    next.forEach((n, i) => {
      const o = old[i];
      if (!o) { from.append(n); return; }
      if (o.nodeName !== n.nodeName) { o.replaceWith(n); return; }
      if (o.nodeType === Node.TEXT_NODE) { if (o.data !== n.data) o.data = n.data; return; }
      for (const a of [...o.attributes]) if (!n.hasAttribute(a.name)) o.removeAttribute(a.name);
      for (const a of n.attributes) if (o.getAttribute(a.name) !== a.value) o.setAttribute(a.name, a.value);
      morph(o, n);
    });
    old.slice(next.length).forEach((o) => o.remove());
  }

  function show(parts) {
    for (const [id, html] of Object.entries(parts)) {
      const target = document.getElementById(id);
      const holder = document.createElement("template");
      holder.innerHTML = html;
      if (target) morph(target, holder.content);
    }
  }

  function build() {
    charts.forEach((c) => c.plot.destroy());
    charts = shared ? timeBoxes.map((box) => overTime(box, shared)) : [];
    ttlCharts.forEach((c) => c.plot.destroy());
    ttlCharts = [];
    for (const box of ttlBoxes) {
      const kind = report?.kinds?.find((k) => k.kind === box.dataset.ttlKind);
      const chart = kind?.candidates && overTTL(box, kind);
      if (chart) ttlCharts.push(chart);
    }
  }

  function say(text, state) {
    if (status.textContent !== text) status.textContent = text;
    status.className = "status " + state;
    document.body.classList.toggle("lost", state === "lost");
  }

  function beat() {
    lastEvent = Date.now();
    if (!paused) say("Live", "on");
  }

  let waiting = null; // what came while the page was paused

  function connect() {
    const source = new EventSource(document.body.dataset.stream);
    source.addEventListener("history", (e) => {
      shared = JSON.parse(e.data);
      beat();
      if (!paused) build();
    });
    source.addEventListener("point", (e) => {
      const point = JSON.parse(e.data);
      if (!shared || point === null || point.t <= (shared.t.at(-1) ?? 0)) return;
      for (const name of Object.keys(shared)) {
        shared[name].push(point[name] ?? null);
        if (shared[name].length > kept) shared[name].shift();
      }
      beat();
      if (paused) return;
      clockText.textContent = clock(point.t) + " UTC";
      charts.forEach((c) => c.redraw());
    });
    source.addEventListener("parts", (e) => {
      const parts = JSON.parse(e.data);
      if (paused) waiting = { ...waiting, ...parts };
      else show(parts);
    });
    source.addEventListener("error", () => {
      if (source.readyState !== EventSource.CLOSED) return;
      setTimeout(connect, 5000); // refused: the browser does not try again by itself
    });
  }

  async function refreshTTL() {
    if (paused) return;
    try {
      const answer = await fetch(document.body.dataset.ttl);
      if (!answer.ok) return;
      const body = await answer.json();
      report = body.report;
      show(body.parts);
      build();
    } catch {
      // The status says that the connection is lost.
    }
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) { say("Paused", ""); return; }
    beat();
    if (waiting) show(waiting);
    waiting = null;
    build();
  });
  setInterval(() => {
    if (!paused && Date.now() - lastEvent > 5000) say("Connection lost; figures are old", "lost");
  }, 1000);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
  const sizes = new ResizeObserver(() => {
    for (const { plot, box } of [...charts, ...ttlCharts]) {
      if (box.clientWidth > 0 && box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height: plot.height });
    }
  });
  document.querySelectorAll(".grid").forEach((g) => sizes.observe(g));

  lastEvent = Date.now();
  connect();
  if (document.body.dataset.ttl) {
    refreshTTL();
    setInterval(refreshTTL, 15000);
  }
})();
