import { cidFields, type CidField } from "../../entry/entry-fields.ts";
import { isStructure, type Cid } from "../../lib/cid.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, tryParseJson } from "../../lib/json.ts";
import type { Store } from "../../store/store.ts";
import type { DirectoryEntry } from "./directory.ts";

/** One use of a content by a tenant. */
export interface ContentUser {
  /** `variable` and `release`: the content itself. `file`: a file of a definition. The others are fields that name it. */
  readonly as: "variable" | "release" | "file" | (typeof PARTS)[number] | CidField;
  /** The server, or the variable. */
  readonly name: string;
  /** The path of a file. */
  readonly path?: string;
  /** The earlier version that uses it; absent if the current one does. */
  readonly earlier?: Cid;
}

const PARTS = ["definition", "config", "contract", "packages"] as const;
/** Releases and definitions that are read at once; a tenant may have 10,000 servers. */
const READ_MAX = 200;
/** Releases are shorter, and so are definitions of up to several hundred files. */
const READ_BYTES_MAX = 64 * 1024;
const HISTORY_MAX = 20;
const USERS_MAX = 50;

/**
 * The variables, servers and releases that use a content. Earlier versions are searched only if no current one uses it,
 * and of a large tenant only the first ones.
 */
export async function contentUsers(
  store: Pick<Store, "contents" | "history" | "names">,
  tenant: string,
  servers: ReadonlyMap<string, DirectoryEntry>,
  cid: Cid,
): Promise<readonly ContentUser[]> {
  const names = [...(await store.names(tenant, "variable")), ...(await store.names(tenant, "release"))];
  const fields = [...servers].flatMap(([name, { definition, entry }]) =>
    cidFields.map((as) => ({ as, name, cid: (as === "definition" ? definition : entry.raw[as]) as Cid })),
  );
  const users = await usersAmong(store, tenant, fields, cid);
  const current = names.map(({ kind, name, cid: now }) => ({ as: kind as "variable" | "release", name, cid: now }));
  users.push(...(await usersAmong(store, tenant, current, cid)));
  if (users.length === 0) {
    const versions: Version[] = [];
    for (const { as, name } of current) {
      for (const { cid: earlier } of await store.history(tenant, as, name, HISTORY_MAX))
        if (earlier) versions.push({ as, name, cid: earlier, earlier });
      if (versions.length >= READ_MAX) break;
    }
    users.push(...(await usersAmong(store, tenant, versions, cid)));
  }
  const isFirst = ({ as, name }: ContentUser, index: number): boolean =>
    users.findIndex((user) => user.as === as && user.name === name) === index;
  return users.filter(isFirst);
}

interface Version extends ContentUser {
  readonly cid: Cid | undefined;
}

async function usersAmong(
  store: Pick<Store, "contents">,
  tenant: string,
  versions: readonly Version[],
  cid: Cid,
): Promise<ContentUser[]> {
  const read = versions.filter(({ as }) => as === "release" || as === "definition");
  const structures = new Set(read.flatMap((each) => (each.cid && isStructure(each.cid) ? [each.cid] : [])));
  const contents = await store.contents(tenant, [...structures].slice(0, READ_MAX));
  const users: ContentUser[] = [];
  const takeTurns = createYielder();
  for (const { cid: version, ...user } of versions) {
    if (users.length >= USERS_MAX) break;
    await takeTurns();
    if (version === cid) users.push(user);
    const bytes = version && contents.get(version);
    const parts = bytes && bytes.length <= READ_BYTES_MAX ? tryParseJson(new TextDecoder().decode(bytes)) : undefined;
    if (!isObject(parts)) continue;
    const part = user.as === "release" && PARTS.find((each) => parts[each] === cid);
    if (part) users.push({ ...user, as: part });
    const files = isObject(parts["files"]) ? parts["files"] : {};
    const path = Object.keys(files).find((each) => files[each] === cid);
    if (path !== undefined) users.push({ ...user, as: "file", path });
  }
  return users;
}
