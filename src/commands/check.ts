import { readEntry } from "../entry/entry.ts";
import { checkOptions, type DiscoveredItems, leaveOut, buildOffer } from "../entry/offer.ts";
import { findSchemaFault } from "../host/calls/arguments.ts";
import { MCPS_FILE } from "../image/image.ts";
import type { JsonObject } from "../lib/json.ts";
import type { Problem } from "../lib/problem.ts";
import { generate, ownLock } from "./boot.ts";
import { namedFromHere, openOwnFolder, shownFolder } from "./own-folder.ts";
import { counted, countProblems, printProblems } from "./print-problems.ts";
import { printJson } from "./print.ts";

export interface CheckOptions {
  /** Type errors are errors. */
  readonly strict?: boolean;
  /** Prints `{ servers, problems }` as JSON on stdout; files are named from the folder that is checked. */
  readonly json?: boolean;
}

/**
 * `berth check [DIR]`: prints every problem of a folder's entries, definitions and packages on stdout, and writes nothing.
 * The exit code is 0 without errors, 1 with some.
 */
export async function check(path: string | undefined, { strict = false, json = false }: CheckOptions): Promise<number> {
  const { folder, image: out } = openOwnFolder(path);
  // Servers with errors count as well, and so do errors that would only keep a tool from being offered.
  const how = { strict, quiet: json, refusesServers: true, toolErrors: true, checkOffer };
  const { image, problems } = await generate(folder, out, ownLock(out), how);
  const list = image?.files.get(MCPS_FILE);
  const servers = list === undefined ? 0 : Object.keys(JSON.parse(new TextDecoder().decode(list)) as object).length;
  if (json) printJson({ servers, problems }, 2);
  else {
    printProblems(namedFromHere(problems, folder), (text) => process.stdout.write(text));
    process.stdout.write(
      `${counted(servers, "server")} in ${shownFolder(folder)}: ${countProblems(problems) || "no problems"}\n`,
    );
  }
  return problems.some(({ severity }) => severity === "error") ? 1 : 0;
}

function checkOffer(server: string, raw: JsonObject, found: DiscoveredItems): readonly Problem[] {
  const { entry } = readEntry(server, raw, { faultOf: findSchemaFault });
  const offered = buildOffer(server, found, entry);
  leaveOut(offered, entry);
  checkOptions(server, offered, entry);
  return offered.problems;
}
