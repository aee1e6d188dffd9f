import type { JsonObject } from "../lib/json.ts";
import { templateVariables } from "../upstream/launch/launch.ts";
import { addProblem, inside, type ConfigPlace } from "./config-place.ts";
import { variableNameProblem } from "./fields.ts";

/** The environment that an entry sets for its definition's code, for packages and programs that read one. */

/** One variable of the environment. */
export interface EnvironmentValue {
  /** `${NAME}` stands for a secret or a variable of the tenant, `$${` for a literal `${`. */
  readonly text: string;
  /** The names in it that are secrets of the server. */
  readonly secrets: readonly string[];
  /** All other names. */
  readonly variables: readonly string[];
}

/** By name. */
export type EntryEnvironment = Readonly<Record<string, EnvironmentValue>>;

/** The most variables of one entry. */
export const ENVIRONMENT_NAMES_MAX = 128;

const NAME = /^[A-Za-z_][A-Za-z0-9_]{0,127}$/;

/** Names that a runtime, a shell or Berth reads from its environment, and that an entry must not set. */
const RESERVED: readonly (readonly [names: RegExp, why: string])[] = [
  [/^NODE_|^UV_|^V8_/, "Node reads it, and Berth decides how Node runs"],
  [
    /^(?:LD_|DYLD_|GLIBC_|MALLOC_|RESOLV_|(?:GCONV_PATH|LOCPATH|NLSPATH|RES_OPTIONS|HOSTALIASES|LOCALDOMAIN)$)/,
    "the system's loader and libraries read it",
  ],
  [/^[Nn][Pp][Mm]_/, "npm reads it"],
  [/^BERTH_/, "Berth describes calls to scripts with such names, and uses them for its settings"],
  [/^(?:PATH|HOME|TMPDIR|TMP|TEMP|PWD|OLDPWD|SHELL)$/, "Berth sets it to a path inside the sandbox"],
  [/^(?:IFS|ENV|PS[0-9]|SHELLOPTS|BASHOPTS|BASH_.*|CDPATH|GLOBIGNORE|FUNCNEST)$/, "a shell reads it"],
  [/^(?:OPENSSL_|SSL_CERT_|SSLKEYLOGFILE$)/, "it changes which servers are trusted"],
  [/^(?:TRACEPARENT|TRACESTATE|BAGGAGE)$/, "it identifies the trace of a script's call"],
  [/^__/, "names with this prefix are reserved"],
];

/** The JSON Schema of names that may be set. */
export const ENVIRONMENT_NAME_SCHEMA: JsonObject = {
  pattern: NAME.source,
  not: { pattern: RESERVED.map(([names]) => names.source).join("|") },
};

/** Each invalid variable refuses the entry, because its code might do something else without the variable. */
export function readEnvironment(
  raw: JsonObject = {},
  place: ConfigPlace,
  granted: { readonly secrets: readonly string[]; readonly variables: readonly string[] | undefined },
): EntryEnvironment {
  const names = Object.keys(raw);
  if (names.length > ENVIRONMENT_NAMES_MAX) {
    const message = `There are ${names.length} variables; an entry may set at most ${ENVIRONMENT_NAMES_MAX}`;
    addProblem(place, "too-many-items", `${message}; put several values into one, as JSON, or split the server`);
    return {};
  }
  const values: [string, EnvironmentValue][] = [];
  for (const [name, text] of Object.entries(raw)) {
    const at = inside(place, name);
    const fault = findNameFault(name);
    if (fault !== undefined) addProblem(at, "bad-name", fault);
    else if (typeof text !== "string") addProblem(at, "wrong-type", `"${name}" must be a string; write numbers as "1"`);
    else if (text.includes("\0"))
      addProblem(at, "wrong-value", "It contains a NUL character, which no program can receive");
    else values.push([name, parseValue(text, granted, at)]);
  }
  return Object.fromEntries(values);
}

function findNameFault(name: string): string | undefined {
  if (!NAME.test(name)) {
    const quotedName = JSON.stringify(name.slice(0, 150));
    return `${quotedName} cannot be a variable of the environment: use up to 128 letters, digits and underscores, as in LOG_LEVEL`;
  }
  const reason = RESERVED.find(([names]) => names.test(name))?.[1];
  return reason && `"${name}" cannot be set in "env": ${reason}. Give the value another name`;
}

function parseValue(
  text: string,
  granted: { readonly secrets: readonly string[]; readonly variables: readonly string[] | undefined },
  place: ConfigPlace,
): EnvironmentValue {
  const names = [...new Set(templateVariables(text))];
  const secrets = names.filter((name) => granted.secrets.includes(name));
  const variables = names.filter((name) => !granted.secrets.includes(name));
  for (const name of variables) {
    const fault = variableNameProblem(name);
    const shortName = name.slice(0, 150);
    if (fault !== undefined)
      addProblem(place, "bad-name", `In \${${shortName}}, ${fault}; write $\${ for a literal \${`);
    else if (granted.variables && !granted.variables.includes(name)) {
      const hint = `add "${name}" to "secrets" or to "variables" in its entry`;
      addProblem(
        place,
        "not-granted",
        `\${${name}} is neither a secret of this server nor a variable that it may read; ${hint}`,
      );
    }
  }
  return { text, secrets, variables };
}
