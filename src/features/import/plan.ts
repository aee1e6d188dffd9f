import { serverNameProblem } from "../../entry/fields.ts";
import { isObject, type Json, type JsonObject } from "../../lib/json.ts";
import { findCredential } from "./credentials.ts";
import { commandEntry, packageEntry, remoteEntry } from "./entries.ts";
import { parseConfig } from "./parse.ts";
import { SecretPlan, type Stored } from "./secret-plan.ts";
import { findServers, type ConfiguredServer } from "./servers.ts";
import { Refusal, Texts, type Place } from "./texts.ts";

/** The servers and secrets that an import of a client's file would save. */
export interface ImportPlan {
  readonly servers: readonly ImportedServer[];
  readonly refused: readonly { readonly name: string; readonly reason: string }[];
  /** Values of the secrets that the file contains: never to be printed, logged or sent back. */
  readonly secrets: ReadonlyMap<string, string>;
  /** Secrets without a value in the file, with what its author says of them. */
  readonly unset: ReadonlyMap<string, string>;
}

export interface ImportedServer {
  /** In Berth. */
  readonly name: string;
  readonly entry: JsonObject;
  /** Differences that the person should know: another name, settings without an equivalent. */
  readonly notes: readonly string[];
}

export interface PlanOptions extends Place {
  /** Names that servers have already. */
  readonly taken?: (name: string) => boolean;
  /** New names of servers, by their names in the file. */
  readonly renamed?: ReadonlyMap<string, string>;
  /** The names of secrets that exist, with their values if those can be read. */
  readonly stored?: Stored;
}

/** Plans the import of a file. Throws `import_refused` for one that is no configuration of servers. */
export function planImport(file: string, text: string, options: PlanOptions = {}): ImportPlan {
  const { servers, inputs } = findServers(file, parseConfig(file, text), options.folder);
  let secrets = new SecretPlan(options.stored);
  const names = new Set<string>();
  const imported: ImportedServer[] = [];
  const refused: { name: string; reason: string }[] = [];
  for (const server of servers) {
    try {
      checkText(server);
      const name = chooseName(server.name, names, options);
      const tried = secrets.copy();
      const { entry, notes } = convert(server, new Texts(name, inputs, tried, options));
      const isRenamed = name !== server.name;
      imported.push({ name, entry, notes: isRenamed ? [`it is called "${server.name}" there`, ...notes] : notes });
      names.add(name);
      secrets = tried;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refused.push({ name: server.name, reason: error.message });
    }
  }
  // A secret may occur where no rule looks for one, such as in a description.
  const kept = imported.filter(({ name, entry }) => {
    const isClean = ![...secrets.values.values()].some((value) => contains(entry, value));
    if (!isClean) refused.push({ name, reason: "it repeats a secret where only plain text can be" });
    return isClean;
  });
  const used = new Set(kept.flatMap(({ entry }) => (entry["secrets"] as string[] | undefined) ?? []));
  const inUse = <T>(all: ReadonlyMap<string, T>): Map<string, T> =>
    new Map([...all].filter(([name]) => used.has(name)));
  return { servers: kept, refused, secrets: inUse(secrets.values), unset: inUse(secrets.unset) };
}

const NAME_UNITS_MAX = 256;
const TEXT_UNITS_MAX = 64 * 1024;
const ITEMS_MAX = 500;
// oxlint-disable-next-line no-control-regex -- finds control characters on purpose
const CONTROL = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/;

function checkText(server: ConfiguredServer): void {
  if (server.fault !== undefined) throw new Refusal(server.fault);
  const { command, cwd, envFile, url, description, args, env, headers } = server;
  const names = [server.name, ...Object.keys(env), ...Object.keys(headers)];
  const values = [command, cwd, envFile, url, description, ...args, ...Object.values(env), ...Object.values(headers)];
  if (names.length + values.length > ITEMS_MAX) throw new Refusal(`it has more than ${ITEMS_MAX} settings`);
  if (names.some((name) => CONTROL.test(name) || /[\r\n\t]/.test(name)))
    throw new Refusal("a name has a control character");
  if (names.some((name) => name.length > NAME_UNITS_MAX)) throw new Refusal("a name is too long");
  if (values.some((value = "") => CONTROL.test(value))) throw new Refusal("a value has a control character");
  if (values.some((value = "") => value.length > TEXT_UNITS_MAX)) throw new Refusal("a value is too long");
}

function chooseName(original: string, names: ReadonlySet<string>, { taken, renamed }: PlanOptions): string {
  const chosen = renamed?.get(original);
  const name = chosen ?? toServerName(original);
  const problem = serverNameProblem(name);
  if (problem !== undefined) throw new Refusal(`${problem}; choose one with --rename`);
  if (!taken?.(name) && !names.has(name)) return name;
  throw new Refusal(`there is a server "${name}" already; choose another name with --rename "${original}=${name}-2"`);
}

function toServerName(name: string): string {
  const plain = name.normalize("NFKD").replace(/[^A-Za-z0-9_.-]+/g, "-");
  return plain.replace(/^[^A-Za-z0-9]+|-+$/g, "").slice(0, 64);
}

function convert(server: ConfiguredServer, texts: Texts): { entry: JsonObject; notes: string[] } {
  const made =
    server.command === undefined
      ? remoteEntry(server, texts)
      : (packageEntry(server, texts) ?? commandEntry(server, texts));
  const { description = "" } = server;
  const entry: JsonObject = {
    ...(!server.isEnabled && { enabled: false }),
    ...(description !== "" && findCredential("", description) === undefined && { description }),
    ...made,
    ...(texts.secretNames.length > 0 && { secrets: texts.secretNames }),
  };
  const notes = [...texts.notes];
  if (!server.isEnabled) notes.push("it is disabled there, and stays so");
  if (server.ignored.length > 0) notes.push(`without ${server.ignored.slice(0, 10).join(", ")}`);
  return { entry, notes };
}

function contains(value: Json, secret: string): boolean {
  if (typeof value === "string") return value.includes(secret) || value.includes(encodeURIComponent(secret));
  if (Array.isArray(value)) return value.some((item) => contains(item, secret));
  return isObject(value) && Object.values(value).some((item) => contains(item, secret));
}
