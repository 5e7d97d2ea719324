// Keeps the page live: all data comes from console/data, then one state after
// another from console/state. Explanations, purges and the TTL report are of /ops.
(() => {
  "use strict";
  const { el, show, clock, panels, charts: makeCharts } = window.gateway;
  const byId = (id) => document.getElementById(id);
  const kept = 3600; // seconds
  const lostAfter = 6500; // milliseconds without a new state, of which there is one every 2 seconds
  const maxGap = 7; // seconds between two states of the history

  const view = { history: { t: [] }, marks: [], span: kept };
  const charts = makeCharts(byId("chart-grid"), view);
  let state = null, paused = false, lastEvent = Date.now(), lost = false;

  function say(text, kind) {
    if (byId("status").textContent !== text) byId("status").textContent = text;
    byId("status").className = "status " + kind;
    document.body.classList.toggle("lost", kind === "lost");
  }

  function draw() {
    if (!state || paused) return;
    view.marks = state.marks ?? [];
    if (state.t === 0) { show(byId("headline"), state.incident.name); return; }
    byId("clock").textContent = clock(state.t) + " UTC";
    charts.update(state);
    panels.update(state);
  }

  function take(next) {
    if (state && next.t < state.t) return;
    if (next.t > (state?.t ?? 0)) {
      lastEvent = Date.now();
      lost = false;
      if (!paused) say("Live", "on");
    }
    if (next.t > (view.history.t.at(-1) ?? 0)) {
      view.history.t.push(next.t);
      for (const [name, value] of Object.entries(next.point)) (view.history[name] ??= []).push(value);
      while (view.history.t[0] < next.t - kept) for (const column of Object.values(view.history)) column.shift();
    }
    state = next;
    draw();
  }

  async function load() {
    const answer = await fetch("console/data");
    if (answer.status === 401) { location.reload(); return; } // the session has ended
    if (!answer.ok) return;
    const all = await answer.json();
    view.history = all.history;
    view.marks = all.state.marks ?? [];
    charts.build();
    take(all.state);
  }

  // poll asks for the newest state. After a gap, as a hidden page has them, it asks
  // for all the history again.
  async function poll() {
    const answer = await fetch("console/state");
    if (answer.status === 401) { location.reload(); return; } // the session has ended
    if (!answer.ok) return;
    const next = await answer.json();
    if (next.t - (view.history.t.at(-1) ?? 0) > maxGap) await load();
    else take(next);
  }

  async function pollTTL() {
    if (!byId("ttl-grid") || !state || paused) return;
    const answer = await fetch("ops/ttl");
    if (answer.ok) panels.ttl(await answer.json(), state.outdated);
  }

  // every runs a poll now and then again after each pause. The status says that the
  // connection is lost where it fails.
  const every = (milliseconds, run) => run().catch(() => {}).then(() => setTimeout(every, milliseconds, milliseconds, run));

  byId("pause").addEventListener("click", () => {
    paused = !paused;
    byId("pause").setAttribute("aria-pressed", String(paused));
    byId("pause").textContent = paused ? "Resume" : "Pause";
    if (paused) say("Paused", "");
    else if (!lost) say("Live", "on");
    draw();
  });
  byId("spans").addEventListener("click", (e) => {
    const span = Number(e.target.dataset?.span);
    if (!span) return;
    view.span = span;
    byId("spans").querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === e.target)));
    if (state) charts.build();
    draw();
  });
  setInterval(() => {
    if (paused || Date.now() - lastEvent < lostAfter) return;
    say("Connection lost; figures are old", "lost");
    if (!lost) panels.lost(state?.t);
    lost = true;
  }, 1000);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    if (!state) return;
    charts.build();
    panels.ttl(null, state.outdated);
    draw();
  });
  const sizes = new ResizeObserver(() => { charts.resize(); panels.resizeTTL(); });
  document.querySelectorAll(".grid").forEach((g) => sizes.observe(g));

  const filled = (form) => [...new FormData(form)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value !== "");
  const failed = (text) => el("p", { class: "alert" }, el("strong", null, "Not done. "), text);

  byId("explain").querySelector("form").addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const answer = await fetch("ops/explain?" + new URLSearchParams(filled(e.target)));
      show(byId("answer"), answer.ok ? panels.tree(await answer.json()) : failed(await answer.text()));
    } catch (error) {
      show(byId("answer"), failed(error.message));
    }
  });

  const confirm = byId("confirm");
  let purging = null;
  byId("purge").querySelector("form").addEventListener("submit", (e) => {
    e.preventDefault();
    purging = Object.fromEntries(filled(e.target));
    if (Object.keys(purging).length !== 1) {
      show(byId("purged"), failed("Choose a kind, or enter an account; not both. Nothing was purged."));
      return;
    }
    const what = purging.account ? "all lists of account " + purging.account : "all " + purging.kind + " lists";
    byId("confirm-title").textContent = "Purge " + what + "?";
    byId("confirm-kind").hidden = !purging.kind;
    confirm.returnValue = "no"; // as the Escape key leaves it
    confirm.showModal();
  });
  confirm.addEventListener("close", async () => {
    if (confirm.returnValue !== "yes") return;
    try {
      const answer = await fetch("ops/purge", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(purging) });
      const text = await answer.text();
      show(byId("purged"), answer.ok ? el("p", { class: "alert good" }, "Purged. The new epoch is ", el("strong", { id: "epoch" }, String(JSON.parse(text).epoch)), ".") : failed(text));
    } catch (error) {
      show(byId("purged"), failed(error.message));
    }
  });

  load().catch(() => {}).then(() => {
    every(2000, poll);
    every(16000, pollTTL);
  });
})();
