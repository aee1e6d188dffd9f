import { isObject, type Json } from "../../lib/json.ts";
import { invalid } from "./parse.ts";

type Members = Readonly<Record<string, Json>>;

/** A server as a client's file configures it, in one form for all clients. Values are unchecked. */
export interface ConfiguredServer {
  readonly name: string;
  readonly command: string | undefined;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
  readonly envFile: string | undefined;
  readonly url: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly type: string | undefined;
  readonly isEnabled: boolean;
  readonly description: string | undefined;
  /** Settings that Berth has no equivalent of. */
  readonly ignored: readonly string[];
  /** Why it cannot be imported, if its form shows that. */
  readonly fault?: string;
}

export interface ClientConfig {
  readonly servers: readonly ConfiguredServer[];
  /** Values that VS Code asks its user for, by their ids. */
  readonly inputs: ReadonlyMap<string, { readonly description: string; readonly fallback: string | undefined }>;
}

const SERVERS_MAX = 500;
const LISTS = ["mcpServers", "servers", "mcp_servers", "context_servers", "extensions", "mcp", "amp.mcpServers"];

/** The servers of a parsed file. `folder` chooses a project in Claude Code's own file. */
export function findServers(file: string, root: Json, folder?: string): ClientConfig {
  if (!isObject(root)) throw invalid(file, "it is not a configuration of MCP servers");
  const found = listsIn(root as Members, folder).flatMap(readEntries);
  const bare = found.length > 0 ? [] : bareEntries(root);
  const entries = [...found, ...bare];
  if (entries.length === 0 && !LISTS.some((name) => name in root)) {
    const expected = "mcpServers, servers, mcp, mcp_servers, context_servers or extensions";
    throw invalid(file, `it lists no MCP servers; they are expected in ${expected}`);
  }
  if (entries.length > SERVERS_MAX) throw invalid(file, `it has more than ${SERVERS_MAX} servers`);
  return { servers: entries.map(([name, raw]) => readServer(name, raw)), inputs: readInputs(root) };
}

function listsIn(root: Members, folder: string | undefined): Json[] {
  const lists = LISTS.flatMap((name) => (root[name] === undefined ? [] : [root[name]]));
  const nested = lists.flatMap((list) =>
    isObject(list) ? LISTS.flatMap((name) => objectAt(list as Members, name)) : [],
  );
  // In settings.json of VS Code and in Zed's, the list is one level deeper.
  const top = lists.filter((list) => !isObject(list) || !LISTS.some((name) => objectAt(list, name).length > 0));
  const projects = objectAt(root, "projects")[0];
  const project = folder === undefined || !projects ? undefined : projects[folder];
  return [...top, ...nested, ...(isObject(project) ? objectAt(project, "mcpServers") : [])];
}

function objectAt(members: Members, name: string): Members[] {
  const value = members[name];
  // A server may be called "servers".
  return isObject(value) && !isServer(value) ? [value] : [];
}

function readEntries(list: Json): [string, Json][] {
  if (isObject(list)) return Object.entries(list as Members);
  if (!Array.isArray(list)) return [];
  return list.map((item, index) => {
    const name = isObject(item) ? (item["name"] ?? item["id"]) : undefined;
    return [typeof name === "string" ? name : `server-${index + 1}`, item];
  });
}

/** Servers without a list around them, or a single one. */
function bareEntries(root: Members): [string, Json][] {
  if (isServer(root)) return [[typeof root["name"] === "string" ? root["name"] : "server", root]];
  const entries = Object.entries(root).filter(([, value]) => isObject(value) && isServer(value as Members));
  return entries;
}

function isServer(value: Members): boolean {
  return ["command", "cmd", "url", "serverUrl", "httpUrl", "uri"].some((name) => {
    return typeof value[name] === "string" || (name === "command" && value[name] !== undefined);
  });
}

const READ = new Set(
  `name id command cmd args arguments env environment envs env_keys env_vars cwd workingDirectory working_directory
  envFile env_file url serverUrl server_url httpUrl http_url uri headers http_headers env_http_headers
  bearer_token_env_var type transport transportType transport_type disabled enabled description source`.split(/\s+/),
);

