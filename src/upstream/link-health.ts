import type { UpstreamConnection } from "./connection.ts";
import type { FailedStarts } from "./failed-starts.ts";

/** The state of an upstream, for people and for metrics. */
export interface UpstreamHealth {
  readonly state: "idle" | "starting" | "running" | "failed";
  /** Starts so far. */
  readonly starts: number;
  readonly requests: number;
  /** The last failure; safe to show. */
  readonly failure?: string;
  /** Milliseconds since the epoch: no retry before then. */
  readonly retryAt?: number;
  /** Facts of the running connection, such as `2026-07-28`. */
  readonly protocolVersion?: string;
  readonly server?: { readonly name: string; readonly version: string };
}

export function healthOf(
  connection: UpstreamConnection | undefined,
  starts: { readonly failed: FailedStarts; readonly count: number; readonly isOneUnderWay: boolean },
  requests: number,
): UpstreamHealth {
  const { reason, waitMs } = starts.failed;
  const whileNone = starts.isOneUnderWay ? "starting" : reason === undefined ? "idle" : "failed";
  const server = connection?.serverInfo;
  return {
    state: connection ? "running" : whileNone,
    starts: starts.count,
    requests,
    ...(reason !== undefined && { failure: reason }),
    // For people, by their clock as it is now.
    // oxlint-disable-next-line no-restricted-properties
    ...(!connection && waitMs !== undefined && { retryAt: Math.ceil(Date.now() + waitMs) }),
    ...(connection && { protocolVersion: connection.protocolVersion }),
    ...(server && { server: { name: server.name, version: server.version } }),
  };
}
