import { existsSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, relative, sep } from "node:path";
import { ownUrl, tokenIfOwn } from "../../commands/own-berth.ts";
import { Terminal } from "../../commands/terminal.ts";
import {
  differenceOf,
  editedText,
  readConfigFile,
  targetOf,
  valueIn,
  writeConfigFile,
  type ConfigFile,
} from "../../config-files/config-file.ts";
import type { FileFormat, FilePart } from "../../config-files/file-part.ts";
import { json, jsonc } from "../../config-files/json-file.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import { printableLine } from "../../lib/printable.ts";
import { clientName, clients, findClient, type KnownClient } from "./clients.ts";
import { toml } from "./toml-file.ts";

const FORMATS: Readonly<Record<KnownClient["format"], FileFormat>> = { json, jsonc, toml };

export interface ConnectCommandOptions {
  readonly client: string;
  /** The server's name in the client; by default its own. */
  readonly name?: string;
  /** The URL of a running Berth; by default the one of the environment. */
  readonly url?: string;
  readonly project?: boolean;
  readonly remove?: boolean;
  readonly print?: boolean;
  readonly yes?: boolean;
}

/**
 * `berth connect SERVER --client NAME`: shows how a client's own configuration file would change, and changes it when
 * the person at the terminal agrees. Exit code 1 means that it was left as it is.
 */
export async function connect(server: string | undefined, options: ConnectCommandOptions): Promise<number> {
  const client = clientOf(options.client);
  const address = addressOf(server, options.url ?? ownUrl());
  const name = nameOf(address, options.name);
  const path = pathOf(client, options.project);
  if (options.project) checkInProject(path);
  const file = readConfigFile(path, FORMATS[client.format]);
  const isGiven = options.remove === true || (await needsToken(address));
  const parts = client.parts({ name, url: address.href, isGiven });
  const there = addressIn(valueIn(file, parts.at(-1)!.path));
  const place = `${nameForPeople(file.path)} of ${client.name}`;

  if (there !== undefined && !isSameServer(there, address)) {
    const what = `"${name}" in ${place} leads to ${printableLine(there)}`;
    const how = options.remove ? "give that address to remove it" : "give this server another name, with --name";
    throw new BerthError("client_file_invalid", `${what}, and not to ${address.href}: ${how}`);
  }
  const after = editedText(file, parts, options.remove ? "remove" : "add");
  if (after === (file.text ?? "")) {
    console.error(options.remove ? `${place} has no "${name}".` : `${place} has "${name}" already.`);
    return 0;
  }
  if (!(await isWanted(file, after, parts, options))) return options.print ? 0 : 1;
  await writeConfigFile(file, after);
  if (options.remove) console.error(`"${name}" is out of ${place}.`);
  else {
    tellAdded(client, name, address, place, isGiven);
    const notes = [client.note, options.project ? client.projectNote : undefined];
    for (const note of notes) if (note !== undefined) console.error(note);
  }
  return 0;
}

function clientOf(id: string): KnownClient {
  const client = findClient(id.toLowerCase());
  if (client) return client;
  const ids = clients.map((each) => each.id);
  const near = nearestName(id, ids);
  const meant = near === undefined ? "" : `; did you mean ${near}?`;
  throw new BerthError("invalid_params", `"${printableLine(id)}" is none of ${ids.join(", ")}${meant}`);
}

/** The address of a server, or of all servers: as given, or by its name at a Berth. */
function addressOf(server: string | undefined, berth: string): URL {
  const isAddress = server !== undefined && /^https?:/i.test(server);
  const base = isAddress ? server : berth;
  if (!URL.canParse(base) || !/^https?:$/.test(new URL(base).protocol)) {
    throw new BerthError("invalid_params", `"${printableLine(base)}" is no address of http or https`);
  }
  const address = new URL(base);
  if (address.username + address.password + address.search + address.hash !== "") {
    throw new BerthError("invalid_params", "the address has more than a host and a path, and may hold a secret");
  }
  if (isAddress) return address;
  const root = address.pathname.replace(/\/(?:mcp\/?)?$/, "");
  const word = server === undefined ? "" : `/${encodeURIComponent(server).replaceAll("%40", "@")}`;
  address.pathname = `${root}/mcp${word}`;
  return address;
}

/** `/mcp/<server>` and `/mcp/<server>/mcp`, also of a tenant. */
const SERVER = /\/mcp\/([^/]+?)(?:\/mcp)?\/?$/;

function nameOf({ pathname, hostname }: URL, wanted: string | undefined): string {
  if (wanted !== undefined) {
    if (clientName(wanted) === wanted) return wanted;
    throw new BerthError("invalid_params", `--name takes letters, digits and "-", not "${printableLine(wanted)}"`);
  }
  const [, word] = SERVER.exec(pathname) ?? [];
  // A release has the name of its server.
  if (word !== undefined) return clientName(decodeURIComponent(word).replace(/(?!^)@[^@]*$/, ""));
  return /\/mcp\/?$/.test(pathname) ? clientName("berth") : clientName(hostname);
}