function readServer(name: string, raw: Json): ConfiguredServer {
  const none = {
    command: undefined,
    args: [],
    env: {},
    cwd: undefined,
    envFile: undefined,
    url: undefined,
    headers: {},
  };
  const absent = { type: undefined, isEnabled: true, description: undefined, ignored: [] };
  if (!isObject(raw)) return { name, ...none, ...absent, fault: "its entry is not an object" };
  // Zed nests the program in `command`, some clients nest the connection in `transport`.
  const nested = [raw["command"], raw["transport"]].flatMap((value) => (isObject(value) ? [value as Members] : []));
  const path = nested.map((each) => each["path"]).find((value) => typeof value === "string");
  const all: Members = Object.assign({}, raw, ...nested, path === undefined ? {} : { command: path });
  const faults: string[] = [];
  const text = (...names: string[]): string | undefined => {
    const key = names.find((each) => all[each] !== undefined && all[each] !== null);
    const value = key === undefined ? undefined : all[key];
    if (value === undefined || typeof value === "string") return value;
    if (!isObject(value)) faults.push(`"${key}" is not a string`);
    return undefined;
  };
  const texts = (...names: string[]): Record<string, string> => {
    const members: [string, string][] = [];
    for (const key of names) {
      const value = all[key] ?? {};
      if (!isObject(value)) faults.push(`"${key}" is not an object`);
      else
        for (const [each, item] of Object.entries(value)) {
          if (typeof item === "object" && item !== null) faults.push(`a value in "${key}" is not a string`);
          else if (item !== null) members.push([each, String(item)]);
        }
    }
    return Object.fromEntries(members);
  };
  const list = (key: string): string[] => {
    const value = all[key] ?? [];
    const items = Array.isArray(value) ? value : [value];
    const named = items.map((item) => (isObject(item) && typeof item["name"] === "string" ? item["name"] : item));
    if (named.some((item) => typeof item === "object")) faults.push(`an item of "${key}" is not a string`);
    return named.filter((item) => typeof item !== "object").map(String);
  };
  const variables = (...keys: string[]): Record<string, string> =>
    Object.fromEntries(keys.flatMap(list).map((each) => [each, `\${${each}}`]));
  const commands = Array.isArray(all["command"]) ? list("command") : [text("command", "cmd")];
  const [command, ...first] = commands.filter((each) => each !== undefined);
  const bearer = text("bearer_token_env_var");
  const dynamic = Object.entries(texts("env_http_headers")).map(([header, each]) => [header, `\${${each}}`]);
  const type = text("type", "transport", "transportType", "transport_type");
  const url = text("url", "serverUrl", "server_url", "httpUrl", "http_url", "uri");
  if (command === undefined && url === undefined) {
    const isPart = type !== undefined && /^(?:builtin|platform|frontend|inline_python)$/.test(type);
    const isExtension = "settings" in raw || raw["source"] === "extension";
    if (isPart) faults.unshift(`it is part of the client itself (type ${type})`);
    else if (isExtension) faults.unshift("an extension of the client starts it");
    else faults.unshift("it has neither a command nor a URL");
  }
  const server = {
    name,
    command,
    args: [...first, ...list("args"), ...list("arguments")],
    env: { ...texts("env", "environment", "envs"), ...variables("env_keys", "env_vars") },
    cwd: text("cwd", "workingDirectory", "working_directory"),
    envFile: text("envFile", "env_file"),
    url,
    headers: {
      ...texts("headers", "http_headers"),
      ...Object.fromEntries(dynamic),
      ...(bearer !== undefined && { Authorization: `Bearer \${${bearer}}` }),
    },
    type,
    isEnabled: all["disabled"] !== true && all["enabled"] !== false,
    description: text("description"),
    ignored: Object.keys(raw).filter((key) => !READ.has(key)),
  };
  const [fault] = faults;
  return fault === undefined ? server : { ...server, fault };
}

function readInputs(root: Members): ClientConfig["inputs"] {
  const nested = isObject(root["mcp"]) ? (root["mcp"] as Members)["inputs"] : undefined;
  const inputs = root["inputs"] ?? nested;
  const read = (Array.isArray(inputs) ? inputs : []).flatMap((item) => {
    if (!isObject(item) || typeof item["id"] !== "string") return [];
    const { id, description, default: fallback } = item;
    const about = typeof description === "string" ? description : id;
    return [[id, { description: about, fallback: typeof fallback === "string" ? fallback : undefined }] as const];
  });
  return new Map(read);
}
