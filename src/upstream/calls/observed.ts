import type { Contract } from "../../contract/contract.ts";
import { turnTaker } from "../../lib/event-loop.ts";
import { isObject, type JsonObject, type Json } from "../../lib/json.ts";
import { firstProblems, type Problem } from "../../lib/problem.ts";
import { isOfOneMethod } from "../messages/upstream-error.ts";
import { observeApps } from "./apps.ts";
import type { UpstreamConnection } from "./connection.ts";
import { contractOf, methodProblem, surveyLists, type FailedList } from "./survey.ts";

/** The observed contract of a server. */
export interface Observed {
  readonly contract: Contract;
  /** Lists that the server failed to send, so that nothing of them is known. */
  readonly failed: readonly FailedList[];
  /** Invalid parts of the lists, which are left out. */
  readonly problems: readonly Problem[];
  /** The size of everything listed. */
  readonly bytes: number;
}

/** `before` holds the problems met so far. */
export async function observe(connection: UpstreamConnection, before: readonly Problem[]): Promise<Observed> {
  const survey = await surveyLists(connection);
  const { failed, problems, bytes } = survey;
  const contract = await contractOf(survey);
  const { apps, problems: ofApps } = await observeApps(connection, contract.tools);
  return {
    contract: apps.length > 0 ? { ...contract, apps } : contract,
    failed,
    problems: firstProblems([...before, ...problems, ...ofApps]),
    bytes,
  };
}

/**
 * Subscribes to a server's log messages and changes. Resolves with the subscriptions that failed, without which the server
 * is used all the same. Observe the contract after that, or again: earlier changes are not reported.
 */
export async function subscribe(connection: UpstreamConnection, timeoutMs: number): Promise<readonly Problem[]> {
  const { capabilities, era } = connection;
  const filter = changesOf(capabilities);
  try {
    if (era === "modern") {
      if (Object.keys(filter).length > 0) await connection.listen(filter, timeoutMs);
    } else if (capabilities["logging"] !== undefined) {
      await connection.request("logging/setLevel", { level: "debug" }, { timeoutMs });
    }
    return [];
  } catch (error) {
    if (!isOfOneMethod(error)) throw error;
    const [what, method] =
      era === "modern" ? ["Changes", "subscriptions/listen"] : ["Log messages", "logging/setLevel"];
    const problem = methodProblem(method, error);
    return [{ ...problem, message: `${what} are not reported: ${problem.message}` }];
  }
}

function changesOf(capabilities: JsonObject): JsonObject {
  const changes = (name: string): boolean => (capabilities[name] as JsonObject | undefined)?.["listChanged"] === true;
  return {
    ...(changes("tools") && { toolsListChanged: true }),
    ...(changes("resources") && { resourcesListChanged: true }),
    ...(changes("prompts") && { promptsListChanged: true }),
  };
}

/** The whole text without any hidden value of at least that many characters. */
export type HideWhole = (
  text: string,
  lengthMin: number,
  takeTurns: () => Promise<void> | undefined,
) => Promise<string>;

/**
 * For text that people read, and for text that programs use: a short value, such as a user's name, may be a word of a
 * schema.
 */
const LENGTH_MIN = { prose: 6, other: 12 };
const PROSE: ReadonlySet<string> = new Set(["description", "title"]);

/**
 * Removes hidden values from a server's contract, which clients list, the store keeps, and exports contain. A name is
 * never rewritten: an entry with a secret in a name is left out, and a problem says so. Other calls get their turn
 * meanwhile.
 */
export async function hideInOffers(observed: Observed, hide: HideWhole): Promise<Observed> {
  const { contract, problems } = observed;
  const takeTurns = turnTaker();
  const text = (value: string, lengthMin: number): Promise<string> => hide(value, lengthMin, takeTurns);
  const left: Problem[] = [];

  const each = async <Item>(kind: string, items: readonly Item[]): Promise<readonly Item[]> => {
    const shown: Item[] = [];
    for (const item of items) {
      const hidden = (await hasOpenNames(item as JsonObject))
        ? await hiddenIn(item as Json, LENGTH_MIN.other)
        : undefined;
      if (hidden === undefined) left.push(leftOut(kind));
      else shown.push(hidden as Item);
    }
    return shown.length === items.length && shown.every((item, index) => item === items[index]) ? items : shown;
  };

  const hasOpenNames = async (item: JsonObject): Promise<boolean> => {
    for (const name of [item["name"], item["uri"], item["uriTemplate"]]) {
      if (typeof name === "string" && (await text(name, LENGTH_MIN.other)) !== name) return false;
    }
    return true;
  };

  /** The same value if there is nothing to hide; undefined if a member's name would have to change. */
  const hiddenIn = async (value: Json, lengthMin: number): Promise<Json | undefined> => {
    if (typeof value === "string") return text(value, lengthMin);
    if (typeof value !== "object" || value === null) return value;
    await takeTurns();
    let differs = false;
    const made: [string, Json][] = [];
    for (const [name, member] of Object.entries(value)) {
      if (isObject(value) && (await text(name, LENGTH_MIN.other)) !== name) return undefined;
      const hidden = await hiddenIn(member, PROSE.has(name) ? LENGTH_MIN.prose : LENGTH_MIN.other);
      if (hidden === undefined) return undefined;
      differs ||= hidden !== member;
      made.push([name, hidden]);
    }
    if (!differs) return value;
    return Array.isArray(value) ? made.map(([, member]) => member) : Object.fromEntries(made);
  };

  const { description } = contract;
  const made = {
    ...contract,
    ...(description !== undefined && { description: await text(description, LENGTH_MIN.prose) }),
    tools: await each("tool", contract.tools),
    resources: await each("resource", contract.resources),
    resourceTemplates: await each("resource template", contract.resourceTemplates),
    prompts: await each("prompt", contract.prompts),
    ...(contract.apps && { apps: await each("app", contract.apps) }),
  };
  // They quote the server.
  const told: Problem[] = [];
  for (const each of problems) told.push({ ...each, message: await text(each.message, LENGTH_MIN.prose) });
  return { ...observed, contract: made, problems: [...told, ...firstProblems(left)] };
}

function leftOut(kind: string): Problem {
  const message = `It lists a ${kind} with one of the server's secrets in its name; the ${kind} is left out`;
  return { code: "secret-in-name", message, severity: "warning" };
}
