import type { ServerSummary } from "../../../host/catalog/overview.ts";
import type { UpstreamState } from "../../../host/upstreams/hosting.ts";
import { SECRET_NOT_SET, type Problem } from "../../../lib/problem.ts";
import type { Badge } from "./tool-view.ts";

/** The one state of a server, in the same words on every page: that of its process or connection counts if it is worse. */
export function stateView(
  { state, problems }: Pick<ServerSummary, "state" | "problems">,
  upstream?: Pick<UpstreamState, "health" | "pending">,
): StateView {
  if (state !== "ready") return SERVER_STATES[state];
  if (upstream?.health.state === "failed") return { label: "failed", tone: "bad" };
  if (upstream?.pending?.changes.some(({ effect }) => effect !== "compatible"))
    return { label: "needs review", tone: "warn" };
  if (problems.some(({ severity }) => severity === "error")) return { label: "incomplete", tone: "warn" };
  const lacksSecret = problems.some(({ code }) => code === SECRET_NOT_SET);
  return lacksSecret ? { label: "secret not set", tone: "warn" } : SERVER_STATES.ready;
}

type StateView = Pick<Badge, "label" | "tone">;

/** True for changes of an upstream, which its page lists where they are approved. */
export function isContractChange({ code }: Problem): boolean {
  return code === "contract-changed";
}

/** True for grants that the code requests, which the settings list where they are given. */
export function isGrantRequest({ code }: Problem): boolean {
  return code === "secret-requested" || code === "network-requested";
}

export const SERVER_STATES = {
  ready: { label: "ready", tone: "good" },
  disabled: { label: "disabled", tone: "" },
  refused: { label: "refused", tone: "bad" },
  unstarted: { label: "not started yet", tone: "" },
  starting: { label: "starting", tone: "accent" },
} as const satisfies Record<ServerSummary["state"], StateView>;
