import type { Contract } from "../contract/contract.ts";
import type { JsonObject } from "../json.ts";
import type { Problem } from "../problem.ts";
import type { UpstreamConnection } from "./connection.ts";
import { contractOf } from "./contract-of.ts";
import { surveyOf } from "./survey.ts";

/** What a server offers, as it was seen. */
export interface Observed {
  readonly contract: Contract;
  /** What of the lists is not sound and is left out. */
  readonly problems: readonly Problem[];
  /** Of all that was listed. */
  readonly bytes: number;
}

export async function observe(connection: UpstreamConnection): Promise<Observed> {
  const survey = await surveyOf(connection);
  return { contract: await contractOf(survey), problems: survey.problems, bytes: survey.bytes };
}

/** Has a server say what it logs, and when what it offers changes; to be done before that is looked at. */
export async function subscribe(connection: UpstreamConnection, timeoutMs: number): Promise<void> {
  const { capabilities, era } = connection;
  if (era === "legacy") {
    if (capabilities["logging"] !== undefined) await connection.request("logging/setLevel", { level: "debug" });
    return;
  }
  const filter = changesOf(capabilities);
  if (Object.keys(filter).length > 0) await connection.listen(filter, timeoutMs);
}

function changesOf(capabilities: JsonObject): JsonObject {
  const changes = (name: string): boolean => (capabilities[name] as JsonObject | undefined)?.["listChanged"] === true;
  return {
    ...(changes("tools") && { toolsListChanged: true }),
    ...(changes("resources") && { resourcesListChanged: true }),
    ...(changes("prompts") && { promptsListChanged: true }),
  };
}
