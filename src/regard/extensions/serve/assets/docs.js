/* The description of the API for a browser, made from openapi.json; it loads nothing from other hosts. */
import { make } from "./weave.js";

const $ = (name) => document.getElementById(name);
const nameOf = (reference) => reference.split("/").pop();
/** Return the address of an operation; a proxy may serve the server under a path prefix. */
const addressOf = (path) => new URL(path.slice(1), location.href).href;
let schemas = {};

/** Return a description; text between backquotes becomes code. */
const described = (text) => (text || "").split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

/** Return the type of a schema in words; the name of another schema is a link. */
function typeOf(schema) {
  if (schema.$ref) return [make("a", { href: `#schema-${nameOf(schema.$ref)}` }, nameOf(schema.$ref))];
  if (schema.enum) return [schema.enum.map((one) => JSON.stringify(one)).join(" | ")];
  if (schema.anyOf) return schema.anyOf.flatMap((one, i) => [...(i ? [" | "] : []), ...typeOf(one)]);
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items || {})];
  if (schema.type === "object" && schema.additionalProperties) return ["object of ", ...typeOf(schema.additionalProperties)];
  return [schema.type || "any"];
}

/** Return the limits of a value in words. */
function limitsOf(schema) {
  const own = (schema.anyOf || []).find((one) => one.type !== "null") || schema;
  const names = { minimum: "at least", maximum: "at most", maxLength: "characters: at most", maxItems: "entries: at most" };
  return Object.entries(names).filter(([key]) => own[key] !== undefined).map(([key, words]) => `${words} ${own[key].toLocaleString("en")}`).join(", ");
}

/** Return the fields of a schema as a table that scrolls in its own box. */
function fields(schema) {
  const rows = Object.entries(schema.properties || {}).map(([name, one]) => {
    const required = (schema.required || []).includes(name);
    const value = one.default !== undefined ? JSON.stringify(one.default) : required ? "required" : "optional";
    const limits = limitsOf(one);
    return make("tr", {}, make("th", { scope: "row" }, make("code", {}, name)), make("td", {}, ...typeOf(one)),
      make("td", {}, value), make("td", { class: "wide" }, ...described([one.description, limits && `(${limits})`].filter(Boolean).join(" "))));
  });
  const head = [["field", "Name of the field in JSON"], ["type", "Type of the value"],
    ["default", "Value that is used if the field is missing"], ["meaning", "Meaning and limits of the value"]];
  return regardScroll.watch(make("div", { class: "scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...head.map(([name, tip]) => make("th", { scope: "col", title: tip }, name)))), make("tbody", {}, ...rows))));
}

const bodyOf = (operation) => operation.requestBody?.content["application/json"]?.schema;

/** Return the command for a request. */
function curl(path, method, body) {
  const address = addressOf(path);
  if (method !== "post") return `curl ${address}`;
  // In a shell, a quotation mark within quotation marks is written as '\''.
  return `curl ${address} -H 'Content-Type: application/json' -d '${body.replace(/'/g, "'\\''")}'`;
}

/** Return a form that sends a request and shows the answer. */
function trial(path, method, example) {
  const input = method === "post" ? make("textarea", { class: "body", spellcheck: "false", "aria-label": `Body of ${path}`, rows: 3 }) : null;
  if (input) input.value = example;
  const send = make("button", { type: "button", class: "button quiet", title: `Send this request to ${path}` }, "Send");
  const answer = make("pre", { class: "answer", hidden: true, tabindex: 0 });
  const command = make("pre", {}, curl(path, method, example));
  if (input) input.addEventListener("input", () => { command.textContent = curl(path, method, input.value); });
  send.addEventListener("click", async () => {
    send.disabled = true;
    answer.hidden = false;
    try {
      const response = await fetch(addressOf(path), method === "post"
        ? { method: "POST", headers: { "Content-Type": "application/json" }, body: input.value } : {});
      const text = await response.text();
      const isJson = (response.headers.get("Content-Type") || "").includes("json") && !text.includes("\n{");
      answer.textContent = `${response.status} ${response.statusText}\n${isJson ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
    } catch {
      answer.textContent = "The server cannot be reached.";
    } finally {
      send.disabled = false;
    }
  });
  return make("div", { class: "trial" }, make("h4", {}, "Example"), ...(input ? [input] : []), regardScroll.watch(command), send, answer);
}

function responses(operation) {
  const rows = Object.entries(operation.responses).map(([status, one]) => {
    const schema = one.content?.["application/json"]?.schema;
    return make("tr", {}, make("th", { scope: "row" }, status), make("td", {}, ...(schema ? typeOf(schema) : [Object.keys(one.content || {}).join(", ")])),
      make("td", { class: "wide" }, ...described(one.description)));
  });
  return make("details", {}, make("summary", {}, "Responses"), regardScroll.watch(make("div", { class: "scroll" }, make("table", {}, make("tbody", {}, ...rows)))));
}

function section(path, method, operation) {
  const body = bodyOf(operation);
  const schema = body && (body.$ref ? schemas[nameOf(body.$ref)] : body);
  const example = schema && schema.example ? JSON.stringify(schema.example) : method === "post" ? '{"text": "Ein Hund läuft. Eine Katze schläft."}' : "";
  return make("section", { class: "card operation", id: `operation-${path.slice(1)}` },
    make("h2", {}, make("span", { class: "tag" }, method.toUpperCase()), " ", make("code", {}, path)),
    make("p", {}, ...described(operation.description || operation.summary)),
    ...(schema ? [make("h4", {}, "Body (JSON)"), fields(schema)] : []),
    trial(path, method, example), responses(operation));
}

async function begin() {
  let api;
  try {
    api = await (await fetch("openapi.json")).json();
  } catch {
    $("status").textContent = "The description of the API cannot be loaded: the server cannot be reached.";
    return;
  }
  schemas = api.components.schemas;
  $("title").textContent = `API of version ${api.info.version}`;
  const all = Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => [path, method, operation]));
  $("contents").append(...all.map(([path, method]) => make("a", { href: `#operation-${path.slice(1)}` }, `${method.toUpperCase()} ${path}`)));
  $("operations").append(...all.map((one) => section(...one)));
  $("schemas-head").hidden = false;
  $("schemas").append(...Object.entries(schemas).sort(([a], [b]) => a.localeCompare(b)).map(([name, schema]) =>
    make("section", { class: "card operation", id: `schema-${name}` }, make("h3", {}, name), make("p", {}, ...described(schema.description)), fields(schema))));
  // The browser looked for the place of the address before it existed.
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

begin();
