import { Histogram, type Registry } from "prom-client";
import type { CalledTool, CallObserver } from "../host/observe.ts";

/** In seconds: what takes a guest some milliseconds, a server of others some seconds, and a task a minute. */
const BUCKETS = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const OTHER = "other";

type Labels = Readonly<Record<"tenant" | "server" | "tool", string>>;

/**
 * Counts and times calls by tenant, server, tool and outcome. Of the first `metricTools` tools that are called each has
 * figures of its own, and all others share those of the tool `other`: anyone who may add servers could else make the
 * figures grow without end.
 */
export function countCalls(registry: Registry, metricTools: number): CallObserver {
  const seconds = new Histogram({
    name: "berth_call_duration_seconds",
    help: "How long calls of tools took, by how they ended (ok, error, invalid, asked)",
    labelNames: ["tenant", "server", "tool", "outcome"],
    buckets: BUCKETS,
    registers: [registry],
  });
  const known = new Set<string>();
  const labels = new WeakMap<CalledTool, Labels>();

  return ({ tool, outcome, ms }) => {
    let own = labels.get(tool);
    if (!own) labels.set(tool, (own = labelsOf(tool)));
    seconds.observe({ ...own, outcome }, ms / 1000);
  };

  function labelsOf({ tenant, server, tool }: CalledTool): Labels {
    const key = JSON.stringify([tenant, server, tool]);
    if (known.size >= metricTools && !known.has(key)) return { tenant: OTHER, server: OTHER, tool: OTHER };
    known.add(key);
    return { tenant, server, tool };
  }
}
