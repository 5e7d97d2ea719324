"use strict";

// All that the page does: say where it came from, and send what the form says to
// the same gateway. A key that is typed in is kept nowhere.
const byId = (id) => document.getElementById(id);
const root = new URL("..", location.href);

byId("address").textContent = root.href.replace(/\/$/, "");
byId("form").hidden = false;

// shown are the header fields that a caller may want to see.
const shown = ["age", "cache-status", "etag", "ratelimit", "retry-after", "www-authenticate", "x-request-id"];

// A filter whose words are known is a choice of them; any other is a text.
function offerWords() {
  const { dataset } = byId("list").selectedOptions[0];
  for (const name of ["status", "inquiry_type"]) {
    const words = dataset[name]?.split(" ");
    const field = document.createElement(words ? "select" : "input");
    if (words) {
      for (const word of ["", ...words]) field.add(new Option(word || "any", word));
    } else {
      field.autocomplete = "off";
    }
    field.id = name;
    byId(name).replaceWith(field);
  }
}
byId("list").addEventListener("change", offerWords);
offerWords();

byId("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const url = new URL(byId("list").value.slice(1), root);
  for (const name of ["status", "inquiry_type"]) {
    if (byId(name).value) url.searchParams.set(name, byId(name).value);
  }
  const key = byId("key").value.trim();
  byId("reply").hidden = true;
  byId("outcome").textContent = "Asking ...";
  try {
    const began = performance.now();
    const response = await fetch(url, { cache: "no-store", headers: key ? { Authorization: `Bearer ${key}` } : {} });
    const body = await response.json();
    const fields = shown.filter((name) => response.headers.has(name)).map((name) => `${name}: ${response.headers.get(name)}`);
    byId("outcome").textContent = `${response.status} in ${Math.round(performance.now() - began)} ms, ${body.data.length} records`;
    byId("reply").textContent = [...fields, "", JSON.stringify(body, null, 2)].join("\n");
    byId("reply").hidden = false;
  } catch (error) {
    byId("outcome").textContent = `No reply: ${error.message}`;
  }
});
