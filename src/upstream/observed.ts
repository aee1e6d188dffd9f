import type { Contract } from "../contract/contract.ts";
import type { JsonObject } from "../lib/json.ts";
import { firstProblems, type Problem } from "../lib/problem.ts";
import type { UpstreamConnection } from "./connection.ts";
import { contractOf } from "./contract-of.ts";
import { isOfOneMethod, methodProblem, surveyOf, type FailedList } from "./survey.ts";

/** What a server offers, as it was seen. */
export interface Observed {
  readonly contract: Contract;
  /** Lists that the server did not give, so that nothing of them is known. */
  readonly failed: readonly FailedList[];
  /** What of the lists is not sound and is left out. */
  readonly problems: readonly Problem[];
  /** Of all that was listed. */
  readonly bytes: number;
}

/** `before` are problems that were met on the way to it. */
export async function observe(connection: UpstreamConnection, before: readonly Problem[]): Promise<Observed> {
  const survey = await surveyOf(connection);
  const { failed, problems, bytes } = survey;
  return { contract: await contractOf(survey), failed, problems: firstProblems([...before, ...problems]), bytes };
}

/**
 * Has a server say what it logs, and when what it offers changes; to be done before that is looked at. Gives what does not
 * work of it, without which the server is used all the same.
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
