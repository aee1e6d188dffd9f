import type { ServerSummary } from "../../../host/catalog/overview.ts";
import type { Badge } from "./tool-view.ts";

/** The state of a server, in the same words on every page. */
export const SERVER_STATES = {
  ready: { label: "ready", tone: "good" },
  disabled: { label: "disabled", tone: "" },
  refused: { label: "refused", tone: "bad" },
  unstarted: { label: "not started yet", tone: "" },
  starting: { label: "starting", tone: "accent" },
} as const satisfies Record<ServerSummary["state"], Pick<Badge, "label" | "tone">>;
