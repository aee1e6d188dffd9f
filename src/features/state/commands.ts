import { buffer } from "node:stream/consumers";
import { tenantLimits } from "../../admission/tenant-limits.ts";
import { readDirectory } from "../../host/directory/directory.ts";
import { BerthError } from "../../lib/errors.ts";
import { printableJson, printableLine, printableText } from "../../lib/printable.ts";
import { valueBounds } from "../../limits/value-bounds.ts";
import type { WithStore } from "../feature.ts";
import { createStateEdits, type StateEdits } from "./edits.ts";
import { stateRules } from "./guest-requests.ts";

interface StateOptions {
  readonly tenant: string;
  readonly data?: string;
}

const BY_COMMAND = "command";
const LINE_FEED = 10;

/** `berth state list`: the servers with state; `berth state list SERVER`: the keys of one. */
export function listState(
  withStore: WithStore,
  server: string | undefined,
  options: StateOptions & { readonly prefix?: string },
): Promise<number> {
  return withState(withStore, options, async (state) => {
    if (server === undefined) {
      for (const { server: name, keys, bytes, exists } of await state.sizes(options.tenant)) {
        print([name, `${keys} keys`, `${bytes} bytes`, exists ? "" : "removed"]);
      }
      return 0;
    }
    const { valueListKeys: max } = valueBounds;
    const prefix = options.prefix ?? "";
    for (let after: string | undefined, isOver = false; !isOver;) {
      const { items, next } = await state.list(options.tenant, server, { prefix, after, max });
      for (const { key, bytes, isJson, version, changedAt, expiresAt } of items) {
        const expires = expiresAt === null ? "" : `until ${new Date(expiresAt).toISOString()}`;
        const kind = isJson ? "JSON" : "bytes";
        print([key, `${bytes} bytes of ${kind}`, `version ${version}`, new Date(changedAt).toISOString(), expires]);
      }
      [after, isOver] = [next, next === undefined];
    }
    return 0;
  });
}

/** `berth state get SERVER KEY`: prints only the value, as JSON or bytes; on a terminal, bytes are made printable. */
export function getState(withStore: WithStore, server: string, key: string, options: StateOptions): Promise<number> {
  return withState(withStore, options, async (state) => {
    const { value, isJson } = await state.read(options.tenant, server, key);
    const text = (): string => Buffer.from(value).toString();
    if (isJson) process.stdout.write(`${printableJson(text())}\n`);
    else process.stdout.write(process.stdout.isTTY ? printableText(text()) : value);
    return 0;
  });
}

/** `berth state set SERVER KEY`: the value comes from standard input. */
export function setState(
  withStore: WithStore,
  server: string,
  key: string,
  options: StateOptions & { readonly bytes?: boolean },
): Promise<number> {
  return withState(withStore, options, async (state) => {
    const input = await buffer(process.stdin);
    const isJson = !options.bytes;
    // Editors and `echo` end their output with a line break.
    const value = isJson && input.at(-1) === LINE_FEED ? input.subarray(0, -1) : input;
    const version = await state.set(
      options.tenant,
      server,
      key,
      { value, isJson, expiresAt: null },
      { by: BY_COMMAND },
    );
    console.error(`Saved for the server ${server}, with version ${version}.`);
    return 0;
  });
}

/** `berth state delete SERVER KEY`, or `--all` for everything that the server stores. */
export function deleteState(
  withStore: WithStore,
  server: string,
  key: string | undefined,
  options: StateOptions & { readonly all?: boolean },
): Promise<number> {
  return withState(withStore, options, async (state) => {
    if ((key === undefined) !== (options.all ?? false)) {
      throw new BerthError("invalid_params", "name one key, or use --all for everything that the server stores");
    }
    if (key !== undefined) await state.remove(options.tenant, server, key, { by: BY_COMMAND });
    const keys = key === undefined ? await state.clear(options.tenant, server, BY_COMMAND) : 1;
    console.error(`Deleted ${keys} key${keys === 1 ? "" : "s"} of the server ${server}.`);
    return 0;
  });
}

function withState(
  withStore: WithStore,
  { tenant, ...options }: StateOptions,
  work: (state: StateEdits) => Promise<number>,
): Promise<number> {
  return withStore(options, async (store, { limits }) => {
    const record = await store.tenants.find(tenant);
    if (!record) throw new BerthError("tenant_not_found", `"${tenant}"; "berth tenant list" lists all tenants`);
    const directory = await readDirectory(store, tenant);
    const rules = stateRules({
      store,
      limits,
      limitsOf: () => tenantLimits(limits, record.limits),
      writable: true,
    });
    return work(createStateEdits({ ...rules, store: store.values, directory: () => directory }));
  });
}

function print(cells: readonly string[]): void {
  console.log(cells.map(printableLine).join("\t").trimEnd());
}
