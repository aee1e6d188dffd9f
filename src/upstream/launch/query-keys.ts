import { templateVariables, type Launch, type ProgramLaunch, type RemoteLaunch, type Template } from "./launch.ts";
import type { QueryPair, UriProblems } from "./uri-text.ts";

type ProgramKeys = Pick<ProgramLaunch, "args" | "env" | "cwd" | "era">;
type RemoteKeys = Pick<RemoteLaunch, "headers" | "query" | "era">;

const programKeys = ["command", "arg", "cwd"];
const programPrefixes = ["env."];
const remotePrefixes = ["header.", "query."];
/** Keys that name the operation, not how to reach the server. */
const operationKeys = ["tool", "resource", "prompt", "list", "args"];

/** Set by the transport or by the connection; a user's header of that name would break them. */
const ownHeaders = /^(?:mcp-.*|content-type|content-length|accept|host|connection|transfer-encoding|last-event-id)$/i;
const variableForm = /^[A-Za-z_][A-Za-z0-9_]*$/;
const headerForm = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/** True when the URI itself uses a key; every other key is an argument of the tool. */
export function isReservedKey(key: string): boolean {
  return (
    [...programKeys, ...operationKeys, "era"].includes(key) ||
    [...programPrefixes, ...remotePrefixes, "args."].some((prefix) => key.startsWith(prefix))
  );
}

export function readProgramKeys(query: readonly QueryPair[], problems: UriProblems): ProgramKeys {
  rejectKeys(query, remotePrefixes, problems, "is for mcp+http:// and mcp+https:// only");
  const command = single(query, "command", problems);
  const cwd = single(query, "cwd", problems);
  if (cwd?.value === "") problems.add("missing-value", cwd.valueOffset, "cwd= needs a folder.");
  return {
    args: [command, ...query.filter(({ key }) => key === "arg")].flatMap((pair) => (pair ? [pair.value] : [])),
    env: readNamed(query, "env.", variableForm, "variable of the environment", problems),
    ...(cwd && { cwd: cwd.value }),
    ...readEra(query, problems),
  };
}

export function readRemoteKeys(query: readonly QueryPair[], problems: UriProblems): RemoteKeys {
  rejectKeys(query, [...programKeys, ...programPrefixes], problems, "is for upstreams that Berth starts");
  const headers = readNamed(query, "header.", headerForm, "header", problems);
  for (const { key, keyOffset } of query) {
    const header = key.slice("header.".length);
    if (key.startsWith("header.") && ownHeaders.test(header)) {
      problems.add("bad-header", keyOffset, `The connection itself sets the header ${header}.`);
    }
  }
  return {
    headers,
    query: query
      .filter(({ key }) => key.startsWith("query."))
      .map((pair) => ({ name: pair.key.slice("query.".length), value: readTemplate(pair, problems) })),
    ...readEra(query, problems),
  };
}

function readEra(query: readonly QueryPair[], problems: UriProblems): Pick<Launch, "era"> {
  const pair = single(query, "era", problems);
  const era = (["modern", "legacy"] as const).find((each) => each === pair?.value);
  if (pair && !era) problems.add("bad-era", pair.valueOffset, `era= takes modern or legacy, not "${pair.value}".`);
  return era ? { era } : {};
}

/** The only pair with this key; a second one is a problem. */
export function single(query: readonly QueryPair[], key: string, problems: UriProblems): QueryPair | undefined {
  const [first, second] = query.filter((pair) => pair.key === key);
  if (second) problems.add("duplicate-key", second.keyOffset, `${key}= is given twice; it takes one value.`);
  return first;
}

function readNamed(
  query: readonly QueryPair[],
  prefix: string,
  form: RegExp,
  what: string,
  problems: UriProblems,
): Record<string, Template> {
  const templates = new Map<string, Template>();
  const seen = new Set<string>();
  for (const pair of query.filter(({ key }) => key.startsWith(prefix))) {
    const name = pair.key.slice(prefix.length);
    const normalized = prefix === "header." ? name.toLowerCase() : name;
    if (!form.test(name)) problems.add("bad-name", pair.keyOffset, `"${name}" is not a valid name for a ${what}.`);
    if (seen.has(normalized)) problems.add("duplicate-key", pair.keyOffset, `${pair.key}= is given twice.`);
    seen.add(normalized);
    templates.set(name, readTemplate(pair, problems));
  }
  return Object.fromEntries(templates);
}

function readTemplate({ value, valueOffset }: QueryPair, problems: UriProblems): Template {
  for (const name of templateVariables(value)) {
    if (!variableForm.test(name)) {
      problems.add("bad-variable", valueOffset, `"\${${name}}" names no variable; a literal \${ is written $\${.`);
    }
  }
  return { text: value, offset: valueOffset };
}

function rejectKeys(query: readonly QueryPair[], keys: readonly string[], problems: UriProblems, why: string): void {
  for (const { key, keyOffset } of query) {
    if (!keys.some((refused) => (refused.endsWith(".") ? key.startsWith(refused) : key === refused))) continue;
    problems.add(
      "misplaced-key",
      keyOffset,
      `${key}= ${why}; write an argument of that name as args.${key}=…, or in args={…}.`,
    );
  }
}
