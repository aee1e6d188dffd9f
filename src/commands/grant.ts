import { join } from "node:path";
import type { Core } from "../compose/core.ts";
import {
  renderDiff,
  editedText,
  readConfigFile,
  readValue,
  writeConfigFile,
  type ConfigFile,
} from "../config-files/config-file.ts";
import { json } from "../config-files/json-file.ts";
import { formatGrantLines, addGrants, type RequestedGrant } from "../entry/grant-requests.ts";
import { MCPS_FILE } from "../image/image.ts";
import { BerthError } from "../lib/errors.ts";
import { indentedJson, isObject, type JsonObject } from "../lib/json.ts";
import { nearestName } from "../lib/near-names.ts";
import { printable, printableLine } from "../lib/printable.ts";
import { formatLocation } from "../lib/problem.ts";
import { DEFAULT_TENANT } from "../lib/tenant-name.ts";
import { generate, ownLock } from "./boot.ts";
import { servedFolder } from "./environment.ts";
import { namedFromHere, shownFolder, type OwnFolder } from "./own-folder.ts";
import { printProblems } from "./print-problems.ts";
import { rights, saved, withCore } from "./with-core.ts";
import type { TenantDataOptions } from "./with-store.ts";

export interface GrantOptions extends TenantDataOptions {
  /** Grants all that is requested. */
  readonly all?: boolean;
  readonly secret?: readonly string[];
  readonly network?: readonly string[];
  /** Saves what breaks callers, too. */
  readonly allowBreaking?: boolean;
}

/**
 * `berth grant SERVER`: lists what the definition of a server requests and its entry does not give; with `--all`,
 * `--secret` or `--network` changes the entry: in the `mcps.json` of a folder of one's own, elsewhere as an edit of it does.
 */
export async function grant(server: string, options: GrantOptions): Promise<number> {
  const own = options.tenant === DEFAULT_TENANT && options.data === undefined ? servedFolder({}) : undefined;
  const file = own && readConfigFile(join(own.folder, MCPS_FILE), json);
  if (own && file && readValue(file, [server]) !== undefined) {
    return grantInFolder(own, file, server, options);
  }
  return withCore(options, async (core) => {
    const { ungranted, raw } = await requestsOf(core, server, options);
    const wanted = chosen(server, ungranted, raw, options);
    if (!wanted) return 0;
    const draft = { entry: server, files: { [server]: `${indentedJson(addGrants(raw, wanted))}\n` } };
    const subject = { kind: "entry", name: server } as const;
    return saved(
      options,
      (allowBreaking) => core.edits.save(options.tenant, subject, draft, { by: "command", rights, allowBreaking }),
      ({ problems }) => {
        tell(wanted);
        printProblems(problems);
      },
    );
  });
}

/**
 * The entry in the store follows the file with the next start: an edit of the store alone would be kept from then on, and
 * later changes of the file would not count.
 */
async function grantInFolder(own: OwnFolder, file: ConfigFile, server: string, options: GrantOptions): Promise<number> {
  const { folder, image } = own;
  const { ungrantedOf, problems } = await generate(folder, image, ownLock(image), {
    quiet: true,
    refusesServers: true,
  });
  const missing = ungrantedOf(server);
  const entry = readValue(file, [server]);
  if (missing.length === 0) printProblems(namedFromHere(problems, folder));
  const wanted = chosen(server, missing, isObject(entry) ? (entry as JsonObject) : {}, options);
  if (!wanted) return 0;
  if (isObject(entry) && typeof entry["config_cid"] === "string") {
    const where = printableLine(entry["config_cid"]);
    const lines = formatGrantLines({}, wanted).join(", ");
    throw new BerthError("config_invalid", `the entry "${server}" stands in ${where}: add ${lines} there`);
  }
  const parts = wanted.map(({ field, value }) => ({ path: [server, field], element: value }) as const);
  const after = editedText(file, parts, "add");
  process.stderr.write(renderDiff(file, after, parts));
  await writeConfigFile(file, after);
  tell(wanted);
  console.error(
    `Written to ${shownFolder(file.path)}; \`berth serve\` follows it when it starts, and \`berth dev\` at once.`,
  );
  return 0;
}

async function requestsOf({ host }: Core, server: string, { tenant }: GrantOptions) {
  const summary = await host.summary(tenant, server);
  if (!summary) {
    const near = nearestName(server, host.names(tenant));
    throw new BerthError("server_not_found", `"${server}"${near === undefined ? "" : `; did you mean "${near}"?`}`);
  }
  if (!summary.catalog) {
    printProblems(summary.problems);
    throw new BerthError("server_refused", `"${server}" is not served, so nobody knows what it requests`);
  }
  return {
    ungranted: summary.catalog.ungranted ?? [],
    raw: host.directory(tenant)?.servers.get(server)?.entry.raw ?? {},
  };
}

/**
 * The requests to grant. Undefined after it has printed all requests, if the options name none, or that there are none.
 * Throws for what the definition does not request.
 */
function chosen(
  server: string,
  ungranted: readonly RequestedGrant[],
  raw: JsonObject,
  { all = false, secret = [], network = [] }: GrantOptions,
): readonly RequestedGrant[] | undefined {
  if (all) {
    if (ungranted.length > 0) return ungranted;
    console.error(`${printable(server)} has all that its definition requests; nothing was changed.`);
    return undefined;
  }
  const named = [
    ...secret.map((value) => ({ field: "secrets", value }) as const),
    ...network.map((value) => ({ field: "network", value }) as const),
  ];
  if (named.length === 0) {
    list(server, ungranted, raw);
    return undefined;
  }
  return named.map(({ field, value }) => {
    const found = ungranted.find((each) => each.field === field && each.value === value);
    if (found) return found;
    const what = field === "secrets" ? `the secret "${value}"` : `the host "${value}"`;
    const near = nearestName(
      value,
      ungranted.filter((each) => each.field === field).map((each) => each.value),
    );
    const hint = near === undefined ? `"berth grant ${server}" lists what it does` : `did you mean "${near}"?`;
    throw new BerthError("invalid_params", `"${server}" does not request ${what}, or has it already; ${hint}`);
  });
}

function list(server: string, ungranted: readonly RequestedGrant[], raw: JsonObject): void {
  for (const request of ungranted) {
    const { field, value, purpose = "" } = request;
    const place = formatLocation({ ...request, code: "", message: "", severity: "warning" });
    const tag = field === "secrets" ? "@secret" : "@network";
    console.log(printable([tag, value, purpose, `(${place})`].filter(Boolean).join(" ")));
  }
  if (ungranted.length === 0) {
    console.error(`${printable(server)} has all that its definition requests.`);
    return;
  }
  const lines = formatGrantLines(raw, ungranted).map((line) => `  ${line}`);
  console.error(
    printable(
      `"berth grant ${server} --all" lets its entry in mcps say\n${lines.join(",\n")}\n--secret NAME and --network HOST grant one of them.`,
    ),
  );
}

function tell(granted: readonly RequestedGrant[]): void {
  for (const { field, value } of granted) {
    console.log(printable(`+ ${field === "secrets" ? "secret" : "network"} ${value}`));
  }
}
