// Makes elements, writes figures, and draws charts over time with uPlot. It knows nothing
// of where the figures come from.
window.gateway = (() => {
  "use strict";

  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 2], [1, 4]];
  const states = ["closed", "half-open", "open"];
  const stateHeight = [0.12, 0.45, 0.85]; // of a lane: what is wrong is tall
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const font = "12px system-ui, sans-serif";

  const known = (v) => v !== null && v !== undefined;
  const digits = (v) => (v === 0 ? "0" : Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(Number(v.toPrecision(3))));
  const seconds = (v) => (v === 0 ? "0 s" : v < 0.001 ? digits(v * 1e6) + " µs" : v < 1 ? digits(v * 1e3) + " ms" : v < 120 ? digits(v) + " s" : v < 7200 ? digits(v / 60) + " min" : digits(v / 3600) + " h");
  const ratio = (v) => (v > 0 && v < 1e-4 ? "<0.01 %" : v < 1 && v > 0.9999 ? ">99.99 %" : digits(v * 100) + " %");
  const formats = { rate: (v) => digits(v) + "/s", ratio, seconds, state: (v) => states[v] ?? "–" };
  const write = (unit, v) => (known(v) ? formats[unit](v) : "–");
  const clock = (t) => new Date(t * 1000).toISOString().slice(11, 19);

  // el makes an element. Children are elements or text; null is left out.
  const el = (tag, ...rest) => filled(document.createElement(tag), ...rest);
  const svg = (tag, ...rest) => filled(document.createElementNS("http://www.w3.org/2000/svg", tag), ...rest);

  function filled(e, attributes, ...children) {
    for (const [name, value] of Object.entries(attributes ?? {})) if (known(value) && value !== false) e.setAttribute(name, value === true ? "" : value);
    e.append(...children.flat(2).filter((c) => known(c) && c !== false));
    return e;
  }

  // show makes the content of an element that of the list, and leaves what does not
  // differ, so that focus, selection and a screen reader's place stay.
  function show(target, children) {
    morph(target, [children].flat(2).filter((c) => known(c) && c !== false).map((c) => (c instanceof Node ? c : document.createTextNode(c))));
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

  function table(caption, head, rows) {
    return el("table", { class: "data" }, el("caption", { class: "hidden" }, caption),
      el("thead", null, el("tr", null, head.map((h) => el("th", { scope: "col" }, h)))), el("tbody", null, rows));
  }

  // An axis is as wide as its widest label, so that none is cut off.
  function axis(extra) {
    const size = (u, values) => {
      if (!values) return 40;
      u.ctx.save();
      u.ctx.font = font;
      const widest = Math.max(0, ...values.filter(known).map((v) => u.ctx.measureText(v).width));
      u.ctx.restore();
      return Math.ceil(widest) + 18;
    };
    return { stroke: color("soft"), font, size, grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, ...extra };
  }

  const swatch = (l, i) => el("span", { class: "swatch " + (l.bad ? "bad" : "s" + i), "aria-hidden": "true" });

  // card makes the place of a chart: its picture, its legend with the newest figures, and
  // a table that says the same, a row per minute.
  function card(spec) {
    const title = "title-" + spec.id;
    return el("section", { class: "card chart", id: "chart-" + spec.id, "aria-labelledby": title },
      el("h3", { id: title }, spec.title), el("p", { class: "help" }, spec.help),
      el("div", { class: "plot", role: "img", "aria-label": spec.title + ", drawn over time. The table below says the same." }),
      el("p", { class: "nothing", hidden: true }, "Nothing to draw yet: the chart begins with the first traffic."),
      el("p", { class: "readout", "aria-hidden": "true" }), el("ul", { class: "legend" }),
      el("details", null, el("summary", null, spec.title + " as a table"), el("div", { class: "scroll", tabindex: "0", role: "group", "aria-labelledby": title })));
  }

  // plot draws a chart. history has the times and, by the id of a line, its values.
  function plot(box, spec, history) {
    const lanes = spec.unit === "state";
    const lane = (i) => spec.lines.length - 1 - i;
    const happened = (v, i, all) => (v > 0 || all[i - 1] > 0 || all[i + 1] > 0 ? v : null); // no thick line where nothing failed
    const data = () => [history.t, ...spec.lines.map((l, i) => {
      const values = history[l.id];
      return lanes ? values.map((v) => (known(v) ? lane(i) + stateHeight[v] : null)) : l.bad ? values.map(happened) : values;
    })];
    const least = { rate: 0.1, seconds: 0.001 };
    const range = lanes ? () => [0, spec.lines.length] : spec.unit === "ratio" ? () => [0, 1] : (u, low, high) => [0, Math.max(least[spec.unit], (high ?? 0) * 1.1)];
    const series = spec.lines.map((l, i) => lanes
      ? { stroke: color("s" + i), fill: color("s" + i) + "55", width: 1.5, paths: uPlot.paths.stepped({ align: 1 }), fillTo: () => lane(i), points: { show: false } }
      : { stroke: color(l.bad ? "bad" : "s" + i), fill: l.bad ? color("bad") + "33" : undefined, width: l.bad ? 3 : 1.5, dash: l.bad ? [] : dashes[i % dashes.length], points: { show: false } });
    const y = lanes
      ? axis({ splits: () => spec.lines.map((l, i) => lane(i) + 0.4), values: () => spec.lines.map((l) => l.label), grid: { show: false }, ticks: { show: false } })
      : axis({ values: (u, ticks) => ticks.map((v) => write(spec.unit, v)) });
    // The values at the pointer go into the line below the picture.
    const readout = (u) => {
      const i = u.cursor.idx;
      box.parentElement.querySelector(".readout").textContent = known(i) ? clock(history.t[i]) + "  " + spec.lines.map((l) => l.label + " " + write(spec.unit, history[l.id][i])).join(", ") : "";
    };
    const shown = () => { const end = history.t.at(-1) ?? Date.now() / 1000; return [Math.min(history.t[0] ?? end, end - 300), end]; };
    const chart = new uPlot({
      width: Math.max(box.clientWidth, 200), height: 170, legend: { show: false }, padding: [14, 20, 0, 0],
      tzDate: (t) => uPlot.tzDate(new Date(t * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: shown }, y: { range } },
      cursor: { sync: { key: "time" }, drag: { x: false, y: false }, y: false, points: { show: false } },
      series: [{}, ...series],
      axes: [axis({ size: 30, values: (u, ticks) => ticks.map((t) => clock(t).slice(0, 5)), space: 60 }), y],
      hooks: { setCursor: [readout] },
    }, data(), box);
    return { chart, redraw: () => chart.setData(data()) };
  }

  // charts fills a grid with all charts and gives what keeps them up to date.
  function charts(grid, specs, history) {
    const all = specs.map((spec) => {
      const box = card(spec);
      grid.append(box);
      box.querySelector("details").addEventListener("toggle", () => figures({ spec, box }));
      return { spec, box, drawn: null };
    });
    function figures({ spec, box }) {
      // Without any value a sentence stands in the place of empty axes.
      const nothing = spec.lines.every((l) => !history[l.id].some((v) => known(v) && (v > 0 || spec.unit === "state")));
      box.querySelector(".nothing").hidden = !nothing;
      for (const part of [".plot", ".readout", ".legend", "details"]) box.querySelector(part).hidden = nothing;
      show(box.querySelector(".legend"), spec.lines.map((l, i) => el("li", null, swatch(l, i), l.label + " ", el("span", { class: "figure" }, write(spec.unit, history[l.id].at(-1))))));
      if (!box.querySelector("details").open) return;
      const rows = [];
      for (let i = history.t.length - 1; i >= 0; i--) {
        if (rows.length > 0 && history.t[rows.at(-1)] - history.t[i] < 60) continue;
        rows.push(i);
      }
      show(box.querySelector(".scroll"), table(spec.title + ", a row per minute, the newest first", ["UTC", ...spec.lines.map((l) => l.label)],
        rows.map((i) => el("tr", null, el("th", { scope: "row" }, clock(history.t[i])), spec.lines.map((l) => el("td", null, write(spec.unit, history[l.id][i])))))));
    }
    return {
      build() {
        for (const c of all) {
          c.drawn?.chart.destroy();
          c.drawn = plot(c.box.querySelector(".plot"), c.spec, history);
          figures(c);
        }
      },
      update() { for (const c of all) { c.drawn.redraw(); figures(c); } },
      resize() { for (const c of all) { const box = c.box.querySelector(".plot"); if (c.drawn && box.clientWidth > 0) c.drawn.chart.setSize({ width: Math.max(box.clientWidth, 200), height: 170 }); } },
    };
  }

  return { el, svg, show, table, charts, known, digits, seconds, ratio, write, clock };
})();
