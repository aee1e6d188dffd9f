import type { Contract } from "../contract/contract.ts";
import type { JsonObject } from "../lib/json.ts";
import { firstProblems, type Problem } from "../lib/problem.ts";
import type { UpstreamConnection } from "./connection.ts";
import { contractOf } from "./contract-of.ts";
import { isOfOneMethod, methodProblem, surveyOf, type FailedList } from "./survey.ts";

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
  const survey = await surveyOf(connection);
  const { failed, problems, bytes } = survey;
  return { contract: await contractOf(survey), failed, problems: firstProblems([...before, ...problems]), bytes };
}

/**
 * Subscribes to a server's log messages and changes; call it before looking at the contract. Resolves with the
 * subscriptions that failed, without which the server is used all the same.
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
    return [methodProblem(era === "modern" ? "subscriptions/listen" : "logging/setLevel", error)];
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
