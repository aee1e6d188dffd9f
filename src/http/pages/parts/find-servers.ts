import type { Request } from "express";
import type { Overview } from "../../../host/catalog/overview.ts";
import type { Host } from "../../../host/host.ts";
import { BerthError } from "../../../lib/errors.ts";
import { mapYielding, createYielder } from "../../../lib/event-loop.ts";
import { fixed } from "../../../limits/fixed.ts";
import { cursorAfter, namesAfter, type ListPage } from "../../list-page.ts";
import { SERVER_STATES } from "./server-state.ts";

/** The servers that a person asks the list for: `?q=&state=&kind=`. */
export interface ServerFilter {
  /** In lower case; a server has to have each of them in its name, its description or the names of its tools. */
  readonly words: readonly string[];
  readonly state: Overview["state"] | "problems" | undefined;
  readonly kind: ServerKind | undefined;
}

export type ServerKind = "definition" | "upstream" | "builtin";

export const SERVER_KINDS: readonly ServerKind[] = ["definition", "upstream", "builtin"];
/** Longer texts are no words that somebody looks for. */
const WORDS_UNITS_MAX = 200;

const STATE_FILTERS = [...(Object.keys(SERVER_STATES) as Overview["state"][]), "problems"] as const;

/** Reads the filter from the query of an address. Throws `invalid_params`. */
export function readServerFilter({ query: { q = "", state, kind } }: Pick<Request, "query">): ServerFilter {
  if (typeof q !== "string") throw new BerthError("invalid_params", '"q" may appear only once in the query');
  return {
    words: q.slice(0, WORDS_UNITS_MAX).toLowerCase().split(/\s+/).filter(Boolean),
    state: readChoice("state", state, STATE_FILTERS),
    kind: readChoice("kind", kind, SERVER_KINDS),
  };
}

/** The form sends an empty string for "every". */
function readChoice<T extends string>(name: string, value: unknown, choices: readonly T[]): T | undefined {
  const choice = choices.find((each) => each === value);
  if (choice !== undefined || value === undefined || value === "") return choice;
  throw new BerthError("invalid_params", `"${name}" must be one of ${choices.join(", ")}`);
}

export interface FoundServers {
  readonly servers: readonly Overview[];
  /** The cursor of the next page. */
  readonly next?: string;
  /** Servers that were compared with the filter. */
  readonly searched: number;
  /** Servers that would have to be loaded to compare them, for which there was no time. */
  readonly left: number;
}

interface Searched {
  readonly host: Pick<Host, "directory" | "overview">;
  readonly tenant: string;
  /** The names of all servers that the reader may know of, in order. */
  readonly names: readonly string[];
  /** The part of a server that the reader may know of: nobody finds one by a tool that is hidden from them. */
  readonly known: (server: Overview) => Overview;
}

const bounds = fixed({
  /** How long a search may load servers; it tells how many it left out, and the next request continues there. */
  serverSearchMs: 1_000,
});

/** Loaded together. */
const GROUP = 16;

/**
 * One page of the servers that are asked for, among all of the tenant's. What was looked at is kept, so the next request
 * gets further.
 */
export async function findServers(
  { host, tenant, names, known }: Searched,
  filter: ServerFilter,
  { limit, after }: ListPage,
): Promise<FoundServers> {
  const began = performance.now();
  const takeTurns = createYielder();
  const found: string[] = [];
  let [visited, left] = [0, 0];
  let group: string[] = [];
  /** Looks at the servers of the group, in which the wanted ones are those that need no look. */
  const settle = async (wanted: ReadonlySet<string>): Promise<void> => {
    if (group.length === 0) return;
    const unsure = group.filter((name) => !wanted.has(name));
    const isOver = performance.now() - began > bounds.serverSearchMs;
    const looked = isOver ? [] : await host.overview(tenant, unsure);
    const meant = new Set(looked.filter((each) => isMeant(known(each), filter)).map(({ name }) => name));
    if (isOver) left += unsure.length;
    found.push(...group.filter((name) => wanted.has(name) || meant.has(name)));
    group = [];
  };
  let wanted = new Set<string>();
  for (const name of namesAfter(names, after)) {
    await takeTurns();
    visited += 1;
    const isWanted = atOnce(host, tenant, name, filter);
    if (isWanted === false) continue;
    group.push(name);
    if (isWanted) wanted.add(name);
    if (group.length < GROUP) continue;
    await settle(wanted);
    wanted = new Set();
    if (found.length > limit) break;
  }
  await settle(wanted);
  const shown = found.slice(0, limit);
  const servers = await mapYielding(await host.overview(tenant, shown), async (server) => known(server));
  return { servers, searched: visited - left, left, ...(found.length > limit && { next: cursorAfter(shown.at(-1)!) }) };
}

/** True or false where the directory says it; undefined where the server has to be looked at. */
function atOnce(
  host: Searched["host"],
  tenant: string,
  name: string,
  { words, state, kind }: ServerFilter,
): boolean | undefined {
  const listed = host.directory(tenant)?.servers.get(name);
  const own = !listed ? "builtin" : listed.entry.upstream === undefined ? "definition" : "upstream";
  if (kind !== undefined && own !== kind) return false;
  if (state !== undefined && state !== "problems" && listed && (state === "disabled") === listed.enabled) return false;
  const text = `${name} ${listed?.entry.description ?? ""}`.toLowerCase();
  const isNamed = words.every((word) => text.includes(word));
  // A disabled server is known by its entry alone.
  if (state === "disabled" && listed) return isNamed;
  return isNamed && state === undefined ? true : undefined;
}

function isMeant({ name, description = "", tools, state, problems }: Overview, wanted: ServerFilter): boolean {
  const isState = wanted.state === "problems" ? problems.length > 0 : (wanted.state ?? state) === state;
  if (!isState) return false;
  const text = `${name} ${description} ${tools.join(" ")}`.toLowerCase();
  return wanted.words.every((word) => text.includes(word));
}
