/**
 * A path of the registry as a page for people: where it is, its record, its children. One document
 * that loads nothing and runs nothing; all that comes from the registry is escaped, and only http
 * and https addresses become links.
 */
import { html, raw } from "hono/html";
import type { RegistryChildrenPage } from "../shared/protocol/registry-reader.ts";
import type { EndpointDocument, RegistryNodeDocument } from "../shared/registry.ts";

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 64rem; margin: 0 auto; padding: 1rem; }
nav ol { list-style: none; padding: 0; display: flex; flex-wrap: wrap; gap: .25rem; }
nav li + li::before { content: "/"; margin-right: .25rem; opacity: .6; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .75rem .25rem 0; border-bottom: 1px solid #8886; }
td.number, th.number { text-align: right; }
pre { padding: 1rem; overflow-x: auto; border: 1px solid #8886; border-radius: .25rem; }
`;

type Html = ReturnType<typeof html>;

/** Only this style, by its hash; nothing else may be loaded, sent or framed. */
export async function pageSecurityPolicy(): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(STYLE));
  const hash = btoa(String.fromCharCode(...new Uint8Array(digest)));
  return `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}

/** `base` is where the registry is mounted: `/registry/v1`. */
export function registryPage(
  base: string,
  node: RegistryNodeDocument,
  page: RegistryChildrenPage,
): Html {
  const { path, stat, record } = node;
  const endpoints = record === undefined ? [] : [...record.external, ...record.internal];
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${path} · registry</title>
<style>${raw(STYLE)}</style>
</head>
<body>
<header>${breadcrumbs(base, path)}<h1>${path}</h1></header>
<main>
<p>Created <time datetime="${new Date(stat.time).toISOString()}">${new Date(stat.time).toISOString()}</time>,
${stat.children} ${stat.children === 1 ? "child" : "children"}.</p>
${
  record === undefined
    ? ""
    : html`<section aria-labelledby="record"><h2 id="record">Record</h2>
${endpoints.length === 0 ? "" : endpointTable(endpoints)}
<pre tabindex="0" aria-label="The record as JSON">${JSON.stringify(record, null, 2)}</pre></section>`
}
<section aria-labelledby="children"><h2 id="children">Children</h2>
${page.children.length === 0 ? html`<p>There are none.</p>` : childTable(base, page)}
</section>
</main>
</body>
</html>`;
}

function breadcrumbs(base: string, path: string): Html {
  const elements = path.split("/").filter((element) => element !== "");
  const steps = elements.map((element, index) => ({
    element,
    href: `${base}/${elements.slice(0, index + 1).join("/")}`,
  }));
  return html`<nav aria-label="Path"><ol><li><a href="${base}/">registry</a></li>${steps.map(
    ({ element, href }, index) =>
      html`<li><a href="${href}"${index === steps.length - 1 ? raw(' aria-current="page"') : ""}>${element}</a></li>`,
  )}</ol></nav>`;
}

function endpointTable(endpoints: readonly EndpointDocument[]): Html {
  return html`<table><caption>Endpoints</caption>
<thead><tr><th scope="col">API</th><th scope="col">Protocol</th><th scope="col">Addresses</th></tr></thead>
<tbody>${endpoints.map(
    ({ api, protocolType, addresses }) =>
      html`<tr><td>${api}</td><td>${protocolType}</td><td>${addresses.map(
        (address) => html`<div>${addressText(address)}</div>`,
      )}</td></tr>`,
  )}</tbody></table>`;
}

function addressText(address: Readonly<Record<string, string>>): Html | string {
  const { uri, host, port } = address;
  if (uri !== undefined && isWebAddress(uri)) {
    return html`<a href="${uri}" rel="noreferrer nofollow">${uri}</a>`;
  }
  if (uri !== undefined) return uri;
  if (host !== undefined && port !== undefined) return `${host}:${port}`;
  return Object.entries(address)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** Anything else, such as `javascript:`, stays text. */
function isWebAddress(uri: string): boolean {
  return /^https?:\/\//i.test(uri) && URL.canParse(uri);
}

function childTable(base: string, { path, children, next }: RegistryChildrenPage): Html {
  const prefix = `${base}${path === "/" ? "" : path}`;
  return html`<table>
<thead><tr><th scope="col">Name</th><th scope="col">Record</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">Children</th><th scope="col">Created</th></tr></thead>
<tbody>${children.map(
    (child) => html`<tr><td><a href="${prefix}/${child.path}">${child.path}</a></td>
<td>${child.hasRecord ? "yes" : "no"}</td><td class="number">${child.size}</td><td class="number">${child.children}</td>
<td>${new Date(child.time).toISOString()}</td></tr>`,
  )}</tbody></table>
${next === undefined ? "" : html`<p><a href="${prefix || "/"}?after=${next}" rel="next">More children</a></p>`}`;
}
