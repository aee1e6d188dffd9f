import type { Host } from "../../host/host.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Log } from "../../lib/log.ts";
import type { ListedLimits } from "../methods/lists.ts";
import type { Era } from "../protocol.ts";
import type { Sealer } from "../seal.ts";
import { modernClient, type ScalarReader } from "./check-request.ts";
import { createModernCodec } from "./codec.ts";
import { Listeners } from "./listeners.ts";
import { createResultWriter } from "./results.ts";
import { createRounds, type RoundsLimits } from "./questions.ts";
import type { TaskLimits } from "./tasks/task-runner.ts";
import type { TaskRecords } from "./tasks/task-store.ts";
import { createTasks } from "./tasks/tasks.ts";

/**
 * The modern era, 2026-07-28 and later: no handshake and no session. Each request states its terms, and the client
 * carries any open state. Only listening streams, and tasks, outlive their request.
 */
export interface Modern extends Era {
  /** Ends a tenant's listening streams, each with its result. */
  endTenant(tenant: string): void;
  /** The same for every tenant. */
  close(): void;
  runningTasks(): number;
  /** Resolves when the outcomes of all ended tasks are stored. */
  settled(): Promise<void>;
}

export type ModernLimits = TaskLimits & RoundsLimits & ListedLimits & Pick<Limits, "listenersPerTask">;

export interface ModernOptions {
  readonly host: Host;
  readonly berthVersion: string;
  readonly sealer: Sealer;
  readonly records: TaskRecords;
  readonly accessRequired?: boolean;
  /** Without it, no arguments are long. */
  readonly checks?: ScalarReader;
  readonly limits: ModernLimits;
  readonly log: Log;
}

export function createModern(options: ModernOptions): Modern {
  const { host, berthVersion, sealer, records, accessRequired = false, checks, limits, log } = options;
  const writer = createResultWriter(berthVersion);
  const listeners = new Listeners(host, limits);
  const rounds = createRounds({ host, sealer, limits });
  const onChange = (tenant: string, id: string, task: object): void => listeners.tellOfTask(tenant, id, task);
  const tasks = createTasks({ host, records, writer, limits, log, onChange });
  return {
    codec: createModernCodec({ writer, rounds, tasks, listeners, accessRequired, limits }),
    clientOf: (request, post, place) => modernClient(request, post, place, checks),
    endTenant: (tenant) => listeners.endTenant(tenant),
    close: () => listeners.close(),
    runningTasks: () => tasks.running(),
    settled: () => tasks.settled(),
  };
}
