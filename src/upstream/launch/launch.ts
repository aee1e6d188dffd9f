/** How to reach an upstream: the content of a launcher URI or a profile, with no variables resolved. */
export type Launch = ProgramLaunch | RemoteLaunch;

export type Launcher = "npx" | "uvx" | "python" | "node" | "exec" | "http" | "https";

interface LaunchBase {
  /** As written, for messages: offsets of templates refer to it. May contain a secret that its author wrote. */
  readonly uri: string;
  /** A display name of the server, such as `@scope/pkg@1.2.3`. Never contains a secret, or a folder of the host. */
  readonly name: string;
  /** The only era to connect in; by default the modern one, if the server supports it. */
  readonly era?: "modern" | "legacy";
}

export interface ProgramLaunch extends LaunchBase {
  /** `program`: any program, by `mcp+exec://`, a profile or a configuration. */
  readonly launcher: "npx" | "uvx" | "python" | "node" | "program";
  /**
   * npx, uvx: the package, with its version if any. python, node: the path of the script, absolute or relative.
   * program: a path that contains a slash, or a name to look up in PATH.
   */
  readonly target: string;
  /** npx, uvx: the package's program to run; by default the launcher chooses. */
  readonly program?: string;
  readonly args: readonly string[];
  /** Variables in `args` are filled in, as clients do it with a command. */
  readonly hasVariablesInArgs?: true;
  readonly env: Readonly<Record<string, Template>>;
  /** By default a new empty folder. */
  readonly cwd?: string;
}

export interface RemoteLaunch extends LaunchBase {
  readonly launcher: "http" | "https";
  /** Without the query: `https://host/path`. */
  readonly url: string;
  readonly query: readonly { readonly name: string; readonly value: Template }[];
  readonly headers: Readonly<Record<string, Template>>;
}

/** The exact location, for logs. Never contains a secret. */
export function launchLocation(launch: Launch): string {
  return "url" in launch ? launch.url : launch.target;
}

/** `${NAME}` and `${NAME:-default}` stand for a variable of the starter, `$${` for a literal `${`. */
export interface Template {
  readonly text: string;
  /** The offset in the URI, from 0, for messages. */
  readonly offset: number;
}

/** `written` is the whole variable, including its braces. */
export type VariableLookup = (name: string, written?: string) => string | undefined;

/**
 * The text with its variables filled in; `unset` names those without a value. As in a shell, an empty variable takes its
 * default, too.
 */
export function fillTemplate(
  { text }: Pick<Template, "text">,
  lookUp: VariableLookup,
): { text: string; unset: string[] } {
  const unset: string[] = [];
  const [closed, rest] = atLastBrace(text);
  const filled = closed.replace(VARIABLE, (written, name: string | undefined, fallback: string | undefined) => {
    if (name === undefined) return "${";
    const current = lookUp(name, written);
    const value = fallback === undefined ? current : current || fallback;
    if (value === undefined) unset.push(name);
    return value ?? written;
  });
  return { text: filled + rest.replaceAll("$${", "${"), unset };
}

/** Linear only for text that ends with a brace. */
const VARIABLE = /\$\$\{|\$\{([^}]*?)(?::-([^}]*))?\}/g;

/** No variable ends after the last `}`, and a search there would be repeated for each opening brace. */
function atLastBrace(text: string): [closed: string, rest: string] {
  const end = text.lastIndexOf("}") + 1;
  return [text.slice(0, end), text.slice(end)];
}

export function launchVariables(launch: Launch): string[] {
  const templates =
    "url" in launch
      ? [...Object.values(launch.headers), ...launch.query.map(({ value }) => value)]
      : [...Object.values(launch.env), ...argTemplates(launch)];
  return [...new Set(templates.flatMap(({ text }) => templateVariables(text)))];
}

/** The arguments as templates; none if they are literal. */
export function argTemplates({ uri, args, hasVariablesInArgs }: ProgramLaunch): Template[] {
  if (!hasVariablesInArgs) return [];
  const offset = Math.max(0, uri.search(/(?<=[?&])arg=/));
  return args.map((text) => ({ text, offset }));
}

/** The names of the variables in a text; they need not be valid names. */
export function templateVariables(text: string): string[] {
  return [...atLastBrace(text)[0].matchAll(VARIABLE)].flatMap(([, name]) => (name === undefined ? [] : [name]));
}

/** A setting of Berth itself, such as its token, keys or database. */
export function isOwnSetting(variable: string): boolean {
  return variable.startsWith("BERTH_");
}

type Values = Readonly<Record<string, string | undefined>>;

/**
 * Resolves `${NAME}` in a hosted launcher URI: to a secret if the server declares one of that name, set or not, else to
 * an environment variable. Berth's own settings are excluded.
 */
export function hostedVariables(
  env: Values,
  secrets: { readonly names: readonly string[]; readonly values: Values } = { names: [], values: {} },
): VariableLookup {
  const { names, values } = secrets;
  return (name) => {
    if (names.includes(name)) return values[name];
    return isOwnSetting(name) ? undefined : env[name];
  };
}
