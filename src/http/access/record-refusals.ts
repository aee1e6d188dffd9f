import type { Audit } from "../../audit/audit.ts";
import { BerthError } from "../../lib/errors.ts";
import { peerOf } from "../peer.ts";
import type { RequestContext } from "../request-context.ts";
import type { Challenge } from "./challenge.ts";

/** Who showed a token that is not good here, or not for this. Who showed none has only not begun yet. */
const RECORDED: ReadonlySet<string> = new Set(["unauthorized", "forbidden"]);

/** Has whoever is challenged recorded, wherever that happens. */
export function recordRefusals(challenge: Challenge, recorder: RefusalRecorder): Challenge {
  return (context, refused) => {
    challenge(context, refused);
    recordRefusal(recorder, context, refused);
  };
}

export interface RefusalRecorder {
  readonly audit: Audit;
  /** Requests come through a proxy, which says where from. */
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
    // A token does not belong into an address, and yet may stand in its query.
    path: url.split("?", 1)[0]!,
    requestId: trace.requestId,
  });
}
