import { readFileSync, realpathSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { BerthError } from "../lib/errors.ts";
import { isObject } from "../lib/json.ts";

/** An installed npm. */
export interface FoundNpm {
  /** Its file `npm-cli.js`, without links. */
  readonly cli: string;
  readonly version: string;
  /** The folder with all that it needs. */
  readonly folder: string;
}

/** The first npm that writes locks as they are read here. */
const MAJOR_MIN = 7;
const CLI = "npm-cli.js";

/** The npm of this Node, or else the one that started this process, or the one that a shell would find. */
export function findNpm(env: NodeJS.ProcessEnv, execPath = process.execPath): FoundNpm {
  const node = dirname(realPath(execPath) ?? execPath);
  const started = env["npm_execpath"];
  const files = [
    ...[dirname(execPath), node].flatMap((folder) => [
      join(folder, "..", "lib", "node_modules", "npm", "bin", CLI),
      join(folder, "node_modules", "npm", "bin", CLI),
    ]),
    // Other package managers set it to themselves.
    ...(started !== undefined && basename(started) === CLI ? [started] : []),
    ...(env["PATH"] ?? "")
      .split(delimiter)
      .filter(Boolean)
      .map((folder) => join(folder, "npm")),
  ];
  let old: string | undefined;
  for (const file of files) {
    const found = npmAt(file);
    if (found && Number.parseInt(found.version, 10) >= MAJOR_MIN) return found;
    old ??= found?.version;
  }
  const why = old === undefined ? "there is no npm beside Node, and none on PATH" : `npm ${old} is too old`;
  throw new BerthError("packages_unavailable", `${why}; install npm ${MAJOR_MIN} or newer, which comes with Node`);
}

function npmAt(file: string): FoundNpm | undefined {
  const cli = realPath(file);
  if (cli === undefined || basename(cli) !== CLI) return undefined;
  const folder = dirname(dirname(cli));
  const version = versionIn(folder);
  if (version === undefined) return undefined;
  // Debian keeps what npm needs beside it.
  const parent = dirname(folder);
  return { cli, version, folder: basename(parent) === "nodejs" ? parent : folder };
}

function versionIn(folder: string): string | undefined {
  try {
    const manifest: unknown = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    const version = isObject(manifest) && manifest["name"] === "npm" ? manifest["version"] : undefined;
    return typeof version === "string" ? version : undefined;
  } catch {
    return undefined;
  }
}

function realPath(file: string): string | undefined {
  try {
    return realpathSync(file);
  } catch {
    return undefined;
  }
}
