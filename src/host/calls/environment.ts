import type { ServerEntry } from "../../entry/entry.ts";
import type { EnvironmentValue } from "../../entry/environment-fields.ts";
import { EnvironmentFault, DeferredAnswer, type HostPort } from "../../executor/executor.ts";
import { FOLDER_VARIABLE } from "../../executor/guest/wire.mts";
import { LastKnown } from "../../lib/last-known.ts";
import type { Log } from "../../lib/log.ts";
import type { Grant } from "../../secrets/grants.ts";
import { fillTemplate, templateVariables } from "../../upstream/launch/launch.ts";

/** Limit of an environment: names and values together. */
const BYTES_MAX = 256 * 1024;

/** Environment variables that an entry sets for its code. Their templates are filled with currently granted values. */
export interface Environment {
  /** All variables that have a value. Rejects with an `EnvironmentFault`. */
  values(): Promise<Readonly<Record<string, string>>>;
  /** Changes when a referenced variable does; undefined if none is. Any other change creates a new catalog. */
  readonly version: (() => Promise<string>) | undefined;
}

export interface EnvironmentSource {
  readonly tenant: string;
  readonly server: string;
  readonly entry: Pick<ServerEntry, "env" | "secrets" | "variables">;
  readonly grant: Grant | undefined;
  /** Used to read variables of the tenant. */
  readonly port: HostPort;
  readonly log: Pick<Log, "warn">;
}

/** Undefined for an entry that sets nothing. */
export function createEnvironment(source: EnvironmentSource): Environment | undefined {
  const { entry, grant } = source;
  const entries = Object.entries(entry.env);
  if (entries.length === 0) return undefined;
  const variables = [...new Set(entries.flatMap(([, value]) => value.variables))].filter((name) =>
    mayRead(entry, name),
  );

  const versions = new LastKnown<string>(1);
  const cached = new LastKnown<Readonly<Record<string, string>>>(1);

  return {
    version:
      variables.length === 0
        ? undefined
        : () =>
            versions.read("", async () =>
              JSON.stringify(await Promise.all(variables.map((name) => readVariableCid(source, name)))),
            ),
    values: () => cached.read("", values),
  };

  async function values(): Promise<Readonly<Record<string, string>>> {
    const all: [string, string][] = [];
    let bytes = 0;
    for (const [name, value] of entries) {
      const filled = await fillValue(source, name, value);
      if (filled === undefined) continue;
      bytes += name.length + Buffer.byteLength(filled) + 2;
      if (bytes > BYTES_MAX) {
        throw new EnvironmentFault(
          `the environment that its entry sets is too large: at most ${BYTES_MAX} bytes are allowed`,
        );
      }
      all.push([name, filled]);
      for (const text of secretTexts(value, filled)) grant?.redactor.add(text);
    }
    return Object.fromEntries(all);
  }

  function secretTexts({ text, secrets, variables }: EnvironmentValue, filled: string): string[] {
    // Literal text of an entry is not secret, and often a common word such as "info".
    return secrets.length + variables.length > 0 && filled !== text && filled.length >= REDACTED_LENGTH_MIN
      ? [filled]
      : [];
  }
}

/** Shorter values would be redacted in unrelated text. */
const REDACTED_LENGTH_MIN = 6;

/**
 * Environment for trying an upstream that is not saved yet: placeholders instead of possible secrets, and paths of
 * folders that do not exist.
 */
export function environmentForTrial({
  env,
  folders,
}: Pick<ServerEntry, "env" | "folders">): Readonly<Record<string, string>> {
  return Object.fromEntries([
    ...folders.map((name) => [`${FOLDER_VARIABLE}${name}`, `/folders/${name}`]),
    ...Object.entries(env).map(([name, { text }]) => [
      name,
      fillTemplate({ text }, (inner) => `placeholder-for-${inner}`).text,
    ]),
  ]) as Record<string, string>;
}

/** Undefined, with a warning in the log, if a referenced value is not set or no longer granted. */
async function fillValue(
  source: EnvironmentSource,
  name: string,
  value: EnvironmentValue,
): Promise<string | undefined> {
  const { tenant, server, log } = source;
  const values = new Map<string, string | undefined>();
  for (const inner of templateVariables(value.text)) {
    if (!values.has(inner)) values.set(inner, await readValue(source, value, inner));
  }
  const { text, unset } = fillTemplate(value, (inner) => values.get(inner));
  if (unset.length === 0) return checkValue(name, text);
  const what = value.secrets.includes(unset[0]!) ? "secret" : "variable";
  const message = `${name} is not set in its environment: there is no ${what} "${unset[0]}" that it may read`;
  log.warn({ tenant, server, [what]: unset[0] }, message);
  return undefined;
}

function checkValue(name: string, text: string): string {
  if (!text.includes("\0")) return text;
  throw new EnvironmentFault(`its environment cannot be set: the value of ${name} contains a null character`);
}

async function readValue(
  source: EnvironmentSource,
  { secrets }: EnvironmentValue,
  name: string,
): Promise<string | undefined> {
  const { entry, grant } = source;
  if (secrets.includes(name)) {
    // An earlier release may reference a secret that is no longer granted.
    if (!entry.secrets.includes(name)) return undefined;
    try {
      return await grant?.read(name);
    } catch (error) {
      throw new EnvironmentFault(`its environment cannot be set: ${(error as Error).message}`, { cause: error });
    }
  }
  if (!mayRead(entry, name)) return undefined;
  const answer = await source.port.request("variable", { name }, NO_CALLER);
  const bytes = answer instanceof DeferredAnswer ? await answer.read() : undefined;
  if (!bytes) return undefined;
  if (bytes.length > BYTES_MAX) {
    const most = `${BYTES_MAX} bytes`;
    throw new EnvironmentFault(`its environment cannot be set: the variable "${name}" is longer than ${most}`);
  }
  const value = new TextDecoder().decode(bytes);
  if (value.length >= REDACTED_LENGTH_MIN) grant?.redactor.add(value);
  return value;
}

/** An entry without a list of variables may read all. */
function mayRead({ variables }: Pick<ServerEntry, "variables">, name: string): boolean {
  return variables === undefined || variables.includes(name);
}

async function readVariableCid({ port }: EnvironmentSource, name: string): Promise<string | null> {
  const answer = await port.request("variable", { name }, NO_CALLER);
  return answer instanceof DeferredAnswer ? (answer.cid ?? null) : null;
}

/** The environment belongs to the process, not to a call. */
const NO_CALLER: Parameters<HostPort["request"]>[2] = { caller: undefined, onOver: () => {} };
