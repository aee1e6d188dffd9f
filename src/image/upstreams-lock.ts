import type { Contract } from "../contract/contract.ts";
import { jsonBlock, type Block, type Cid } from "../lib/cid.ts";
import { isObject, tryParseObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { MCPS_FILE, UPSTREAMS_LOCK } from "./image.ts";
import { isFault, type SourceFolder } from "./source-folder.ts";

/** `upstreams.lock.json` next to the sources: the approved contract of each upstream, by launcher URI. */
export interface UpstreamsLock {
  readonly version: typeof UPSTREAMS_LOCK_VERSION;
  readonly upstreams: Readonly<Record<string, LockedUpstream>>;
}

export interface LockedUpstream {
  /** The version of the package, and its integrity according to the registry; only for `npx`. */
  readonly version?: string;
  readonly integrity?: string;
  readonly contract_cid: Cid;
  readonly contract: Contract;
}

export const UPSTREAMS_LOCK_VERSION = 1;
const HINT = "Run `berth mcp lock`, and review what it changes.";

/** The blocks of the locked contracts, by launcher URI. Problems with the file are warnings. */
export function readUpstreamsLock(folder: SourceFolder, problems: Problem[]): ReadonlyMap<string, Block> {
  const file = folder.read(UPSTREAMS_LOCK);
  if (isFault(file)) {
    if (file.code !== "missing-file") problems.push(warning(file.code, `${file.message}.`));
    return new Map();
  }
  const lock = tryParseObject(file.text ?? "");
  if (lock?.["version"] !== UPSTREAMS_LOCK_VERSION || !isObject(lock["upstreams"])) {
    problems.push(warning("bad-lock", `It is not a lock of version ${UPSTREAMS_LOCK_VERSION}.`));
    return new Map();
  }
  const blocks = new Map<string, Block>();
  for (const [uri, locked] of Object.entries(lock["upstreams"])) {
    const block = isObject(locked) && isObject(locked["contract"]) ? jsonBlock(locked["contract"]) : undefined;
    if (block && isObject(locked) && block.cid === locked["contract_cid"]) blocks.set(uri, block);
    else problems.push(warning("bad-lock", `Its record of "${withoutQuery(uri)}" was changed since it was written.`));
  }
  return blocks;
}

/** Reports where the lock does not match the upstreams in use. A folder that is served directly needs none. */
export function findLockProblems(
  list: string,
  locked: ReadonlyMap<string, Block>,
  used: ReadonlySet<string>,
): Problem[] {
  const unused = [...locked.keys()]
    .filter((uri) => !used.has(uri))
    .map((uri) => warning("unused-lock", `No server starts from "${withoutQuery(uri)}" any more.`));
  const unlocked = [...used].filter((uri) => !locked.has(uri)).map((uri) => `"${withoutQuery(uri)}"`);
  if (unlocked.length === 0 || (list === MCPS_FILE && locked.size === 0)) return unused;
  const more = unlocked.length > NAMES_MAX ? ` and ${unlocked.length - NAMES_MAX} more` : "";
  const names = unlocked.slice(0, NAMES_MAX).join(", ") + more;
  const offers = "what an upstream offers on its first start counts as approved";
  return [...unused, warning("not-locked", `Not locked: ${names}; ${offers}.`)];
}

/** The names of upstreams in one message. */
const NAMES_MAX = 10;

function warning(code: string, message: string): Problem {
  return { code, message: `${message} ${HINT}`, severity: "warning", file: UPSTREAMS_LOCK };
}

/** Leaves out the query, which may contain secrets. */
function withoutQuery(uri: string): string {
  return uri.replace(/\?.*$/s, "");
}