function isSameServer(there: string, address: URL): boolean {
  const plain = (url: URL): string => url.origin + url.pathname.replace(/(\/mcp\/[^/]+?)(?:\/mcp)?\/?$/, "$1");
  return URL.canParse(there) && plain(new URL(there)) === plain(address);
}

/** The address that an entry leads to. */
function addressIn(entry: unknown): string | undefined {
  if (entry === undefined) return undefined;
  const { url, httpUrl, serverUrl, args } = isObject(entry) ? entry : {};
  const texts = [url, httpUrl, serverUrl, ...(Array.isArray(args) ? args : [])];
  return String(texts.find((text) => typeof text === "string" && /^https?:/i.test(text)) ?? "another program");
}

function pathOf(client: KnownClient, isOfProject = false): string {
  const own = isOfProject ? client.projectFile : client.userFile(process.env);
  if (own === undefined) throw new BerthError("invalid_params", `${client.name} has no file of a project`);
  const path = isOfProject ? join(process.cwd(), own) : own;
  const others = (client.otherNames ?? []).map((name) => join(path, "..", name));
  return [path, ...others].find((each) => existsSync(each)) ?? path;
}

/** A repository may contain links: whoever agrees to change `.mcp.json` there agrees to no change of another file. */
function checkInProject(path: string): void {
  const place = realPlace(path);
  if (place.startsWith(join(realpathSync("."), sep))) return;
  throw new BerthError("client_file_invalid", `${path} leads out of the project, to ${printableLine(place)}`);
}

/** The end of all links, also for a file that does not exist yet. */
function realPlace(path: string): string {
  const target = targetOf(path);
  return existsSync(target) ? realpathSync(target) : join(realPlace(dirname(target)), basename(target));
}

const ANSWER_MS_MAX = 10_000;

/** True if clients have to be given a token; false also where they get one by themselves. */
async function needsToken(address: URL): Promise<boolean> {
  const token = tokenIfOwn(address.href);
  const first = await ask(address);
  const isAsked = first.status === 401;
  const { status, reason } = isAsked && token !== undefined ? await ask(address, token) : first;
  if (status === 404) throw new BerthError("server_not_found", `${address.href}${reason}`);
  if (token !== undefined && (status === 401 || status === 403)) {
    throw new BerthError("unauthorized", `${address.href} refuses that of BERTH_TOKEN${reason}`);
  }
  return isAsked && !first.isSignIn;
}

interface Answer {
  readonly status: number;
  /** True where clients find an authorization server. */
  readonly isSignIn: boolean;
  /** The error's message in parentheses, or "". */
  readonly reason: string;
}

async function ask(address: URL, token?: string): Promise<Answer> {
  const headers = {
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    ...(token !== undefined && { Authorization: `Bearer ${token}` }),
  };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" });
  const signal = AbortSignal.timeout(ANSWER_MS_MAX);
  try {
    const response = await fetch(address, { method: "POST", headers, body, redirect: "manual", signal });
    const isJson = response.headers.get("content-type")?.includes("json") === true;
    const text = await response.text();
    const { error } = (isJson ? JSON.parse(text) : {}) as { error?: { message?: unknown } };
    return {
      status: response.status,
      isSignIn: response.headers.get("www-authenticate")?.includes("resource_metadata") === true,
      reason: typeof error?.message === "string" ? ` (${printableLine(error.message)})` : "",
    };
  } catch (cause) {
    const how = "start Berth, or say with --url where it serves";
    throw new BerthError("upstream_not_started", `no MCP server answers at ${address.href}; ${how}`, { cause });
  }
}

async function isWanted(
  file: ConfigFile,
  after: string,
  parts: readonly FilePart[],
  { print, yes }: ConnectCommandOptions,
): Promise<boolean> {
  const path = nameForPeople(file.path);
  const change = differenceOf(file, after, parts);
  const shown = `--- ${file.text === undefined ? "/dev/null" : path}\n+++ ${after === "" ? "/dev/null" : path}\n${change}`;
  if (print) {
    process.stdout.write(shown);
    return false;
  }
  process.stderr.write(shown);
  if (yes) return true;
  const terminal = Terminal.open();
  if (!terminal) {
    console.error(`Nobody can be asked here whether to change ${path}; --yes changes it.`);
    return false;
  }
  try {
    return /^y(?:es)?$/i.test((await terminal.read(`Change ${path}? (y/n) `))?.trim() ?? "");
  } finally {
    terminal.close();
  }
}

function tellAdded(client: KnownClient, name: string, address: URL, place: string, isGiven: boolean): void {
  console.error(`"${name}" in ${place} leads to ${address.href}.`);
  if (isGiven)
    console.error(`Requests require a token (berth token create), which ${client.name} reads from ${client.token}.`);
}

/** A path as people write it. */
function nameForPeople(path: string): string {
  const fromHome = relative(process.env["HOME"] || homedir(), path);
  return fromHome.startsWith("..") ? path : `~${sep}${fromHome}`;
}
