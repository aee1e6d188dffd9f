import { cidFields } from "../../entry/fields.ts";
import { isStructure, type Cid } from "../../lib/cid.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject, tryParseJson } from "../../lib/json.ts";
import type { Store } from "../../store/store.ts";
import type { DirectoryEntry } from "./directory.ts";

/** One use of a content by a tenant. */
export interface ContentUser {
  /** `release`: the content is a release itself. `file`: a file of a definition. The others are fields that name it. */
  readonly as: "variable" | "release" | "file" | "config" | "contract" | "packages" | (typeof cidFields)[number];
  /** The server, or the variable. */
  readonly name: string;
  /** The path of a file. */
  readonly path?: string;
  /** The release that uses it; absent for an entry and a variable. */
  readonly release?: Cid;
  /** False for an earlier release. */
  readonly current: boolean;
}

type UserStore = Pick<Store, "contents" | "history" | "names">;

/** Releases and definitions that are read for one answer; a tenant may have 10,000 servers. */
const READ_MAX = 200;
/** Releases are shorter, and so are definitions of up to several hundred files. */
const READ_BYTES_MAX = 64 * 1024;
const EARLIER_RELEASES_MAX = 20;
const USERS_MAX = 50;

/**
 * The variables, servers and releases that use a content. Earlier releases are searched only if no current one uses it,
 * and of a large tenant only the first ones.
 */
export async function contentUsers(
  store: UserStore,
  tenant: string,
  servers: ReadonlyMap<string, DirectoryEntry>,
  cid: Cid,
): Promise<readonly ContentUser[]> {
  const users: ContentUser[] = [];
  const takeTurns = turnTaker();
  for (const each of await store.names(tenant, "variable")) {
    if (each.cid === cid) users.push({ as: "variable", name: each.name, current: true });
  }
  const trees = new Map<Cid, string>();
  for (const [name, { definition, entry }] of servers) {
    await takeTurns();
    for (const field of cidFields) {
      const named = field === "definition" ? definition : entry.raw[field];
      if (named === cid) users.push({ as: field, name, current: true });
    }
    if (definition !== undefined && isStructure(definition) && trees.size < READ_MAX) trees.set(definition, name);
  }
  for (const [tree, bytes] of await store.contents(tenant, [...trees.keys()])) {
    await takeTurns();
    const path = pathIn(structureIn(bytes), cid);
    if (path !== undefined) users.push({ as: "file", name: trees.get(tree)!, path, current: true });
  }
  const now = await store.names(tenant, "release");
  const isNew = ({ as, name }: ContentUser): boolean => !users.some((user) => user.as === as && user.name === name);
  users.push(...(await releasesWith(store, tenant, now, cid, true)).filter(isNew));
  if (users.length > 0) return users.slice(0, USERS_MAX);
  const earlier: { name: string; cid: Cid }[] = [];
  for (const { name } of now) {
    const history = await store.history(tenant, "release", name, EARLIER_RELEASES_MAX);
    for (const change of history) if (change.cid !== null) earlier.push({ name, cid: change.cid });
    if (earlier.length >= READ_MAX) break;
  }
  return (await releasesWith(store, tenant, earlier, cid, false)).slice(0, USERS_MAX);
}

/** The releases that are the content, or consist of it. */
async function releasesWith(
  store: UserStore,
  tenant: string,
  releases: readonly { readonly name: string; readonly cid: Cid }[],
  cid: Cid,
  current: boolean,
): Promise<ContentUser[]> {
  const users: ContentUser[] = [];
  for (const each of releases) {
    if (each.cid === cid) users.push({ as: "release", name: each.name, release: cid, current });
  }
  if (users.length > 0) return users;
  const read = releases.slice(0, READ_MAX);
  const contents = await store.contents(tenant, [...new Set(read.map((each) => each.cid))]);
  const takeTurns = turnTaker();
  for (const { name, cid: release } of read) {
    await takeTurns();
    const parts = structureIn(contents.get(release));
    if (!isObject(parts)) continue;
    for (const as of ["definition", "config", "contract", "packages"] as const) {
      if (parts[as] === cid) users.push({ as, name, release, current });
    }
  }
  return users;
}

function structureIn(bytes: Uint8Array | undefined): unknown {
  return bytes && bytes.length <= READ_BYTES_MAX ? tryParseJson(new TextDecoder().decode(bytes)) : undefined;
}

function pathIn(tree: unknown, cid: Cid): string | undefined {
  const files = isObject(tree) && isObject(tree["files"]) ? tree["files"] : {};
  return Object.keys(files).find((path) => files[path] === cid);
}
