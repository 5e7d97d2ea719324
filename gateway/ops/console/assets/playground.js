// Tries the mapping on the reply after each edit. Nothing is kept, not in the
// browser either.
(() => {
  "use strict";
  const { el, show } = window.gateway;
  const byId = (id) => document.getElementById(id);
  const root = document.body.dataset.root;
  const pause = 300; // milliseconds without an edit
  const written = {}; // mapping by kind
  let timer = 0, running = null, kind = byId("kind").value;

  const lines = (title, list) => (list.length ? [el("h3", null, title), el("ul", null, list)] : []);
  const numbers = (list) => list.slice(0, 10).join(", ") + (list.length > 10 ? " and " + (list.length - 10) + " more" : "");
  const tell = (text) => show(byId("told"), text ? el("p", { class: "alert" }, text) : []);

  function say(level, text) {
    byId("verdict").className = "state " + level;
    if (byId("verdict").textContent !== text) byId("verdict").textContent = text;
  }

  async function post(path, body, signal) {
    const answer = await fetch(root + path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
    if (answer.status === 401) { tell("You are signed out. Copy your mapping, then sign in again on the console."); throw new Error("signed out"); }
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer.json();
  }

  // goTo puts the caret on a line of the mapping.
  function goTo(line) {
    const area = byId("mapping"), before = area.value.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    const end = area.value.indexOf("\n", before);
    area.focus();
    area.setSelectionRange(before, end < 0 ? area.value.length : end);
  }

  function mistake(p) {
    const text = (p.key ? p.key + ": " : "") + p.message;
    if (!p.line) return el("li", null, text);
    const button = el("button", { type: "button", class: "quiet", "data-line": p.line }, "line " + p.line);
    return el("li", null, button, " ", text);
  }

  function fields(record) {
    const rows = record.fields.map((f) => el("tr", null, el("th", { scope: "row" }, f.field), el("td", null, f.path), el("td", null, f.raw || "–"), el("td", { class: f.problem ? "wrong" : null }, f.problem || f.mapped || "(empty)")));
    const head = ["Field", "Path", "Raw", "Public"].map((name) => el("th", { scope: "col" }, name));
    return el("details", null, el("summary", null, "Record " + record.number + ", field by field"), el("div", { class: "scroll" }, el("table", { class: "data left" }, el("thead", null, el("tr", null, head)), el("tbody", null, rows))));
  }

  function verdict(t) {
    if (t.problems.length) return ["bad", "The mapping is refused: " + t.problems.length + (t.problems.length === 1 ? " mistake" : " mistakes")];
    if (t.refused) return ["bad", "A caller would get an error: " + t.refused];
    return ["good", t.items + (t.items === 1 ? " record" : " records") + (t.left_out ? ", " + t.left_out + " of them left out" : "") + (t.unsaved?.length ? ", " + t.unsaved.length + (t.unsaved.length === 1 ? " second call" : " second calls") + " without a saved reply" : "")];
  }

  function present(t) {
    say(...verdict(t));
    if (t.problems.length) { show(byId("result"), el("ul", null, t.problems.map(mistake))); return; }
    const served = t.list.data.length;
    const cuts = (t.removed.cuts ?? []).map((c) => el("li", null, "record " + c.record + ", " + c.field + ": " + c.before + " → " + c.after));
    const uncovered = (t.uncovered ?? []).map((u) => el("li", null, "record " + u.record + ", " + u.field + ": ", el("code", null, u.value), " " + u.why + "; see ", el("code", null, u.key)));
    const unsaved = (t.unsaved ?? []).map((asked) => el("li", null, el("code", null, asked)));
    if (unsaved.length) byId("second").open = true;
    const strangers = [["of another account", t.owner.foreign], ["without an owner", t.owner.missing]].filter(([, list]) => list.length);
    show(byId("result"), [
      lines("Refused", [
        ...strangers.map(([what, list]) => el("li", null, "records " + what + ": " + numbers(list))),
        ...t.violations.map((v) => el("li", null, "record " + v.record + " ", el("code", null, v.field), " " + v.problem)),
      ]),
      lines("Second calls without a saved reply", unsaved),
      lines("Removed from " + t.removed.texts + (t.removed.texts === 1 ? " text" : " texts"), cuts),
      lines("Looks like an internal id and stays", uncovered),
      el("h3", null, "Public records" + (served < t.items ? " (" + served + " of " + t.items + ")" : "")),
      el("pre", { id: "public" }, JSON.stringify(t.list.data, null, 2)),
      t.records.slice(0, 3).map(fields),
      lines("Left over in the reply", t.unused.map((u) => el("li", null, el("code", null, u.path), " " + (u.types ?? []).join(", ")))),
    ].flat());
  }

  async function attempt() {
    running?.abort();
    running = new AbortController();
    const body = { kind, account: byId("account").value.trim(), mapping: byId("mapping").value, reply: byId("reply").value, replies: byId("replies").value };
    if (!body.account || !body.reply.trim()) { say("", "Paste a reply and name the account."); show(byId("result"), []); return; }
    try {
      present(await post("ops/try", body, running.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      say("bad", "Not tried: " + error.message);
      show(byId("result"), []);
    }
  }

  function edited() {
    clearTimeout(timer);
    timer = setTimeout(attempt, pause);
  }

  // choose shows the mapping of a kind: as it was written here, or else as it runs.
  async function choose() {
    if (written[kind] !== undefined) written[kind] = byId("mapping").value;
    const chosen = kind = byId("kind").value;
    byId("below").textContent = chosen;
    if (written[chosen] === undefined) {
      const answer = await fetch(root + "ops/mapping?kind=" + chosen);
      written[chosen] = answer.ok ? (await answer.json()).mapping : "";
    }
    if (kind !== chosen) return; // another one was chosen meanwhile
    byId("mapping").value = written[chosen];
    edited();
  }

  for (const id of ["reply", "replies", "mapping", "account"]) byId(id).addEventListener("input", edited);
  byId("kind").addEventListener("change", choose);
  byId("file").addEventListener("change", async (e) => {
    const file = e.target.files[0];
    if (!file) return;
    byId("reply").value = await file.text();
    edited();
  });
  byId("result").addEventListener("click", (e) => { if (e.target.dataset?.line) goTo(Number(e.target.dataset.line)); });
  byId("subject").addEventListener("submit", async (e) => {
    e.preventDefault();
    tell("");
    try {
      const sample = await post("ops/sample", { kind, account: byId("account").value.trim() });
      byId("reply").value = sample.reply;
      byId("replies").value = sample.replies;
      byId("second").open = sample.replies !== "";
      edited();
    } catch (error) {
      tell("No reply was fetched: " + error.message);
    }
  });
  choose().catch((error) => tell("The running mapping is not shown: " + error.message));
})();
