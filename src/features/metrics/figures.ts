import { packageVersion } from "../../config.ts";
import { droppedLines } from "../../lib/log.ts";
import { LATE_MS, within } from "../../lib/within.ts";
import type { SocketUse } from "../../network/relay-wire.ts";
import type { FeatureCore, FeatureParts, MeasuredParts } from "../feature.ts";
import { createMetrics, type Metrics } from "./metrics.ts";

export function openMetrics({ limits, measured }: FeatureCore): FeatureParts {
  const metrics = createMetrics(packageVersion(), limits);
  registerParts(metrics, measured);
  const { onCall, onCompiled, forget } = metrics;
  return {
    onCall,
    onCompiled,
    forget,
    metrics,
    routes: async (figuresOfAll) => ({ pages: [(await import("./page.ts")).metricsPage(metrics, figuresOfAll)] }),
  };
}

const SOCKET_FIGURES = [
  ["open", "berth_guest_sockets", "Connections of guests that are open"],
  ["opened", "berth_guest_sockets_opened_total", "Connections of guests that were made"],
  [
    "refused",
    "berth_guest_sockets_refused_total",
    "Connections and look-ups of guests that were refused, or that failed",
  ],
  ["sentBytes", "berth_guest_socket_sent_bytes_total", "Bytes that guests sent over their connections"],
  ["receivedBytes", "berth_guest_socket_received_bytes_total", "Bytes that guests received over their connections"],
] as const;

/** Exports the current activity of each part. */
function registerParts(metrics: Metrics, parts: MeasuredParts): void {
  const { audit, journal, executor, relay, upstreams, endpoint, store, log } = parts;
  let storeBytes = 0;
  metrics.show({
    name: "berth_calls_in_flight",
    help: "Tool calls in progress",
    read: () => journal.inFlight,
  });
  metrics.show({
    name: "berth_guest_processes",
    help: "Guest processes: those that run a program, and spare ones that wait for one",
    label: "kind",
    read() {
      const { programs, spares } = executor.stats();
      return { program: programs, spare: spares };
    },
  });
  metrics.show({
    name: "berth_guest_calls_in_flight",
    help: "Calls and script runs that guest code is executing or that are queued",
    read: () => executor.stats().callsInFlight,
  });
  metrics.show({
    name: "berth_guest_processes_started_total",
    help: "Guest processes started",
    read: () => executor.stats().started,
  });
  metrics.show({
    name: "berth_guest_processes_ended_total",
    help: "Guest processes ended, for any reason",
    read: () => executor.stats().killed,
  });
  const used = (figure: keyof SocketUse) => (): Record<string, number> =>
    Object.fromEntries(Object.entries(relay.uses()).map(([tenant, use]) => [tenant, use[figure]]));
  for (const [figure, name, help] of SOCKET_FIGURES) metrics.show({ name, help, label: "tenant", read: used(figure) });
  metrics.show({
    name: "berth_guest_socket_open_seconds_total",
    help: "The total time that connections of guests were open",
    label: "tenant",
    read: () => Object.fromEntries(Object.entries(used("openMs")()).map(([tenant, ms]) => [tenant, ms / 1_000])),
  });
  metrics.show({
    name: "berth_upstreams",
    help: "Upstreams in use, by the state of their process or connection",
    label: "state",
    read: () => upstreams.stats().states,
  });
  metrics.show({
    name: "berth_upstream_starts_total",
    help: "Starts of upstreams, including the first ones",
    read: () => upstreams.stats().starts,
  });
  metrics.show({
    name: "berth_upstreams_withheld",
    help: "Upstreams with changes that wait for a person's approval",
    isShared: true,
    read: () => upstreams.stats().heldBack,
  });
  metrics.show({ name: "berth_sessions", help: "Open sessions", read: () => endpoint.stats().sessions });
  metrics.show({
    name: "berth_tasks_running",
    help: "Tasks that this process runs",
    read: () => endpoint.stats().tasks,
  });
  metrics.show({
    name: "berth_client_log_lines_dropped_total",
    help: "Log lines of guests that were dropped because clients read too slowly",
    read: () => endpoint.stats().droppedLogs,
  });
  metrics.show({
    name: "berth_audit_queued_calls",
    help: "Calls queued for the audit log",
    read: () => audit.stats().queued,
  });
  metrics.show({
    name: "berth_audit_dropped_calls_total",
    help: "Calls that the audit log only counted because its queue was full",
    read: () => audit.stats().dropped,
  });
  metrics.show({
    name: "berth_log_lines_dropped_total",
    help: "Log lines that were dropped because they were not read or the disk was full",
    read: () => droppedLines(log),
  });
  metrics.show({
    name: "berth_store_bytes",
    help: "Size of the store's database",
    isShared: true,
    async read() {
      // If the store does not answer, reports its last known size.
      await within(
        LATE_MS,
        store.size().then((bytes) => (storeBytes = bytes)),
      );
      return storeBytes;
    },
  });
}
