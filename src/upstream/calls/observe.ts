import type { Contract } from "../../contract/contract.ts";
import { createYielder } from "../../lib/event-loop.ts";
import { isObject, type JsonObject, type Json } from "../../lib/json.ts";
import { firstProblems, type Problem } from "../../lib/problem.ts";
import { isMethodError } from "../messages/upstream-error.ts";
import { observeApps } from "./apps.ts";
import type { UpstreamConnection } from "./connection.ts";
import { toContract, methodProblem, surveyLists, type FailedList } from "./survey.ts";

export interface Observed {
  readonly contract: Contract;
  /** Lists that the server failed to send, so that nothing is known of them. */
  readonly failed: readonly FailedList[];
  /** Invalid parts of the lists, which are omitted. */
  readonly problems: readonly Problem[];
  readonly bytes: number;
}

/** `before`: the problems found so far. */
export async function observe(connection: UpstreamConnection, before: readonly Problem[]): Promise<Observed> {
  const survey = await surveyLists(connection);
  const { failed, problems, bytes } = survey;
  const contract = await toContract(survey);
  const { apps, problems: appProblems } = await observeApps(connection, contract.tools);
  return {
    contract: apps.length > 0 ? { ...contract, apps } : contract,
    failed,
    problems: firstProblems([...before, ...problems, ...appProblems]),
    bytes,
  };
}

/**
 * Subscribes to a server's log messages and changes. Resolves with the subscriptions that failed; the server is used
 * without them. Observe the contract, or observe it again, afterwards: earlier changes are not reported.
 */
export async function subscribe(connection: UpstreamConnection, timeoutMs: number): Promise<readonly Problem[]> {
  const { capabilities, era } = connection;
  const filter = changeFilter(capabilities);
  try {
    if (era === "modern") {
      if (Object.keys(filter).length > 0) await connection.listen(filter, timeoutMs);
    } else if (capabilities["logging"] !== undefined) {
      await connection.request("logging/setLevel", { level: "debug" }, { timeoutMs });
    }
    return [];
  } catch (error) {
    if (!isMethodError(error)) throw error;
    const [what, method] =
      era === "modern" ? ["Changes", "subscriptions/listen"] : ["Log messages", "logging/setLevel"];
    const problem = methodProblem(method, error);
    return [{ ...problem, message: `${what} are not reported: ${problem.message}` }];
  }
}

function changeFilter(capabilities: JsonObject): JsonObject {
  const changes = (name: string): boolean => (capabilities[name] as JsonObject | undefined)?.["listChanged"] === true;
  return {
    ...(changes("tools") && { toolsListChanged: true }),
    ...(changes("resources") && { resourcesListChanged: true }),
    ...(changes("prompts") && { promptsListChanged: true }),
  };
}

/** Removes every hidden value of at least `lengthMin` characters from the text. */
export type HideWhole = (
  text: string,
  lengthMin: number,
  maybeYield: () => Promise<void> | undefined,
) => Promise<string>;

/**
 * Minimum lengths of hidden values, in text that people read and in text that programs use: a short value, such as a
 * user's name, may be a word of a schema.
 */
const LENGTH_MIN = { prose: 6, other: 12 };
const PROSE: ReadonlySet<string> = new Set(["description", "title"]);

/**
 * Removes hidden values from a server's contract, which clients list, the store contains and exports include. Names are
 * never rewritten: an entry with a secret in its name is omitted, and a problem says so. Yields to other calls.
 */
export async function hideInOffers(observed: Observed, hide: HideWhole): Promise<Observed> {
  const { contract, problems } = observed;
  const maybeYield = createYielder();
  const text = (value: string, lengthMin: number): Promise<string> => hide(value, lengthMin, maybeYield);
  const omitted: Problem[] = [];

  const hideEach = async <Item>(kind: string, items: readonly Item[]): Promise<readonly Item[]> => {
    const safe: Item[] = [];
    for (const item of items) {
      const hidden = (await hasSafeNames(item as JsonObject))
        ? await hideIn(item as Json, LENGTH_MIN.other)
        : undefined;
      if (hidden === undefined) omitted.push(omission(kind));
      else safe.push(hidden as Item);
    }
    return safe.length === items.length && safe.every((item, index) => item === items[index]) ? items : safe;
  };

  const hasSafeNames = async (item: JsonObject): Promise<boolean> => {
    for (const name of [item["name"], item["uri"], item["uriTemplate"]]) {
      if (typeof name === "string" && (await text(name, LENGTH_MIN.other)) !== name) return false;
    }
    return true;
  };

  /** The same value if there is nothing to hide; undefined if the name of a member would have to change. */
  const hideIn = async (value: Json, lengthMin: number): Promise<Json | undefined> => {
    if (typeof value === "string") return text(value, lengthMin);
    if (typeof value !== "object" || value === null) return value;
    await maybeYield();
    let differs = false;
    const members: [string, Json][] = [];
    for (const [name, member] of Object.entries(value)) {
      if (isObject(value) && (await text(name, LENGTH_MIN.other)) !== name) return undefined;
      const hidden = await hideIn(member, PROSE.has(name) ? LENGTH_MIN.prose : LENGTH_MIN.other);
      if (hidden === undefined) return undefined;
      differs ||= hidden !== member;
      members.push([name, hidden]);
    }
    if (!differs) return value;
    return Array.isArray(value) ? members.map(([, member]) => member) : Object.fromEntries(members);
  };

  const { description } = contract;
  const redacted = {
    ...contract,
    ...(description !== undefined && { description: await text(description, LENGTH_MIN.prose) }),
    tools: await hideEach("tool", contract.tools),
    resources: await hideEach("resource", contract.resources),
    resourceTemplates: await hideEach("resource template", contract.resourceTemplates),
    prompts: await hideEach("prompt", contract.prompts),
    ...(contract.apps && { apps: await hideEach("app", contract.apps) }),
  };
  // Problems quote the server.
  const redactedProblems: Problem[] = [];
  for (const each of problems) redactedProblems.push({ ...each, message: await text(each.message, LENGTH_MIN.prose) });
  return { ...observed, contract: redacted, problems: [...redactedProblems, ...firstProblems(omitted)] };
}

function omission(kind: string): Problem {
  const message = `It lists a ${kind} with one of the server's secrets in its name; the ${kind} is left out`;
  return { code: "secret-in-name", message, severity: "warning" };
}
