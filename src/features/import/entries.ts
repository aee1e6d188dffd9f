import { parseEnv } from "node:util";
import type { JsonObject } from "../../lib/json.ts";
import { launcherFromUrl, parseServer } from "../../upstream/launch/launcher-uri.ts";
import { hasCredential, isCredentialName, isTokenInPath } from "./credentials.ts";
import type { ConfiguredServer } from "./servers.ts";
import { Refusal, type Texts } from "./texts.ts";

/** A key of a launcher URI, and its value, not yet encoded. */
type Pair = readonly [key: string, value: string];

/** The entry of a server that npx or uvx starts; undefined if a launcher URI cannot express the command. */
export function packageEntry(server: ConfiguredServer, texts: Texts): JsonObject | undefined {
  const [command = "", ...args] = commandLine(server);
  const start = /^npx(?:\.cmd)?$/.test(command) ? npxStart(args) : command === "uvx" ? uvxStart(args) : undefined;
  if (!start) return undefined;
  // Arguments of a URI have no variables, and secrets are variables.
  const converted = argumentTemplates(start.args, server, texts.forTrial());
  if (converted.some((each) => /(?<!\$)\$\{/.test(each))) return undefined;
  const environment = readEnvironment(server, texts);
  const cwd = chooseFolder(server, texts, start.args.some(isRelative));
  const upstream = launcherUri(start.uri, [
    ...converted.map((each): Pair => ["arg", each.replaceAll("$${", "${")]),
    ...Object.entries(environment).map(([name, value]): Pair => [`env.${name}`, value]),
    ...(cwd === undefined ? [] : [["cwd", cwd] as const]),
  ]);
  const { problems } = parseServer(upstream);
  return problems ? undefined : { upstream };
}

/** The entry of any other program. */
export function commandEntry(server: ConfiguredServer, texts: Texts): JsonObject {
  const [command = "", ...args] = commandLine(server);
  if (command === "") throw new Refusal("its command is empty");
  const isPath = /[\\/]/.test(command) || command.startsWith("~");
  const program =
    isPath || command.includes("$") ? texts.path("its command", command) : texts.literal("its command", command);
  const templates = argumentTemplates(args, server, texts);
  const environment = readEnvironment(server, texts);
  const isElsewhere = /^(?:npx|uvx|bunx|docker|podman)$/.test(command) && !args.some(isRelative);
  const cwd = chooseFolder(server, texts, !isElsewhere);
  if (/^(?:docker|podman)$/.test(command)) hideFromArguments(templates, environment);
  return {
    command: program,
    ...(templates.length > 0 && { args: templates }),
    ...(Object.keys(environment).length > 0 && { env: environment }),
    ...(cwd !== undefined && { cwd }),
  };
}

/** The entry of a server at a URL. */
export function remoteEntry({ url = "", headers, type = "" }: ConfiguredServer, texts: Texts): JsonObject {
  if (/^(?:wss?|websocket)$/i.test(type) || /^wss?:/i.test(url))
    throw new Refusal("MCP over WebSocket is not supported");
  const [, address = "", query = ""] = /^([^?#]*)(?:\?([^#]*))?/.exec(url) ?? [];
  const plain = texts.literal("its URL", address.replace(/\/\/[^/@]*@/, "//"));
  if (!/^https?:\/\//i.test(plain) || !URL.canParse(plain)) throw new Refusal("its URL is not an http or https URL");
  if (plain.split("/").slice(3).some(isTokenInPath)) {
    throw new Refusal("the path of its URL has a credential, and only headers and queries can have one");
  }
  const pairs: Pair[] = [];
  const [, user, password = ""] = /\/\/([^/:@]*)(?::([^/@]*))?@/.exec(address) ?? [];
  if (user !== undefined) {
    const value = Buffer.from(`${decodeURIComponent(user)}:${decodeURIComponent(password)}`).toString("base64");
    pairs.push(["header.Authorization", texts.template("AUTHORIZATION", `Basic ${value}`)]);
  }
  for (const [name, value] of new URLSearchParams(query)) pairs.push([`query.${name}`, texts.template(name, value)]);
  for (const [name, value] of Object.entries(headers)) {
    const key = `header.${name}`;
    const pair: Pair = [key, texts.template(name === "Authorization" ? "TOKEN" : name, value)];
    const isOwn = parseServer(launcherUri("mcp+https://example.com", [pair])).problems?.some(
      ({ code }) => code === "bad-header",
    );
    if (isOwn) texts.notes.push(`without the header ${name}, which the connection sets`);
    else pairs.push(pair);
  }
  const upstream = launcherUri(launcherFromUrl(plain), pairs);
  const { problems } = parseServer(upstream);
  if (problems) throw new Refusal("its URL or a header of it is not valid");
  return { upstream };
}

/** Windows needs a shell to start npx. */
function commandLine({ command = "", args }: ConfiguredServer): string[] {
  const words = [command.trim(), ...args];
  if (/^cmd(?:\.exe)?$/i.test(words[0]!) && /^\/[cC]$/.test(words[1] ?? "")) words.splice(0, 2);
  // Some clients accept a whole command line.
  const [first = "", ...rest] = words;
  return /^(?:npx|uvx|uv|node|python3?|docker|bunx?|deno)\s/.test(first) && !/["'\\]/.test(first)
    ? [...first.split(/\s+/), ...rest]
    : [first, ...rest];
}

interface PackageStart {
  readonly uri: string;
  readonly args: readonly string[];
}

function npxStart(args: readonly string[]): PackageStart | undefined {
  const index = args.findIndex((each) => !/^(?:-y|--yes|-q|--quiet|--prefer-offline|--prefer-online|--)$/.test(each));
  const name = args[index];
  return name === undefined || name.startsWith("-")
    ? undefined
    : { uri: `mcp+npx://${name}`, args: args.slice(index + 1) };
}

function uvxStart(args: readonly string[]): PackageStart | undefined {
  const isFrom = args[0] === "--from";
  const [name = "", program, ...rest] = isFrom ? args.slice(1) : args;
  if (name.startsWith("-") || (isFrom && program === undefined)) return undefined;
  const target = name.replace(/==/, "@");
  if (!isFrom) return { uri: `mcp+uvx://${target}`, args: args.slice(1) };
  return { uri: `mcp+uvx://${target}/${program}`, args: rest };
}

/** `--token VALUE`, `--token=VALUE`, `-e NAME=VALUE` and `Header: VALUE` name what they contain. */
function argumentTemplates(
  args: readonly string[],
  { env }: ConfiguredServer,
  texts: Pick<Texts, "template">,
): string[] {
  return args.map((argument, index) => {
    const before = args[index - 1] ?? "";
    const isOwn = (variable: string): boolean => Object.hasOwn(env, variable);
    const [, name, separator = "", value = ""] = /^(-{0,2}[A-Za-z][\w.-]*)(=|:\s*)([^]+)$/.exec(argument) ?? [];
    const isNamed = name !== undefined && !value.startsWith("//");
    if (isNamed)
      return `${name}${separator}${texts.template(name.replace(/^-+/, ""), value, { isOwn, isSetting: /^[A-Z0-9_]+$/.test(name) })}`;
    const flag = /^--?([A-Za-z][\w-]*)$/.exec(before)?.[1] ?? "";
    const label = !argument.startsWith("-") && isCredentialName(flag) ? flag : hasCredential(argument) ? "URL" : "";
    return texts.template(label, argument, { isOwn });
  });
}

/** Other users of the machine see arguments, so a container gets its variables from the environment. */
function hideFromArguments(args: string[], environment: Record<string, string>): void {
  for (const [index, argument] of args.entries()) {
    const [, flag = "", name, value = ""] = /^((?:-e|--env)=)?([A-Za-z_][A-Za-z0-9_]*)=([^]*)$/.exec(argument) ?? [];
    const isVariable = flag !== "" || /^(?:-e|--env)$/.test(args[index - 1] ?? "");
    if (name === undefined || !isVariable || !/(?<!\$)\$\{/.test(value)) continue;
    args[index] = flag + name;
    environment[name] = value;
  }
}

function readEnvironment({ env, envFile }: ConfiguredServer, texts: Texts): Record<string, string> {
  const file =
    envFile === undefined ? {} : (parseEnv(texts.variables("its envFile", envFile)) as Record<string, string>);
  const variables = Object.entries({ ...file, ...env }).map(([name, value]): [string, string] => {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) throw new Refusal("a name in its environment is not one of a variable");
    return [name, texts.template(name, value, { isSetting: true })];
  });
  return Object.fromEntries(variables);
}

function chooseFolder({ cwd }: ConfiguredServer, texts: Texts, isNeeded: boolean): string | undefined {
  if (cwd !== undefined && cwd !== "") return texts.path("its cwd", cwd);
  return isNeeded ? texts.place.folder : undefined;
}

function isRelative(argument: string): boolean {
  return /^\.{1,2}(?:\/|$)/.test(argument);
}

/** Encodes what would end a value, and leaves variables readable. */
function launcherUri(start: string, pairs: readonly Pair[]): string {
  const encode = (text: string): string =>
    encodeURIComponent(text)
      .replaceAll("%24%7B", "${")
      .replaceAll("%24%24", "$$")
      .replaceAll("%7D", "}")
      .replaceAll("%3A-", ":-")
      .replaceAll("%2F", "/")
      .replaceAll("%40", "@")
      .replaceAll("%3A", ":")
      .replaceAll("%2C", ",");
  if (pairs.length === 0) return start;
  const separator = start.includes("?") ? "&" : "?";
  return `${start}${separator}${pairs.map(([key, value]) => `${encodeURIComponent(key)}=${encode(value)}`).join("&")}`;
}
