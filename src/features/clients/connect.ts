import { existsSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, join, relative, sep } from "node:path";
import { ownUrl, tokenIfOwn } from "../../commands/own-berth.ts";
import { isConfirmed } from "../../commands/terminal.ts";
import {
  renderDiff,
  editedText,
  readConfigFile,
  resolveTarget,
  readValue,
  writeConfigFile,
  type ConfigFile,
} from "../../config-files/config-file.ts";
import type { FileFormat, FilePart } from "../../config-files/file-part.ts";
import { json, jsonc } from "../../config-files/json-file.ts";
import { BerthError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json.ts";
import { nearestName } from "../../lib/near-names.ts";
import { printableLine } from "../../lib/printable.ts";
import { clientName, clients, findClient, type ClientKind } from "./clients.ts";
import { toml } from "./toml-file.ts";

const FORMATS: Readonly<Record<ClientKind["format"], FileFormat>> = { json, jsonc, toml };

export interface ConnectCommandOptions {
  readonly client: string;
  /** The server's name in the client; by default its own. */
  readonly name?: string;
  /** The URL of a running Berth; by default that of the environment. */
  readonly url?: string;
  readonly project?: boolean;
  readonly remove?: boolean;
  readonly print?: boolean;
  readonly yes?: boolean;
}

/**
 * `berth connect SERVER --client NAME`: shows how a client's configuration file would change, and changes it if the
 * person at the terminal agrees. Exit code 1 means that it was not changed.
 */
export async function connect(server: string | undefined, options: ConnectCommandOptions): Promise<number> {
  const client = parseClient(options.client);
  const address = resolveUrl(server, options.url ?? ownUrl());
  const name = resolveName(address, options.name);
  const path = findFile(client, options.project);
  if (options.project) checkInProject(path);
  const file = readConfigFile(path, FORMATS[client.format]);
  const isGiven = options.remove === true || (await needsToken(address));
  const parts = client.parts({ name, url: address.href, needsToken: isGiven });
  const currentUrl = findUrl(readValue(file, parts.at(-1)!.path));
  const place = `${displayPath(file.path)} of ${client.name}`;

  if (currentUrl !== undefined && !isSameServer(currentUrl, address)) {
    const what = `"${name}" in ${place} points to ${printableLine(currentUrl)}`;
    const how = options.remove ? "use that address to remove it" : "give this server another name, with --name";
    throw new BerthError("client_file_invalid", `${what}, not to ${address.href}: ${how}`);
  }
  const after = editedText(file, parts, options.remove ? "remove" : "add");
  if (after === (file.text ?? "")) {
    console.error(options.remove ? `${place} has no "${name}".` : `${place} has "${name}" already.`);
    return 0;
  }
  if (!(await confirm(file, after, parts, options))) return options.print ? 0 : 1;
  await writeConfigFile(file, after);
  if (options.remove) console.error(`"${name}" was removed from ${place}.`);
  else {
    reportAdded(client, name, address, place, isGiven);
    const notes = [client.note, options.project ? client.projectNote : undefined];
    for (const note of notes) if (note !== undefined) console.error(note);
  }
  return 0;
}

function parseClient(id: string): ClientKind {
  const client = findClient(id);
  if (client) return client;
  const ids = clients.map((each) => each.id);
  const near = nearestName(id, ids);
  const suggestion = near === undefined ? "" : `; did you mean ${near}?`;
  throw new BerthError(
    "invalid_params",
    `"${printableLine(id)}" is not a client; use one of ${ids.join(", ")}${suggestion}`,
  );
}

/** The URL of a server, or of all servers: as given, or by name on a Berth. */
function resolveUrl(server: string | undefined, berth: string): URL {
  const isAddress = server !== undefined && /^https?:/i.test(server);
  const base = isAddress ? server : berth;
  if (!URL.canParse(base) || !/^https?:$/.test(new URL(base).protocol)) {
    throw new BerthError("invalid_params", `"${printableLine(base)}" is not an http or https URL`);
  }
  const address = new URL(base);
  if (address.username + address.password + address.search + address.hash !== "") {
    throw new BerthError(
      "invalid_params",
      "the URL must have only a host and a path: anything else may contain a secret",
    );
  }
  if (isAddress) return address;
  const root = address.pathname.replace(/\/(?:mcp\/?)?$/, "");
  const word = server === undefined ? "" : `/${encodeURIComponent(server).replaceAll("%40", "@")}`;
  address.pathname = `${root}/mcp${word}`;
  return address;
}

/** `/mcp/<server>` and `/mcp/<server>/mcp`, also below a tenant. */
const SERVER = /\/mcp\/([^/]+?)(?:\/mcp)?\/?$/;

function resolveName({ pathname, hostname }: URL, requested: string | undefined): string {
  if (requested !== undefined) {
    if (clientName(requested) === requested) return requested;
    throw new BerthError("invalid_params", `--name takes letters, digits and "-", not "${printableLine(requested)}"`);
  }
  const [, word] = SERVER.exec(pathname) ?? [];
  // A release is named after its server.
  if (word !== undefined) return clientName(decodeURIComponent(word).replace(/(?!^)@[^@]*$/, ""));
  return /\/mcp\/?$/.test(pathname) ? clientName("berth") : clientName(hostname);
}

function isSameServer(currentUrl: string, address: URL): boolean {
  const normalize = (url: URL): string => url.origin + url.pathname.replace(/(\/mcp\/[^/]+?)(?:\/mcp)?\/?$/, "$1");
  return URL.canParse(currentUrl) && normalize(new URL(currentUrl)) === normalize(address);
}

/** The URL in an entry. */
function findUrl(entry: unknown): string | undefined {
  if (entry === undefined) return undefined;
  const { url, httpUrl, serverUrl, args } = isObject(entry) ? entry : {};
  const texts = [url, httpUrl, serverUrl, ...(Array.isArray(args) ? args : [])];
  return String(texts.find((text) => typeof text === "string" && /^https?:/i.test(text)) ?? "another program");
}

function findFile(client: ClientKind, isProject = false): string {
  const file = isProject ? client.projectFile : client.userFile(process.env);
  if (file === undefined) throw new BerthError("invalid_params", `${client.name} has no project file`);
  const path = isProject ? join(process.cwd(), file) : file;
  const others = (client.otherNames ?? []).map((name) => join(path, "..", name));
  return [path, ...others].find((each) => existsSync(each)) ?? path;
}

/** A repository may contain symbolic links: consent to change `.mcp.json` covers no other file. */
function checkInProject(path: string): void {
  const target = resolveLinks(path);
  if (target.startsWith(join(realpathSync("."), sep))) return;
  throw new BerthError("client_file_invalid", `${path} leads out of the project, to ${printableLine(target)}`);
}

/** The target of all symbolic links, also for a file that does not exist yet. */
function resolveLinks(path: string): string {
  const target = resolveTarget(path);
  return existsSync(target) ? realpathSync(target) : join(resolveLinks(dirname(target)), basename(target));
}

const ANSWER_MS_MAX = 10_000;

/** True if the client needs a token in its configuration; false if it can obtain one itself. */
async function needsToken(address: URL): Promise<boolean> {
  const token = tokenIfOwn(address.href);
  const first = await ask(address);
  const isTokenRequired = first.status === 401;
  const { status, reason } = isTokenRequired && token !== undefined ? await ask(address, token) : first;
  if (status === 404) throw new BerthError("server_not_found", `${address.href}${reason}`);
  if (token !== undefined && (status === 401 || status === 403)) {
    throw new BerthError("unauthorized", `${address.href} rejects the token in BERTH_TOKEN${reason}`);
  }
  return isTokenRequired && !first.isSignIn;
}

interface Answer {
  readonly status: number;
  /** True if clients can discover an authorization server. */
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
    const how = "start Berth, or use --url with its URL";
    throw new BerthError("upstream_not_started", `no MCP server answers at ${address.href}; ${how}`, { cause });
  }
}

async function confirm(
  file: ConfigFile,
  after: string,
  parts: readonly FilePart[],
  { print, yes }: ConnectCommandOptions,
): Promise<boolean> {
  const path = displayPath(file.path);
  const change = renderDiff(file, after, parts);
  const diff = `--- ${file.text === undefined ? "/dev/null" : path}\n+++ ${after === "" ? "/dev/null" : path}\n${change}`;
  if (print) {
    process.stdout.write(diff);
    return false;
  }
  process.stderr.write(diff);
  if (yes) return true;
  return isConfirmed(`Change ${path}?`, `the change of ${path}`);
}

function reportAdded(client: ClientKind, name: string, address: URL, place: string, isGiven: boolean): void {
  console.error(`"${name}" in ${place} points to ${address.href}.`);
  if (isGiven)
    console.error(`Requests require a token (berth token create), which ${client.name} reads from ${client.token}.`);
}

/** A path as people write it. */
function displayPath(path: string): string {
  const fromHome = relative(process.env["HOME"] || homedir(), path);
  return fromHome.startsWith("..") ? path : `~${sep}${fromHome}`;
}
