import { randomUUID } from "node:crypto";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, delimiter, isAbsolute, join, resolve } from "node:path";
import { BerthError } from "../../lib/errors.ts";
import type { Problem } from "../../lib/problem.ts";
import {
  argTemplates,
  fillTemplate,
  templateVariables,
  type ProgramLaunch,
  type RemoteLaunch,
  type Template,
  type VariableLookup,
} from "./launch.ts";
import { problemAt } from "./uri-text.ts";

export interface LaunchCommand {
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** By default a new empty folder. */
  readonly cwd?: string;
  /** Values of variables, which are removed from the program's output before it is displayed. */
  readonly secrets: readonly string[];
  /** The container that the program starts; it can outlive the program, so it is removed afterwards. */
  readonly container?: {
    /** To be followed by the container's id. */
    readonly remove: readonly string[];
    /** The file that will contain the id, once there is a container. */
    readonly idFile: string;
  };
}

export interface LaunchEnvironment {
  /** The environment of the starting process, the source of `PATH` and similar variables. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Resolves `${NAME}`; by default from the environment. */
  readonly variable?: VariableLookup;
  /** The base of relative paths. */
  readonly folder: string;
}

/** Passed on if set: programs need them to find their files, caches, certificates and proxies. */
const inherited =
  /^(?:PATH|HOME|TMPDIR|LANG|LC_[A-Z]+|TZ|USER|LOGNAME|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|XDG_[A-Z_]+_HOME|(?:https?|no|all)_proxy|(?:HTTPS?|NO|ALL)_PROXY)$/;
/** Settings of the launchers, for them alone: they may contain the token of a registry. */
const launcherSettings = { npx: /^npm_config_/i, uvx: /^UV_/, python: undefined, node: undefined, program: undefined };

/** An unreachable registry costs seconds, not minutes; the user's own settings override these. */
const npmSettings = {
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
  npm_config_fetch_retries: "1",
  npm_config_fetch_retry_mintimeout: "1000",
  npm_config_fetch_retry_maxtimeout: "3000",
};

/** Throws `launcher_invalid` with every problem, or `upstream_not_started` if a program is not installed. */
export function buildCommand(launch: ProgramLaunch, { env, variable, folder }: LaunchEnvironment): LaunchCommand {
  const problems: Problem[] = [];
  const lookUp = variable ?? ((name: string) => env[name]);
  const filled = fillAll(launch.uri, Object.entries(launch.env), lookUp, problems);
  const templates = argTemplates(launch).map((template) => ["", template] as const);
  const filledArgs = fillAll(launch.uri, templates, lookUp, problems);
  const args = launch.hasVariablesInArgs ? filledArgs.values.map(([, value]) => value) : launch.args;
  for (const [index, arg] of args.entries()) {
    const written = launch.args[index]!;
    // Whoever sets a variable need not have the right to choose the program's options.
    if (!launch.hasVariablesInArgs || !arg.startsWith("-") || written.startsWith("-")) continue;
    const message = `The argument ${written} would become an option: the value of its variable starts with "-".`;
    problems.push(problemAt(launch.uri, "bad-argument", templates[index]![1].offset, message));
  }
  // Carries the path, so that callers can remove their folders from the message before they pass it on.
  let cause: Error | undefined;
  const missing = (path: string): Error => Object.assign(new Error("it does not exist", { cause }), { path });
  const cwd = launch.cwd === undefined ? undefined : resolve(folder, launch.cwd);
  if (cwd !== undefined && !statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
    cause = missing(cwd);
    const offset = Math.max(0, launch.uri.search(/(?<=[?&])cwd=/));
    problems.push(problemAt(launch.uri, "missing-folder", offset, `There is no folder ${cwd}.`));
  }
  // A relative program is one of its own folder, as for every client.
  const script = resolve(launch.launcher === "program" ? (cwd ?? folder) : folder, launch.target);
  const isScript = launch.launcher === "python" || launch.launcher === "node";
  if (isScript && !statSync(script, { throwIfNoEntry: false })?.isFile()) {
    cause = missing(script);
    problems.push(
      problemAt(launch.uri, "missing-script", launch.uri.indexOf("://") + 3, `There is no file ${script}.`),
    );
  }
  if (problems.length > 0) throw invalidLauncher(problems, cause);
  const base = environmentFor(launch, env);
  return {
    ...programOf({ ...launch, args }, script, base["PATH"]),
    env: { ...base, ...Object.fromEntries(filled.values) },
    ...(cwd !== undefined && { cwd }),
    secrets: [...filled.secrets, ...filledArgs.secrets],
  };
}

export function buildAddress(launch: RemoteLaunch, { env, variable }: LaunchEnvironment) {
  const problems: Problem[] = [];
  const lookUp = variable ?? ((name: string) => env[name]);
  const headers = fillAll(launch.uri, Object.entries(launch.headers), lookUp, problems);
  for (const [name, value] of headers.values) {
    // oxlint-disable-next-line no-control-regex -- matches control characters on purpose
    if (!/[\u0000-\u0008\u000a-\u001f\u007f]|[^\u0000-\u00ff]/.test(value)) continue;
    const { offset } = launch.headers[name]!;
    problems.push(
      problemAt(launch.uri, "bad-header", offset, `The value of ${name} has characters that headers cannot have.`),
    );
  }
  const query = fillAll(
    launch.uri,
    launch.query.map(({ name, value }) => [name, value] as const),
    lookUp,
    problems,
  );
  if (problems.length > 0) throw invalidLauncher(problems);
  const url = new URL(launch.url);
  for (const [name, value] of query.values) url.searchParams.append(name, value);
  return { url, headers: Object.fromEntries(headers.values), secrets: [...headers.secrets, ...query.secrets] };
}

