"use strict";
// What tools and requests say is data from strangers: it reaches the page by textContent alone.

const byId = (id) => document.getElementById(id);
const FIELDS = ["q", "k", "retriever", "beside", "source", "kind", "tag"];
const ANY = { retriever: "the best", beside: "none", source: "all", kind: "all", tag: "all" };
const PAUSE = 250;

let about = { retrievers: [], facets: {}, logs: false };
let asked = 0;
let openKeyDialog = null;

function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") element.textContent = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// Requests to the server

async function fetchJson(path, parameters = {}, body = null) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== ""));
  const address = query.size ? `${path}?${query}` : path;
  for (;;) {
    const headers = {};
    const key = sessionStorage.getItem("toolbank-key");
    if (key) headers.Authorization = `Bearer ${key}`;
    if (body) headers["Content-Type"] = "application/json";
    const answer = await fetch(address, {
      headers, method: body ? "POST" : "GET", body: body && JSON.stringify(body),
    });
    if (answer.status === 401) {
      sessionStorage.removeItem("toolbank-key");
      await askForKey();
      continue;
    }
    const content = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(content.error?.message ?? `The server answered ${answer.status}.`);
    return content;
  }
}

function askForKey() {
  openKeyDialog ??= new Promise((resolve, reject) => {
    const dialog = byId("key");
    dialog.returnValue = "";
    dialog.addEventListener("close", () => {
      const secret = byId("secret").value.trim();
      byId("secret").value = "";
      openKeyDialog = null;
      if (dialog.returnValue !== "given") {
        reject(new Error("Nothing is shown without the key. Search again to give it."));
        return;
      }
      sessionStorage.setItem("toolbank-key", secret);
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return openKeyDialog;
}

// What is asked, in the address

function readState() {
  const state = new URLSearchParams(location.search);
  return Object.fromEntries(FIELDS.map((name) => [name, state.get(name) ?? (name === "k" ? "5" : "")]));
}

function fillFields(state) {
  for (const name of FIELDS) byId(name).value = state[name];
  tellOptions();
}

function readFields() {
  return Object.fromEntries(FIELDS.map((name) => [name, byId(name).value.trim()]));
}

function writeState(state, replace) {
  const said = FIELDS.filter((name) => state[name] && !(name === "k" && state.k === "5"));
  const query = new URLSearchParams(said.map((name) => [name, state[name]]));
  const address = query.size ? `?${query}` : location.pathname;
  if (replace) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  document.title = state.q ? `${state.q} – find a tool` : "Find a tool";
}

function tellOptions() {
  const chosen = FIELDS.slice(2).map((name) => byId(name).value).filter(Boolean);
  byId("chosen").textContent = chosen.length ? `(${chosen.join(", ")})` : "";
}

// Searching

async function search(state) {
  const number = ++asked;
  byId("near").hidden = true;
  if (!state.q) {
    byId("found").replaceChildren();
    say(`${about.tools?.toLocaleString() ?? "The"} tools. Say what you want to do, or give a tool's exact name.`);
    return;
  }
  say("Searching…");
  if (!about.version) return start();
  const { q, k, source, kind, tag, retriever, beside } = state;
  const ask = (by) => fetchJson("search", { q, k, source, kind, tag, retriever: by });
  try {
    const sides = beside ? [retriever, beside] : [retriever];
    const [near, ...answers] = await Promise.all([
      fetchJson("nearest", { q }).catch(() => ({ requests: [] })), ...sides.map(ask),
    ]);
    if (number !== asked) return;
    showAnswers(sides, answers);
    showNear(near.requests ?? []);
  } catch (error) {
    if (number === asked) {
      byId("found").replaceChildren();
      say(error.message);
    }
  }
}

function say(text, ...more) {
  byId("said").replaceChildren(text, ...more);
}

function showAnswers(sides, answers) {
  const found = byId("found");
  found.className = answers.length > 1 ? "two" : "";
  found.replaceChildren(...answers.map((answer, side) => {
    const place = make("section", { class: "hits" });
    const by = sides[side] || about.retrievers[0] || "";
    const note = (text) => place.append(make("p", { class: "note", text }));
    const means = answer.calibrated !== false;
    if (answers.length > 1) place.append(make("h2", { text: by }));
    if (!means && answer.hits.length) note(`Bars only rank these hits${about.uncalibrated?.[by] ? `, because ${about.uncalibrated[by]}` : ""}.`);
    if (answers.length > 1 && describeFit(answer)) note(describeFit(answer));
    place.append(make("ol", {}, ...answer.hits.map((hit, rank) => showHit(hit, rank, answer, means))));
    return place;
  }));
  say(answers.length > 1 ? "" : describeFit(answers[0]));
}

function describeFit(answer) {
  if (!answer.hits.length) return "No tool is found. Say it in other words.";
  return answer.fits === false ? "Probably none of these tools does that. Say it in other words." : "";
}

function showHit(hit, rank, answer, means) {
  const share = Math.round(hit.score * 100);
  const meter = make("meter", { min: 0, max: 1, "aria-label": means ? `${share} percent likely` : "its place among the hits" });
  meter.value = hit.score;
  const more = make("div", { class: "more" });
  more.hidden = true;
  const button = make("button", { type: "button", "aria-expanded": "false" },
    make("span", { class: "name", text: hit.name }),
    make("span", { class: "share", text: means ? `${share} %` : "", title: "How likely the tool is needed" }),
    meter,
    make("span", { class: "summary", text: hit.summary }));
  button.addEventListener("click", async () => {
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
    if (more.hidden || more.childElementCount) return;
    if (about.logs) fetchJson("feedback", {}, { search: answer.id, tool: hit.name }).catch(() => {});
    try {
      const tool = await fetchJson(`tools/${encodeURIComponent(hit.name)}`);
      more.replaceChildren(...showTool(tool));
    } catch (error) {
      more.replaceChildren(make("p", { class: "note", text: error.message }));
    }
  });
  return make("li", { class: "hit", "data-rank": rank }, button, more);
}

function showTool(tool) {
  const parts = [];
  const part = (title, ...content) => parts.push(make("h3", { text: title }), ...content);
  if (tool.deprecated) part("Deprecated", make("p", { class: "text", text: tool.deprecated }));
  if (tool.description) part("Description", make("p", { class: "text", text: tool.description }));
  if (tool.signature) part("Signature", make("pre", { text: tool.signature }));
  const labels = [tool.kind, tool.source, ...(tool.tags ?? []), ...(tool.aliases ?? []).map((name) => `also ${name}`)];
  parts.push(make("p", { class: "labels", text: labels.filter(Boolean).join(" · ") }));
  if (/^https?:\/\//i.test(tool.url ?? "")) {
    parts.push(make("p", {}, make("a", { href: tool.url, rel: "noreferrer noopener", target: "_blank", text: tool.url })));
  }
  const block = JSON.stringify(tool.function ?? tool.parameters, null, 2);
  const copy = make("button", { type: "button", class: "copy", text: "Copy" });
  copy.addEventListener("click", () => copyText(block, copy));
  parts.push(make("div", { class: "head" }, make("h3", { text: "For function calling" }), copy), make("pre", { text: block }));
  return parts;
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Can’t copy here";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

function showNear(requests) {
  byId("near").hidden = !requests.length;
  byId("near").querySelector("ul").replaceChildren(...requests.map((near) => make("li", {},
    make("div", { text: near.query }), make("div", { class: "labels", text: near.tools.join(", ") }))));
}

// Keys

function move(step) {
  const hits = [...document.querySelectorAll(".hit > button")];
  const at = hits.indexOf(document.activeElement?.closest(".hit")?.querySelector("button"));
  if (at < 0 && step < 0) return;
  if (at === 0 && step < 0) byId("q").focus();
  else hits[Math.min(at + step, hits.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("key").open) return;
  const typing = event.target.matches("input, select");
  if (event.key === "/" && !typing) byId("q").focus();
  else if (event.key === "ArrowDown" && (!typing || event.target.id === "q")) move(1);
  else if (event.key === "ArrowUp" && !typing) move(-1);
  else if (event.key === "c" && !typing) document.activeElement?.closest(".hit")?.querySelector(".copy")?.click();
  else return;
  event.preventDefault();
});

// The start

let pause = 0;

function ask(replace) {
  clearTimeout(pause);
  tellOptions();
  const state = readFields();
  writeState(state, replace);
  search(state);
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  ask(false);
});
byId("q").addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => ask(true), PAUSE);
});
byId("options").addEventListener("change", () => ask(true));
window.addEventListener("popstate", () => {
  const state = readState();
  fillFields(state);
  search(state);
});

function fillChoices(name, values) {
  const choices = values.map((value) => make("option", { value, text: value || "(none)" }));
  byId(name).replaceChildren(make("option", { value: "", text: ANY[name] }), ...choices);
  byId(name).parentElement.hidden = values.length < 2;
}

async function start() {
  byId("q").value ||= readState().q;
  try {
    about = await fetchJson("facets");
  } catch (error) {
    say(error.message);
    return;
  }
  for (const name of ["retriever", "beside"]) fillChoices(name, about.retrievers);
  for (const name of ["source", "kind", "tag"]) fillChoices(name, about.facets[name].filter(Boolean));
  byId("about").textContent = `${about.tools.toLocaleString()} tools · version ${about.version}`;
  byId("pinned").hidden = !about.pinned.length;
  byId("pinned").querySelector("ul").replaceChildren(...about.pinned.map((tool) => make("li", {},
    make("div", { class: "name", text: tool.name }), make("div", { text: tool.summary }))));
  // Somebody may have typed meanwhile.
  const state = { ...readState(), q: byId("q").value };
  fillFields(state);
  if (FIELDS.slice(2).some((name) => state[name])) byId("options").open = true;
  search(state);
}

start();
