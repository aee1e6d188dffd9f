import type { Audit } from "../../audit/audit.ts";
import { BerthError } from "../../lib/errors.ts";
import { peerOf } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";
import type { Challenge } from "./challenge.ts";

/**
 * Refusals of a token that is invalid here or does not permit the request. A client without one has only not begun yet.
 */
const RECORDED: ReadonlySet<string> = new Set(["unauthorized", "forbidden"]);

/** Records every challenged client, wherever that happens. */
export function recordRefusals(challenge: Challenge, recorder: RefusalRecorder): Challenge {
  return (context, refused) => {
    challenge(context, refused);
    recordRefusal(recorder, context, refused);
  };
}

export interface RefusalRecorder {
  readonly audit: Audit;
  /** True when requests come through a proxy, which states their source. */
  readonly isProxied: boolean;
}

export function recordRefusal(
  { audit, isProxied }: RefusalRecorder,
  { request, servedTenant, principal, trace }: RequestContext,
  refused: unknown,
): void {
  if (!(refused instanceof BerthError) || !RECORDED.has(refused.code)) return;
  const { url = "" } = request;
  audit.refused(servedTenant, {
    code: refused.code,
    reason: refused.message,
    principal: principal?.id,
    from: peerOf(request, isProxied),
    // A token does not belong in an address, but its query may contain one.
    path: url.split("?", 1)[0]!,
    requestId: trace.requestId,
  });
}