export function invalidLauncher(problems: readonly Problem[], cause?: Error): BerthError {
  const messages = problems.map(({ message, column }) => `${message} (at character ${column})`);
  return new BerthError("launcher_invalid", messages.join(" "), { data: { problems }, cause });
}

function fillAll(
  uri: string,
  templates: readonly (readonly [string, Template])[],
  lookUp: VariableLookup,
  problems: Problem[],
): { values: [string, string][]; secrets: string[] } {
  const secrets: string[] = [];
  const values = templates.map(([name, template]): [string, string] => {
    const { text, unset } = fillTemplate(template, lookUp);
    for (const missing of unset) {
      problems.push(problemAt(uri, "unset-variable", template.offset, `The variable ${missing} is not set.`));
    }
    const variables = templateVariables(template.text).flatMap((variable) => lookUp(variable) ?? []);
    if (variables.length > 0) secrets.push(text, ...variables);
    return [name, text];
  });
  return { values, secrets: secrets.filter((secret) => secret.length >= SECRET_LENGTH_MIN) };
}

/** Shorter ones occur in any text by chance. */
const SECRET_LENGTH_MIN = 6;

function programOf(
  launch: ProgramLaunch,
  script: string,
  path: string | undefined,
): Pick<LaunchCommand, "file" | "args" | "container"> {
  const { launcher, target, program, args } = launch;
  switch (launcher) {
    case "program": {
      const file = target.includes("/") ? script : findProgram([target], path);
      if (file === undefined || !existsSync(file)) throw notInstalled(target, "Install it, or put it on PATH");
      if (!isProgram(file)) throw new BerthError("upstream_not_started", `${target} is not an executable file.`);
      return /^(?:docker|podman|nerdctl)$/.test(basename(target)) ? containerCommand(file, args) : { file, args };
    }
    case "node":
      return { file: process.execPath, args: [script, ...args] };
    case "python": {
      const file = findProgram(["python3", "python"], path);
      if (!file) throw notInstalled("python3", "Install Python 3, or put it on PATH");
      return { file, args: ["-u", script, ...args] };
    }
    case "npx": {
      const file = findProgram(["npx"], path);
      if (!file) throw notInstalled("npx", "Install Node.js with npm, or put it on PATH");
      const options = ["--yes", "--prefer-offline"];
      // `--package` keeps npx from guessing, and from reading the program's arguments as its own.
      return program === undefined
        ? { file, args: [...options, "--", target, ...args] }
        : { file, args: [...options, `--package=${target}`, "--", program, ...args] };
    }
    case "uvx": {
      const from = target.replace(/@(?!latest$)/, "==");
      const options = ["--from", from, program ?? target.replace(/[@[].*$/, ""), ...args];
      const uvx = findProgram(["uvx"], path);
      if (uvx) return { file: uvx, args: options };
      const uv = findProgram(["uv"], path);
      if (uv) return { file: uv, args: ["tool", "run", ...options] };
      throw notInstalled("uvx", "Install uv (https://docs.astral.sh/uv/), or put it on PATH");
    }
  }
}

/** Options before the subcommand that take the next argument as their value. */
const CONTAINER_VALUES =
  /^(?:-[cHl]|--(?:config|connection|context|host|log-level|namespace|tls(?:cacert|cert|key)|url))$/;

/**
 * Lets `docker run` write the id of its container to a file: without a terminal, a container outlives a client that is
 * killed. A name would not do: one given by `--name` may belong to a container that something else started.
 */
function containerCommand(file: string, args: readonly string[]): Pick<LaunchCommand, "file" | "args" | "container"> {
  let run = 0;
  while (args[run]?.startsWith("-")) run += CONTAINER_VALUES.test(args[run]!) ? 2 : 1;
  if (args[run] === "container") run++;
  if (args[run] !== "run") return { file, args };
  const idFile = join(tmpdir(), `berth-${randomUUID()}.cid`);
  return {
    file,
    args: args.toSpliced(run + 1, 0, `--cidfile=${idFile}`),
    container: { remove: [...args.slice(0, run), "rm", "--force"], idFile },
  };
}

function notInstalled(program: string, advice: string): BerthError {
  return new BerthError("upstream_not_started", `the program ${program} was not found. ${advice}.`);
}

function findProgram(names: readonly string[], path: string | undefined): string | undefined {
  // A relative folder would mean another one for the program's own folder.
  const folders = (path ?? "").split(delimiter).filter(isAbsolute);
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isProgram);
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

function environmentFor(launch: ProgramLaunch, env: LaunchEnvironment["env"]): Record<string, string> {
  const own = launcherSettings[launch.launcher];
  const passed = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && (inherited.test(entry[0]) || !!own?.test(entry[0])),
  );
  return { ...(launch.launcher === "npx" && npmSettings), ...Object.fromEntries(passed) };
}
