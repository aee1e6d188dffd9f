import { execFile } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { ownFolderHere } from "../../../commands/own-folder.ts";
import { printProblems } from "../../../commands/print-problems.ts";
import { packageRoot, packageVersion, readConfig } from "../../../config.ts";
import type { Contract } from "../../../contract/contract.ts";
import { findServerList, MCPS_SOURCE, UPSTREAMS_LOCK } from "../../../image/image.ts";
import { readMcpsSource } from "../../../image/mcps-source.ts";
import { isFault, openSourceFolder } from "../../../image/source-folder.ts";
import { UPSTREAMS_LOCK_VERSION, type LockedUpstream, type UpstreamsLock } from "../../../image/upstreams-lock.ts";
import { decodeJson, jsonBlock } from "../../../lib/cid.ts";
import { BerthError } from "../../../lib/errors.ts";
import { parseJsonSource } from "../../../lib/json-source.ts";
import { isObject } from "../../../lib/json.ts";
import { compareText, prettyJson } from "../../../lib/pretty-json.ts";
import { openSender } from "../../../network/public-fetch.ts";
import type { Observed } from "../../../upstream/calls/observe.ts";
import { requireEntries } from "../../../upstream/calls/survey.ts";
import { hostedVariables, type Launch } from "../../../upstream/launch/launch.ts";
import { parseLauncher } from "../../../upstream/launch/launcher-uri.ts";
import { Upstream } from "../../../upstream/upstream.ts";

export interface LockOptions {
  /** The folder of sources. Default: the working folder if it lists servers, or else `reference_templates/`. */
  readonly from?: string;
}

/**
 * `berth mcp lock`: examines each upstream in the list of servers, and writes its current state. Exit code 0, or 1 if
 * one cannot be examined: then nothing is written.
 */
export async function lock(options: LockOptions): Promise<number> {
  const from = options.from ?? ownFolderHere()?.folder ?? join(packageRoot, "reference_templates");
  const upstreams: Record<string, LockedUpstream> = {};
  let failed = 0;
  for (const uri of upstreamsOf(from)) {
    try {
      upstreams[uri] = await look(uri);
    } catch (error) {
      if (!(error instanceof BerthError)) throw error;
      failed++;
      console.error(`berth: ${uri.replace(/\?.*$/s, "")}: ${error.message}`);
    }
  }
  if (failed > 0) {
    console.error(`berth: ${UPSTREAMS_LOCK} is unchanged`);
    return 1;
  }
  const written: UpstreamsLock = { version: UPSTREAMS_LOCK_VERSION, upstreams };
  writeFileSync(join(from, UPSTREAMS_LOCK), prettyJson(written));
  if (Object.keys(upstreams).length === 0) console.error(`No server is an upstream: the lock is empty`);
  for (const [uri, { contract_cid, version }] of Object.entries(upstreams)) {
    const name = uri.replace(/\?.*$/s, "");
    console.error(`${name}${version === undefined ? "" : ` is ${version} now,`} ${contract_cid}`);
  }
  return 0;
}

/** Sorted, without duplicates. Throws `bad_sources` if the source cannot be read. */
function upstreamsOf(from: string): string[] {
  const folder = openSourceFolder(from, readConfig(process.env).limits.sourceBytes);
  const list = findServerList((name) => existsSync(join(from, name))) ?? MCPS_SOURCE;
  const file = folder.read(list);
  if (isFault(file)) throw new BerthError("bad_sources", file.message);
  const { root, problems } = parseJsonSource(list, file.text ?? "");
  const source = root && readMcpsSource(root, folder);
  const errors = [...problems, ...(source?.problems ?? [])].filter(({ severity }) => severity === "error");
  if (!source || errors.length > 0) {
    printProblems(errors);
    throw new BerthError("bad_sources", `in ${list}`);
  }
  return [...new Set(source.upstreams)].sort(compareText);
}

async function look(uri: string): Promise<LockedUpstream> {
  const { launch, problems } = parseLauncher(uri);
  if (!launch) throw new BerthError("launcher_invalid", problems[0]?.message ?? "");
  const published = launch.launcher === "npx" ? await publishedAs(launch.target) : {};
  const block = jsonBlock(await contractNow(launch));
  return { ...published, contract_cid: block.cid, contract: decodeJson(block.bytes) as Contract };
}

/** Starts the upstream exactly as when hosted: some offer less to clients with fewer capabilities. */
async function contractNow(launch: Launch): Promise<Contract> {
  let seen: Observed | undefined;
  const upstream = new Upstream(launch, {
    env: process.env,
    variables: () => Promise.resolve(hostedVariables(process.env)),
    folder: process.cwd(),
    clientInfo: { name: "berth", version: packageVersion() },
    send: openSender(),
    limits: readConfig(process.env).limits,
    onContract: (observed) => {
      seen = observed;
      return Promise.resolve();
    },
    onResourceUpdated: () => {},
    onLost: () => {},
    onError: () => {},
  });
  try {
    await upstream.start();
    requireEntries(seen!.contract, seen!.failed);
    return seen!.contract;
  } finally {
    await upstream.close();
  }
}

/** Resolved by npm itself, with the user's settings and registry. */
async function publishedAs(target: string): Promise<Pick<LockedUpstream, "version" | "integrity">> {
  const wanted = ["view", target, "version", "dist.integrity", "--json"];
  let answer: unknown;
  try {
    const { stdout } = await promisify(execFile)("npm", wanted, { timeout: NPM_MS, maxBuffer: NPM_BYTES });
    answer = JSON.parse(stdout);
  } catch (error) {
    throw new BerthError("upstream_not_started", `npm does not know ${target}`, { cause: error });
  }
  // For a range, npm lists every matching version, the newest last.
  const found: unknown = Array.isArray(answer) ? answer.at(-1) : answer;
  if (!isObject(found) || typeof found["version"] !== "string" || typeof found["dist.integrity"] !== "string") {
    throw new BerthError("upstream_not_started", `npm gives no version of ${target}`);
  }
  return { version: found["version"], integrity: found["dist.integrity"] };
}

const NPM_MS = 60_000;
const NPM_BYTES = 1024 * 1024;
