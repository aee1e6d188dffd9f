import type { JsonObject } from "../lib/json.ts";
import { variablesOf } from "../upstream/launch/launch.ts";
import { complain, inside, type ConfigPlace } from "./config-place.ts";
import { variableNameProblem } from "./fields.ts";

/** The environment that an entry gives its definition's code, for packages and programs that read one. */

/** One variable of the environment. */
export interface EnvironmentValue {
  /** `${NAME}` stands for a secret or a variable of the tenant, `$${` for a literal `${`. */
  readonly text: string;
  /** The names in it that are secrets of the server. */
  readonly secrets: readonly string[];
  /** All others. */
  readonly variables: readonly string[];
}

/** By name. */
export type EntryEnvironment = Readonly<Record<string, EnvironmentValue>>;

/** The most variables of one entry. */
export const ENVIRONMENT_NAMES_MAX = 128;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Names that a runtime, a shell or Berth reads from its environment, and that an entry must not say for them. */
const TAKEN: readonly (readonly [names: RegExp, why: string])[] = [
  [/^NODE_|^UV_|^V8_/, "Node reads it, and Berth decides how Node runs"],
  [
    /^(?:LD_|DYLD_|GLIBC_|MALLOC_|RESOLV_|(?:GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|LOCALDOMAIN)$)/,
    "the system's loader and libraries read it",
  ],
  [/^[Nn][Pp][Mm]_/, "npm reads it"],
  [/^BERTH_/, "Berth tells scripts of their call there, and its own settings begin so"],
  [/^(?:PATH|HOME|TMPDIR|TMP|TEMP|PWD|OLDPWD|SHELL)$/, "Berth sets it to a place inside the sandbox"],
  [/^(?:IFS|ENV|PS[0-9]|SHELLOPTS|BASHOPTS|BASH_.*|CDPATH|GLOBIGNORE|FUNCNEST)$/, "a shell reads it"],
  [/^(?:OPENSSL_|SSL_CERT_|SSLKEYLOGFILE$)/, "it changes which servers are trusted"],
  [/^(?:TRACEPARENT|TRACESTATE|BAGGAGE)$/, "it tells a script of the trace that its call belongs to"],
  [/^__/, "names that begin so are reserved"],
];

/** The JSON Schema of names that may be set. */
export const ENVIRONMENT_NAME_SCHEMA: JsonObject = {
  pattern: NAME.source,
  not: { pattern: TAKEN.map(([names]) => names.source).join("|") },
};

/** Each wrong variable is a problem; an entry with one is refused, since its code might do something else without it. */
export function readEnvironment(
  raw: JsonObject = {},
  place: ConfigPlace,
  granted: { readonly secrets: readonly string[]; readonly variables: readonly string[] | undefined },
): EntryEnvironment {
  const names = Object.keys(raw);
  if (names.length > ENVIRONMENT_NAMES_MAX) {
    const message = `These are ${names.length} variables, and an entry sets at most ${ENVIRONMENT_NAMES_MAX}`;
    complain(place, "too-many-items", `${message}; put several values into one, as JSON, or split the server`);
    return {};
  }
  const values: [string, EnvironmentValue][] = [];
  for (const [name, text] of Object.entries(raw)) {
    const at = inside(place, name);
    const fault = nameFaultOf(name);
    if (fault !== undefined) complain(at, "bad-name", fault);
    else if (typeof text !== "string") complain(at, "wrong-type", `"${name}" must be a string; write numbers as "1"`);
    else if (text.includes("\0")) complain(at, "wrong-value", "It holds a zero character, which no program can take");
    else values.push([name, namesIn(text, granted, at)]);
  }
  return Object.fromEntries(values);
}

function nameFaultOf(name: string): string | undefined {
  if (!NAME.test(name)) {
    const shown = JSON.stringify(name.slice(0, 150));
    return `${shown} cannot be a variable of the environment: use up to 128 letters, digits and underscores, as in LOG_LEVEL`;
  }
  const why = TAKEN.find(([names]) => names.test(name))?.[1];
  return why && `"${name}" cannot be set in "env": ${why}. Give the value another name`;
}

function namesIn(
  text: string,
  granted: { readonly secrets: readonly string[]; readonly variables: readonly string[] | undefined },
  place: ConfigPlace,
): EnvironmentValue {
  const names = [...new Set(variablesOf(text))];
  const secrets = names.filter((name) => granted.secrets.includes(name));
  const variables = names.filter((name) => !granted.secrets.includes(name));
  for (const name of variables) {
    const fault = variableNameProblem(name);
    const shown = name.slice(0, 150);
    if (fault !== undefined) complain(place, "bad-name", `In \${${shown}}, ${fault}; write $\${ for a literal \${`);
    else if (granted.variables && !granted.variables.includes(name)) {
      const remedy = `add "${name}" to "secrets" or to "variables" in its entry`;
      complain(
        place,
        "not-granted",
        `\${${name}} is neither a secret of this server nor a variable that it may read; ${remedy}`,
      );
    }
  }
  return { text, secrets, variables };
}
