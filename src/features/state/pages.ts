import { listing, mayChange, named, readingWith } from "../../http/access/permit.ts";
import type { PageKit } from "../../http/feature-routes.ts";
import { cursorAfter, nextAddress, readListPage } from "../../http/list-page.ts";
import { inGroups } from "../../http/pages/pages.ts";
import { pathsOf } from "../../http/pages/parts/paths.ts";
import { bytesText, countOf, timeView } from "../../http/pages/parts/text.ts";
import type { PageRoute, RoutedContext } from "../../http/routed.ts";
import { BerthError } from "../../lib/errors.ts";
import { indentedJson } from "../../lib/json.ts";
import type { ServerStateSize, StateEdits, ValueEntry, ValueItem } from "./edits.ts";

interface ValuePageOptions extends PageKit {
  readonly state: StateEdits;
}

export function statePages(state: StateEdits): PageRoute<PageKit>[] {
  return [
    {
      path: "/state",
      permit: listing,
      create: (kit) => (context) => sendServers({ ...kit, state }, context),
    },
    {
      path: "/state/:name",
      permit: readingWith("state", named),
      create: (kit) => (context) => {
        const key = readQueryText(context, "key");
        return key === "" ? sendKeys({ ...kit, state }, context) : sendValue({ ...kit, state }, context, key);
      },
    },
  ];
}

/** `GET /state`: the servers with state that the reader may change. */
async function sendServers({ state, pages, writable }: ValuePageOptions, context: RoutedContext): Promise<void> {
  const { tenant, base } = context;
  const sizes = (await state.sizes(tenant)).filter(({ server }) => mayChange(context, "state", server));
  const view = ({ server, keys, bytes, exists }: ServerStateSize): object => ({
    writable,
    name: server,
    href: addressOf(base, server),
    page: exists ? pathsOf(base, server).page : "",
    keys: countOf(keys, "key"),
    size: bytesText(bytes),
  });
  await pages.send(context, "state", {
    title: "State",
    section: "state",
    scripts: ["state.js"],
    servers: sizes.length > 0 ? await pages.fragment("state", inGroups(sizes, view)) : undefined,
    writable,
  });
}

/** `GET /state/:name`: the keys of a server. */
async function sendKeys({ state, pages, writable }: ValuePageOptions, context: RoutedContext): Promise<void> {
  const { request, tenant, base } = context;
  const server = named(context)!;
  const address = addressOf(base, server);
  const prefix = readQueryText(context, "prefix");
  const { limit, after } = readListPage(request);
  const { items, next } = await state.list(tenant, server, { prefix, after, max: limit });
  const view = ({ key, bytes, isJson, changedAt, expiresAt, version }: ValueItem): object => ({
    writable,
    key,
    version,
    href: `${address}?${new URLSearchParams({ key }).toString()}`,
    size: `${bytesText(bytes)} of ${isJson ? "JSON" : "bytes"}`,
    changedAt: timeView(changedAt),
    expiresAt: expiresAt === null ? "" : timeView(expiresAt),
  });
  const more = nextAddress(address, request, next === undefined ? undefined : cursorAfter(next));
  await pages.send(context, "state-keys", {
    title: `State of ${server}`,
    section: "state",
    crumbs: [{ label: "State", href: `${base}/state` }, { label: server }],
    scripts: ["state.js"],
    server,
    address,
    prefix,
    keys: items.length > 0 ? await pages.fragment("state-keys", inGroups(items, view)) : undefined,
    next: more === undefined || prefix === "" ? more : `${more}&${new URLSearchParams({ prefix }).toString()}`,
    writable,
  });
}

/** `GET /state/:name?key=`: a key and its value. */
async function sendValue({ state, pages, writable }: ValuePageOptions, context: RoutedContext, key: string) {
  const { tenant, base } = context;
  const server = named(context)!;
  const address = addressOf(base, server);
  const entry = await state.read(tenant, server, key).catch((error: unknown) => {
    if (error instanceof BerthError && error.code === "state_not_found") return undefined;
    throw error;
  });
  await pages.send(context, "state-value", {
    title: key,
    section: "state",
    crumbs: [{ label: "State", href: `${base}/state` }, { label: server, href: address }, { label: key }],
    scripts: ["state.js"],
    server,
    address,
    key,
    writable,
    isNew: !entry,
    valueVersion: entry?.version ?? 0,
    isJson: entry?.isJson ?? true,
    text: entry ? await pages.text(editableText(entry)) : "",
    changedAt: entry && timeView(entry.changedAt),
    expiresAt: entry?.expiresAt ? timeView(entry.expiresAt) : "",
    expires: entry?.expiresAt ?? "",
  });
}

/** As a person edits it: indented JSON, or base64. */
function editableText({ value, isJson }: ValueEntry): string {
  const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  return isJson ? indentedJson(JSON.parse(bytes.toString("utf8"))) : bytes.toString("base64");
}

function addressOf(base: string, server: string): string {
  return `${base}/state/${encodeURIComponent(server)}`;
}

function readQueryText({ request }: RoutedContext, name: string): string {
  const value = request.query[name];
  return typeof value === "string" ? value : "";
}
