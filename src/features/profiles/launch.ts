import { resolve } from "node:path";
import { BerthError } from "../../lib/errors.ts";
import { isObject, type Json } from "../../lib/json.ts";
import { invalidLauncher } from "../../upstream/launch/command.ts";
import {
  fillTemplate,
  isOwnSetting,
  launchVariables,
  type Launch,
  type Template,
} from "../../upstream/launch/launch.ts";
import { parseLauncher } from "../../upstream/launch/launcher-uri.ts";
import { META_FILE, type Profile, type ProfileMeta } from "./profile.ts";

/** Fields that may contain `${NAME}`, apart from those whose variables are resolved at the start. */
const FIELDS = ["command", "args", "cwd", "url"] as const;

/**
 * How to reach a profile's server. Relative paths are relative to the profile's folder. Throws `launcher_invalid`, or
 * `profile_invalid` with every variable that is not set.
 */
export function profileLaunch(profile: Profile, env: NodeJS.ProcessEnv): Launch {
  if (profile.origin !== "project") return launchOf(profile, env);
  // A project's files may be written by anyone: they get no token, key or database URL of a Berth.
  const launch = launchOf(profile, Object.fromEntries(Object.entries(env).filter(([name]) => !isOwnSetting(name))));
  const own = launchVariables(launch).find(isOwnSetting);
  if (own === undefined) return launch;
  const message = `@${profile.name}: \${${own}} is a setting of Berth itself, which a project's profile may not use`;
  throw new BerthError("profile_invalid", message);
}

function launchOf({ name, folder, meta }: Profile, env: NodeJS.ProcessEnv): Launch {
  if (meta.uri !== undefined) {
    const parsed = parseLauncher(meta.uri);
    if (parsed.problems) throw invalidLauncher(parsed.problems);
    const { target, arguments: given } = parsed.operation;
    if (target || given.texts.length > 0 || Object.keys(given.json).length > 0) {
      const message = `@${name}: "uri" says how to reach the server; it names no tool, resource, prompt or argument`;
      throw new BerthError("profile_invalid", message);
    }
    return { ...parsed.launch, name: `@${name}` };
  }
  const { command, args = [], cwd, url } = filled(name, meta, env);
  const named = { uri: `@${name}`, name: `@${name}` };
  if (url !== undefined) {
    const { protocol, username, password } = URL.canParse(url) ? new URL(url) : {};
    if (!/^https?:$/.test(protocol ?? "") || username || password) {
      throw new BerthError("profile_invalid", `@${name}: "url" must be an http or https URL without a password`);
    }
    const launcher = url.startsWith("https:") ? "https" : "http";
    return { ...named, launcher, url, query: [], headers: templates(meta.headers) };
  }
  return {
    ...named,
    launcher: "program",
    target: command ?? "",
    args,
    env: templates(meta.env),
    ...(cwd !== undefined && { cwd: resolve(folder, cwd) }),
  };
}

function filled(name: string, meta: ProfileMeta, env: NodeJS.ProcessEnv): Pick<ProfileMeta, (typeof FIELDS)[number]> {
  const given = Object.fromEntries(
    FIELDS.flatMap((field): [string, Json][] => (meta[field] === undefined ? [] : [[field, meta[field]]])),
  );
  const { value, unset } = substitute(given, env);
  if (unset.length > 0) {
    const said = unset.map(({ variable, pointer }) => `${META_FILE} ${pointer}: the variable ${variable} is not set`);
    throw new BerthError("profile_invalid", `@${name}: ${said.join("; ")}`);
  }
  return value;
}

/** These values are not shown in messages, since they may contain secrets. */
function templates(values: Readonly<Record<string, string>> = {}): Record<string, Template> {
  return Object.fromEntries(Object.entries(values).map(([name, text]) => [name, { text, offset: 0 }]));
}

/** A value names a variable that the environment does not have. */
interface Unset {
  readonly variable: string;
  /** JSON pointer (RFC 6901) to the string. */
  readonly pointer: string;
}

const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Expands templates in every string of a value. Unset variables are left as they are and all reported; shell syntax
 * such as `${1:-x}` is left and not reported.
 */
export function substitute<T extends Json>(value: T, env: NodeJS.ProcessEnv): { value: T; unset: Unset[] } {
  const unset: Unset[] = [];
  return { value: substituteAt(value, "", env, unset) as T, unset };
}

function substituteAt(value: Json, pointer: string, env: NodeJS.ProcessEnv, unset: Unset[]): Json {
  if (typeof value === "string") return substituteText(value, pointer, env, unset);
  if (Array.isArray(value)) return value.map((each, index) => substituteAt(each, `${pointer}/${index}`, env, unset));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => {
      const escaped = key.replaceAll("~", "~0").replaceAll("/", "~1");
      return [key, substituteAt(each, `${pointer}/${escaped}`, env, unset)];
    }),
  );
}

function substituteText(text: string, pointer: string, env: NodeJS.ProcessEnv, unset: Unset[]): string {
  const filled = fillTemplate({ text }, (name, written) => (VARIABLE_NAME.test(name) ? env[name] : written));
  unset.push(...filled.unset.map((variable) => ({ variable, pointer })));
  return filled.text;
}

/** The URI of a script with its absolute path, so that it means the same wherever the profile is used. */
export function anchorUri(uri: string, folder: string): string {
  const { launch } = parseLauncher(uri);
  if (launch?.launcher !== "python" && launch?.launcher !== "node") return uri;
  const path = encodeURI(resolve(folder, launch.target)).replaceAll("?", "%3F").replaceAll("#", "%23");
  const question = uri.indexOf("?");
  return `mcp+${launch.launcher}://${path}${question === -1 ? "" : uri.slice(question)}`;
}
