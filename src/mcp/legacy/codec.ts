import type { Limits } from "../../limits/limits.ts";
import { BerthError } from "../../lib/errors.ts";
import { jsonOf } from "../../host/calls/long-result.ts";
import type { Codec, Method } from "../protocol.ts";
import type { ListedLimits } from "../methods/lists.ts";
import { sharedMethods } from "../methods/shared.ts";
import { ask, type AskLimits } from "./ask.ts";
import { sessionMethods } from "./session-methods.ts";
import type { Sessions } from "./sessions.ts";
import { shapeOf } from "./shape.ts";

/** The codec of one revision from 2024-11-05 to 2025-11-25. Its results have the shape of that revision. */
export function createLegacyCodec(version: string, { limits, sessions }: LegacyCodecParts): Codec {
  const shape = shapeOf(version);
  return {
    era: "legacy",
    shape: shape.name,
    listItem: (list, item) => shape.listItem(list, item),
    listPage: (_catalog, page) => JSON.stringify(page),
    callResult: (_catalog, tool, result) => shape.callResult(tool, result),
    readResult: (_catalog, result) => jsonOf(result),
    promptResult: (_catalog, result) => jsonOf(shape.promptResult(result)),
    result: (_catalog, result) => JSON.stringify(result),
    answersOf: () => undefined,
    ask: (call, inputRequests, answers) => ask(call, inputRequests, answers, limits),
    methods: new Map<string, Method>([
      ...sharedMethods(limits).map(([name, method]) => [name, withLegacyErrors(method)] as const),
      ...sessionMethods(sessions, limits.subscriptionsPerSession).map(
        ([name, method]) => [name, withLegacyErrors(method)] as const,
      ),
      ["ping", () => "{}"],
    ]),
  };
}

interface LegacyCodecParts {
  readonly limits: LegacyCodecLimits;
  readonly sessions: Sessions;
}

export type LegacyCodecLimits = AskLimits & ListedLimits & Pick<Limits, "subscriptionsPerSession">;

/** A missing resource has an error code of its own before 2026-07-28 (2025-11-25 `server/resources`). */
function withLegacyErrors(method: Method): Method {
  const translate = (error: unknown): never => {
    if (!(error instanceof BerthError) || error.code !== "resource_not_found") throw error;
    throw new BerthError("legacy_resource_not_found", error.detail, {
      ...(error.data && { data: error.data }),
    });
  };
  return (call) => {
    try {
      const result = method(call);
      return result instanceof Promise ? result.catch(translate) : result;
    } catch (error) {
      return translate(error);
    }
  };
}
