// Writes figures and draws charts with uPlot. It knows nothing of where the
// figures come from.
window.gateway = (() => {
  "use strict";

  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 4]];
  const height = 170;
  const states = ["closed", "half-open", "open"];
  const stateHeight = [0.12, 0.45, 0.85]; // of a lane: what is wrong is tall
  const markLetters = { reload: "R", purge: "P", hint: "H", breaker: "B" };
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const fontOf = (pixels, weight) => weight + " " + pixels + "px system-ui, sans-serif";

  const known = (v) => v !== null && v !== undefined;
  const digits = (v) => (v === 0 ? "0" : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(3))));
  const count = (v) => Math.round(v).toLocaleString("en");
  const seconds = (v) => (v === 0 ? "0 s" : v < 0.001 ? digits(v * 1e6) + " µs" : v < 1 ? digits(v * 1e3) + " ms" : v < 120 ? digits(v) + " s" : v < 7200 ? digits(v / 60) + " min" : digits(v / 3600) + " h");
  const ratio = (v) => (v > 0 && v < 1e-4 ? "<0.01 %" : v < 1 && v > 0.9999 ? ">99.99 %" : digits(v * 100) + " %");
  // As the configuration writes a TTL: 90s, 5m, 24h.
  const ttlName = (v) => (v === 0 || v % 60 !== 0 ? v + "s" : v % 3600 === 0 ? v / 3600 + "h" : v / 60 + "m");
  const formats = { rate: (v) => digits(v) + "/s", ratio, seconds, count: digits, state: (v) => states[v] ?? "–" };
  const write = (unit, v) => (known(v) ? formats[unit](v) : "–");
  const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);

  // el makes an element. Children are elements or text; null is left out.
  function el(tag, attributes, ...children) {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes ?? {})) if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
    e.append(...children.flat().filter((c) => c !== null && c !== undefined));
    return e;
  }

  // show makes the content of an element that of the list, and leaves what does
  // not differ, so that focus, selection and a screen reader's place stay.
  function show(target, children) {
    const next = [children].flat().filter((c) => c !== null && c !== undefined).map((c) => (c instanceof Node ? c : document.createTextNode(c)));
    morph(target, next);
  }

  function morph(from, next) {
    const old = [...from.childNodes];
    next.forEach((n, i) => {
      const o = old[i];
      if (!o) { from.append(n); return; }
      if (o.nodeName !== n.nodeName) { o.replaceWith(n); return; }
      if (o.nodeType === Node.TEXT_NODE) { if (o.data !== n.data) o.data = n.data; return; }
      for (const a of [...o.attributes]) if (!n.hasAttribute(a.name) && a.name !== "open") o.removeAttribute(a.name);
      for (const a of n.attributes) if (o.getAttribute(a.name) !== a.value) o.setAttribute(a.name, a.value);
      morph(o, [...n.childNodes]);
    });
    old.slice(next.length).forEach((o) => o.remove());
  }

  // An axis is as wide as its widest label, so that none is cut off.
  function axis(extra) {
    const size = (u, values) => {
      if (!values) return 40;
      u.ctx.save();
      u.ctx.font = fontOf(12, "");
      const widest = Math.max(0, ...values.filter(known).map((v) => u.ctx.measureText(v).width));
      u.ctx.restore();
      return Math.ceil(widest) + 18;
    };
    return { stroke: color("soft"), font: fontOf(12, ""), size, grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, ...extra };
  }

  // The values at the pointer go into the line below the picture.
  function readout(box, text) {
    const line = box.parentElement.querySelector(".readout");
    return (u) => { line.textContent = known(u.cursor.idx) ? text(u.cursor.idx, u) : ""; };
  }

  function base(box, more) {
    return { width: Math.max(box.clientWidth, 200), height, legend: { show: false }, padding: [14, 20, 0, 0], ...more };
  }

  function vertical(u, at, style, name, level) {
    const ctx = u.ctx, x = u.valToPos(at, "x", true), dpr = devicePixelRatio;
    if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color(style.color);
    ctx.lineWidth = style.width * dpr;
    ctx.setLineDash(style.dash.map((d) => d * dpr));
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = fontOf(style.font * dpr, "600");
    const right = x > u.bbox.left + u.bbox.width * 0.6;
    ctx.textAlign = style.above ? "center" : right ? "right" : "left";
    const y = style.above ? u.bbox.top - 3 * dpr : u.bbox.top + (14 + 16 * level) * dpr, left = style.above ? x : x + (right ? -5 : 5) * dpr;
    ctx.lineWidth = 4 * dpr;
    ctx.strokeStyle = color("card");
    ctx.strokeText(name, left, y);
    ctx.fillText(name, left, y);
    ctx.restore();
  }

  // The mark at the pointer, if there is one within four pixels.
  const markAt = (u, t, marks) => marks.filter((m) => Math.abs(u.valToPos(m.t, "x") - u.valToPos(t, "x")) < 4).map((m) => ". " + clock(m.t) + " " + m.text).join("");

  // Draws a chart over time. view has the history, the marks and the time shown.
  function overTime(box, spec, view) {
    const lanes = spec.unit === "state";
    const lane = (i) => spec.lines.length - 1 - i;
    const values = (i) => view.history[spec.lines[i].id] ?? [];
    const happened = (v, i, all) => (v > 0 || all[i - 1] > 0 || all[i + 1] > 0 ? v : null); // no thick line where nothing failed
    const data = () => [view.history.t, ...spec.lines.map((l, i) => (lanes ? values(i).map((v) => (known(v) ? lane(i) + stateHeight[v] : null)) : spec.lines[i].bad ? values(i).map(happened) : values(i)))];
    const least = { count: 4, rate: 0.1, seconds: 0.001 };
    const range = lanes ? () => [0, spec.lines.length] : spec.unit === "ratio" ? () => [0, 1] : (u, low, high) => [0, Math.max(least[spec.unit], (high ?? 0) * 1.1)];
    const series = spec.lines.map((l, i) => lanes
      ? { stroke: color("s" + i), fill: color("s" + i) + "55", width: 1.5, paths: uPlot.paths.stepped({ align: 1 }), fillTo: () => lane(i), points: { show: false } }
      : { stroke: color(l.bad ? "bad" : "s" + i), fill: l.bad ? color("bad") + "33" : undefined, width: l.bad ? 3 : 1.5, dash: l.bad ? [] : dashes[i % dashes.length], points: { show: false } });
    const y = lanes
      ? axis({ splits: () => spec.lines.map((l, i) => lane(i) + 0.4), values: () => spec.lines.map((l) => l.label), grid: { show: false }, ticks: { show: false } })
      : axis({ values: (u, ticks) => ticks.map((v) => write(spec.unit, v)) });
    const text = (i, u) => clock(view.history.t[i]) + "  " + spec.lines.map((l, c) => l.label + " " + write(spec.unit, values(c)[i])).join(", ") + markAt(u, view.history.t[i], view.marks);
    const shown = () => {
      const end = view.history.t.at(-1) ?? Date.now() / 1000;
      return [Math.max(end - view.span, Math.min(view.history.t[0] ?? end, end - 600)), end];
    };
    const marks = (u) => view.marks.forEach((m) => vertical(u, m.t, { color: "text", width: 1, dash: [3, 3], font: 11, above: true }, markLetters[m.kind], 0));
    const plot = new uPlot(base(box, {
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: shown }, y: { range } },
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, y: false, points: { show: false } },
      series: [{}, ...series],
      axes: [axis({ size: 30, values: (u, ticks) => ticks.map((t) => clock(t).slice(0, 5)), space: 60 }), y],
      hooks: { draw: [marks], setCursor: [readout(box, text)] },
    }), data(), box);
    return { plot, box, redraw: () => plot.setData(data()) };
  }

  // What each TTL would do: two shares on the left scale, requests on the right.
  function overTTL(box, kind) {
    const c = kind.candidates;
    const columns = [c.map((k) => k.ttl_seconds), c.map((k) => k.hit_ratio.value), c.map((k) => k.upstream_per_second.value), c.map((k) => k.outdated?.value ?? null)];
    const marks = (u) => {
      const style = (dash) => ({ color: "text", width: 1.5, dash, font: 12 });
      vertical(u, kind.ttl_seconds, style([]), "today " + ttlName(kind.ttl_seconds), 0);
      (kind.advice ?? []).filter((a) => a.ttl_seconds > 0).forEach((a, i) => vertical(u, a.ttl_seconds, style([4, 4]), "advised " + ttlName(a.ttl_seconds), i + 1));
    };
    const line = (i, scale) => ({ scale, stroke: color("s" + i), width: 2, dash: dashes[i], points: { show: false } });
    const plot = new uPlot(base(box, {
      height: 220,
      scales: { x: { time: false, distr: 3, range: [columns[0][0], columns[0].at(-1)] }, share: { range: [0, 1] }, fetches: { range: (u, low, high) => [0, Math.max(0.1, (high ?? 0) * 1.1)] } },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      series: [{}, line(0, "share"), line(1, "fetches"), line(2, "share")],
      axes: [
        axis({ size: 30, splits: () => [1, 5, 30, 120, 600, 3600, 21600, 86400], filter: (u, s) => s, values: (u, ticks) => ticks.map(ttlName) }),
        axis({ scale: "share", values: (u, ticks) => ticks.map((v) => write("ratio", v)) }),
        axis({ scale: "fetches", side: 1, grid: { show: false }, values: (u, ticks) => ticks.map((v) => write("rate", v)) }),
      ],
      hooks: {
        draw: [marks],
        setCursor: [readout(box, (i) => "TTL " + ttlName(columns[0][i]) + "  hit ratio " + write("ratio", columns[1][i]) + ", requests " + write("rate", columns[2][i]) + ", outdated " + write("ratio", columns[3][i]))],
      },
    }), columns, box);
    return { plot, box };
  }

  return { el, show, write, count, seconds, ratio, ttlName, clock, known, overTime, overTTL };
})();
