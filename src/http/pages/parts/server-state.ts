import type { ServerSummary } from "../../../host/catalog/overview.ts";
import { SECRET_NOT_SET } from "../../../lib/problem.ts";
import type { Badge } from "./tool-view.ts";

/** The state of a server, in the same words on every page; one that lacks the value of a secret says so. */
export function stateView({ state, problems }: Pick<ServerSummary, "state" | "problems">): StateView {
  const lacksSecret = problems.some(({ code }) => code === SECRET_NOT_SET);
  return state === "ready" && lacksSecret ? { label: "secret not set", tone: "warn" } : SERVER_STATES[state];
}

type StateView = Pick<Badge, "label" | "tone">;

export const SERVER_STATES = {
  ready: { label: "ready", tone: "good" },
  disabled: { label: "disabled", tone: "" },
  refused: { label: "refused", tone: "bad" },
  unstarted: { label: "not started yet", tone: "" },
  starting: { label: "starting", tone: "accent" },
} as const satisfies Record<ServerSummary["state"], StateView>;
