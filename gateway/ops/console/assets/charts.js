// Draws the charts of the console with uPlot. It knows nothing of where the
// figures come from; console.js does.
window.consoleCharts = (() => {
  "use strict";

  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 4]]; // as .s0 to .s5 in console.css
  const height = 170;
  const history = 15 * 60;
  const states = ["closed", "half-open", "open"];
  const stateHeight = [0.12, 0.45, 0.85]; // of a lane: what is wrong is tall
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = "12px system-ui, sans-serif";

  const digits = (v) => (v === 0 ? "0" : String(Number(v.toPrecision(3))));
  const seconds = (v) => (v === 0 ? "0" : v < 0.001 ? digits(v * 1e6) + " µs" : v < 1 ? digits(v * 1e3) + " ms" : v < 120 ? digits(v) + " s" : v < 7200 ? digits(v / 60) + " min" : digits(v / 3600) + " h");
  const ttlName = (v) => (v >= 3600 ? digits(v / 3600) + "h" : v >= 60 ? digits(v / 60) + "m" : digits(v) + "s");
  const formats = {
    rate: (v) => digits(v) + "/s",
    ratio: (v) => digits(v * 100) + " %",
    seconds,
    count: digits,
    state: (v) => states[v] ?? "–",
  };
  const write = (unit, v) => (v === null || v === undefined ? "–" : formats[unit](v));
  const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);

  function axis(extra) {
    return { stroke: color("soft"), font, grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, ...extra };
  }

  // The values at the pointer go into the line below the picture.
  function readout(box, text) {
    const line = box.parentElement.querySelector(".readout");
    return (u) => { line.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? "" : text(u.cursor.idx); };
  }

  function base(box, more) {
    return { width: Math.max(box.clientWidth, 200), height, legend: { show: false }, padding: [8, 10, 0, 0], ...more };
  }

  function overTime(box, shared) {
    const unit = box.dataset.unit;
    const names = box.dataset.columns.split(" ");
    const labels = box.dataset.labels.split("|");
    const lanes = unit === "state";
    const lane = (i) => names.length - 1 - i;
    const shape = (values, i) => values.map((v) => (v === null ? null : lane(i) + stateHeight[v]));
    const data = () => [shared.t, ...names.map((n, i) => (lanes ? shape(shared[n], i) : shared[n]))];
    const range = {
      state: () => [0, names.length],
      ratio: (u, low) => [Math.min(0.9, Math.floor((low ?? 0) * 10) / 10), 1], // a drop of some percent must be seen
      count: (u, low, high) => [0, Math.max(4, (high ?? 0) * 1.1)],
      rate: (u, low, high) => [0, Math.max(0.1, (high ?? 0) * 1.1)],
      seconds: (u, low, high) => [0, Math.max(0.001, (high ?? 0) * 1.1)],
    }[unit];
    const series = names.map((n, i) => lanes
      ? { stroke: color("s" + i), fill: color("s" + i) + "55", width: 1.5, paths: uPlot.paths.stepped({ align: 1 }), fillTo: () => lane(i), points: { show: false } }
      : { stroke: color("s" + i), width: 2, dash: dashes[i], points: { show: false } });
    const y = lanes
      ? axis({ size: 60, splits: () => names.map((n, i) => lane(i) + 0.4), values: () => labels, grid: { show: false }, ticks: { show: false } })
      : axis({ size: 60, values: (u, ticks) => ticks.map((v) => write(unit, v)) });
    const plot = new uPlot(base(box, {
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: () => { const end = shared.t.at(-1) ?? Date.now() / 1000; return [end - history, end]; } }, y: { range } },
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, y: false, points: { show: false } },
      series: [{}, ...series],
      axes: [axis({ size: 30, values: (u, ticks) => ticks.map((t) => clock(t).slice(0, 5)), space: 70 }), y],
      hooks: { setCursor: [readout(box, (i) => clock(shared.t[i]) + "  " + names.map((n, c) => labels[c] + " " + write(unit, shared[n][i])).join(", "))] },
    }), data(), box);
    return { plot, box, redraw: () => plot.setData(data()) };
  }

  // A vertical line with its name, for a TTL. Lines differ in their dashes, and
  // their names stand at different heights.
  function mark(u, ttl, name, level, dash) {
    const ctx = u.ctx, x = u.valToPos(ttl, "x", true), ratio = devicePixelRatio;
    if (!(x >= u.bbox.left && x <= u.bbox.left + u.bbox.width)) return;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("text");
    ctx.lineWidth = 1.5 * ratio;
    ctx.setLineDash(dash.map((d) => d * ratio));
    ctx.beginPath();
    ctx.moveTo(x, u.bbox.top);
    ctx.lineTo(x, u.bbox.top + u.bbox.height);
    ctx.stroke();
    ctx.font = "600 " + 12 * ratio + "px system-ui, sans-serif";
    const right = x > u.bbox.left + u.bbox.width * 0.6;
    ctx.textAlign = right ? "right" : "left";
    const y = u.bbox.top + (14 + 16 * level) * ratio, at = x + (right ? -5 : 5) * ratio;
    ctx.lineWidth = 4 * ratio;
    ctx.setLineDash([]);
    ctx.strokeStyle = color("card");
    ctx.strokeText(name, at, y);
    ctx.fillText(name, at, y);
    ctx.restore();
  }

  // What each TTL would do: two shares on the left scale, fetches on the right.
  function overTTL(box, kind) {
    const c = kind.candidates;
    if (c.length === 0) return null;
    const columns = [c.map((k) => k.ttl_seconds), c.map((k) => k.hit_ratio.value), c.map((k) => k.upstream_per_second.value), c.map((k) => k.outdated?.value ?? null)];
    const marks = (u) => {
      mark(u, kind.ttl_seconds, "today " + ttlName(kind.ttl_seconds), 0, []);
      (kind.advice ?? []).filter((a) => a.ttl_seconds > 0).forEach((a, i) => mark(u, a.ttl_seconds, "advised " + ttlName(a.ttl_seconds), i + 1, [4, 4]));
    };
    const line = (i, scale) => ({ scale, stroke: color("s" + i), width: 2, dash: dashes[i], points: { show: false } });
    const plot = new uPlot(base(box, {
      height: 220,
      scales: { x: { time: false, distr: 3, range: [columns[0][0], columns[0].at(-1)] }, share: { range: [0, 1] }, fetches: { range: (u, low, high) => [0, Math.max(0.1, (high ?? 0) * 1.1)] } },
      cursor: { drag: { x: false, y: false }, y: false, points: { show: false } },
      series: [{}, line(0, "share"), line(1, "fetches"), line(2, "share")],
      axes: [
        axis({ size: 30, splits: () => [1, 5, 30, 120, 600, 3600, 21600, 86400], filter: (u, s) => s, values: (u, ticks) => ticks.map(ttlName) }),
        axis({ scale: "share", size: 50, values: (u, ticks) => ticks.map((v) => write("ratio", v)) }),
        axis({ scale: "fetches", side: 1, size: 60, grid: { show: false }, values: (u, ticks) => ticks.map((v) => write("rate", v)) }),
      ],
      hooks: {
        draw: [marks],
        setCursor: [readout(box, (i) => "TTL " + ttlName(columns[0][i]) + "  hit ratio " + write("ratio", columns[1][i]) + ", fetches " + write("rate", columns[2][i]) + ", outdated " + write("ratio", columns[3][i]))],
      },
    }), columns, box);
    return { plot, box, redraw: () => {} };
  }

  return { overTime, overTTL, clock };
})();
