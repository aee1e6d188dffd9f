import type { IncomingMessage, ServerResponse } from "node:http";

/** Tells if requests should be sent here, and if not, why. */
export interface Readiness {
  /** Empty when they should. Never rejects, and is fast however often it is asked. */
  reasons(): Promise<readonly string[]>;
  /** Tells what is amiss although requests should be sent here: elsewhere they would not fare better. */
  readonly warnings?: readonly string[];
}

/**
 * `GET /healthz` tells that the process is alive, `GET /readyz` that it can do its work. Monitors use any address they
 * know, without a token, so neither checks the Host or tells anything of what is hosted. Returns false for every other
 * request.
 */
export function createHealth(
  readiness: Readiness,
  publicPath = "",
): (request: IncomingMessage, response: ServerResponse) => boolean {
  return ({ method, url }, response) => {
    if (method !== "GET" && method !== "HEAD") return false;
    const inside = url?.startsWith(`${publicPath}/`) ? url.slice(publicPath.length) : url;
    const [, path] = /^\/(healthz|readyz)(?:\?|$)/.exec(inside ?? "") ?? [];
    if (path === undefined) return false;
    if (path === "healthz") answer(response, 200, { status: "ok" });
    else void answerReadiness(readiness, response);
    return true;
  };
}

async function answerReadiness(readiness: Readiness, response: ServerResponse): Promise<void> {
  const reasons = await readiness.reasons();
  const { warnings = [] } = readiness;
  if (reasons.length === 0) answer(response, 200, { status: "ready", ...(warnings.length > 0 && { warnings }) });
  else answer(response, 503, { status: "unready", reasons });
}

function answer(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body);
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(text),
    "Cache-Control": "no-store",
  });
  response.end(text);
}
