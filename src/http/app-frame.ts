import { allowedOrigins, buildPolicy } from "../contract/app-policy.ts";
import { BerthError } from "../lib/errors.ts";
import type { OriginOf } from "./public-origin.ts";
import type { RouteHandler } from "./routed.ts";

/** Where the tester's frames of apps begin; the policy of its page allows frames of this address alone. */
export const APP_FRAME = "/app-frame";

/**
 * `GET /app-frame?csp=<JSON of _meta.ui.csp>`: an empty page with the policy of an app, into which the page around it
 * writes the HTML of that app. Its headers give it an origin of its own, whoever opens it, and the policy stays when it
 * is written. It holds nothing of a tenant, so it is open to everybody.
 */
export function appFrame(originOf: OriginOf): RouteHandler {
  return ({ request, response }) => {
    const { csp = "{}" } = request.query;
    const { allowed } = allowedOrigins(readPolicy(csp), originOf(request));
    response.setHeader("Content-Security-Policy", buildPolicy(allowed));
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.setHeader("Referrer-Policy", "no-referrer");
    response.setHeader("Cache-Control", "no-store");
    response.end(PAGE);
  };
}

function readPolicy(csp: unknown): unknown {
  try {
    if (typeof csp === "string") return JSON.parse(csp);
  } catch {
    // As a policy that is no text at all.
  }
  throw new BerthError("invalid_params", '"csp" must be the JSON of a policy, such as {"connectDomains": []}');
}

/** It speaks the messages of a sandbox proxy (SEP-1865), and takes HTML once, and from the page around it only. */
const PAGE = `<!doctype html><meta charset="utf-8"><title>App</title><script>
addEventListener("message", function take({ source, data }) {
  if (source !== parent || parent === window || data?.method !== "ui/notifications/sandbox-resource-ready") return;
  removeEventListener("message", take);
  document.open();
  document.write(data.params.html);
  document.close();
});
parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, "*");
</script>`;
