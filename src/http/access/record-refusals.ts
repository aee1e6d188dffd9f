import type { IncomingMessage } from "node:http";
import type { Audit } from "../../audit/audit.ts";
import { BerthError } from "../../errors.ts";
import { tenantOf } from "../place.ts";
import { traceOf } from "../trace.ts";
import type { Challenge } from "./challenge.ts";

/** Who showed a token that is not good here, or not for this. Who showed none has only not begun yet. */
const RECORDED: ReadonlySet<string> = new Set(["unauthorized", "forbidden"]);

/** Has whoever is challenged recorded, wherever that happens. */
export function recordRefusals(challenge: Challenge, audit: Audit): Challenge {
  return (request, response, refused) => {
    challenge(request, response, refused);
    recordRefusal(audit, request, refused);
  };
}

export function recordRefusal(audit: Audit, request: IncomingMessage, refused: unknown): void {
  if (!(refused instanceof BerthError) || !RECORDED.has(refused.code)) return;
  const { url = "", socket } = request;
  audit.refused(tenantIfAny(request), {
    code: refused.code,
    reason: refused.message,
    from: addressOf(socket.remoteAddress),
    // A token does not belong into an address, and yet may stand in its query.
    path: url.split("?", 1)[0]!,
    requestId: traceOf(request).requestId,
  });
}

export function addressOf(remote: string | undefined): string {
  return remote?.replace(/^::ffff:/i, "") ?? "";
}

/** Whoever asks for a tenant that there is not is recorded all the same. */
function tenantIfAny(request: IncomingMessage): string | undefined {
  try {
    return tenantOf(request);
  } catch {
    return undefined;
  }
}
