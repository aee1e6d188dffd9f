import type { IncomingMessage } from "node:http";
import type { Audit } from "../../audit/audit.ts";
import { BerthError } from "../../errors.ts";
import { peerOf } from "../peer.ts";
import { tenantOf } from "../place.ts";
import { traceOf } from "../trace.ts";
import { principalOf } from "./authenticate.ts";
import type { Challenge } from "./challenge.ts";

/** Who showed a token that is not good here, or not for this. Who showed none has only not begun yet. */
const RECORDED: ReadonlySet<string> = new Set(["unauthorized", "forbidden"]);

/** Has whoever is challenged recorded, wherever that happens. */
export function recordRefusals(challenge: Challenge, recorder: RefusalRecorder): Challenge {
  return (request, response, refused, principal) => {
    challenge(request, response, refused);
    recordRefusal(recorder, request, refused, principal);
  };
}

export interface RefusalRecorder {
  readonly audit: Audit;
  /** Requests come through a proxy, which says where from. */
  readonly isProxied: boolean;
}

export function recordRefusal(
  { audit, isProxied }: RefusalRecorder,
  request: IncomingMessage,
  refused: unknown,
  principal = principalOf(request),
): void {
  if (!(refused instanceof BerthError) || !RECORDED.has(refused.code)) return;
  const { url = "" } = request;
  audit.refused(tenantIfAny(request), {
    code: refused.code,
    reason: refused.message,
    principal: principal?.id,
    from: peerOf(request, isProxied),
    // A token does not belong into an address, and yet may stand in its query.
    path: url.split("?", 1)[0]!,
    requestId: traceOf(request).requestId,
  });
}

/** Whoever asks for a tenant that there is not is recorded all the same. */
function tenantIfAny(request: IncomingMessage): string | undefined {
  try {
    return tenantOf(request);
  } catch {
    return undefined;
  }
}
