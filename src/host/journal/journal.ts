import { Gate } from "../../admission/gate.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { GuestLog } from "../../executor/executor.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import { shareLimit, type SharedLimits } from "../../lib/shared-limits.ts";
import { traceId } from "../../lib/trace.ts";
import type { Grant } from "../../secrets/grants.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import type { CallOptions, ToolContract } from "../offers/catalog.ts";
import { sizeOf } from "../offers/content.ts";
import { Activities, type Activity } from "./activity.ts";
import type { CalledTool, CallObserver, CallRecord, CallRetention, LiveEvent } from "./record.ts";

/**
 * The record of all calls, whichever way a call came: MCP of any revision, a task, a native call, `/servers/…`, a redirect
 * or a `server://` URI. A finished call is reported once, and each observer takes what it needs: the activity of its
 * server, metrics, the audit log, the log of the service, retained calls, and `berth dev`.
 */
export class Journal {
  readonly activities = new Activities();
  /** Calls in progress. */
  inFlight = 0;
  /** Without it, no calls are retained. It is set before the first server is loaded. */
  retention: CallRetention | undefined;
  readonly #log: Log | undefined;
  readonly #logsCalls: boolean;
  readonly #observers: CallObserver[] = [];
  readonly #followers: ((event: LiveEvent) => void)[] = [];

  /** The log gets the errors of observers and, at debug level, calls and lines. */
  constructor({ log }: { readonly log?: Log } = {}) {
    this.#log = log;
    this.#logsCalls = log?.isLevelEnabled("debug") ?? false;
  }

  addObserver(observer: CallObserver): void {
    this.#observers.push(observer);
  }

  /** True while there are followers of live events. */
  get isFollowed(): boolean {
    return this.#followers.length > 0;
  }

  follow(follower: (event: LiveEvent) => void): void {
    this.#followers.push(follower);
  }

  publish(event: LiveEvent): void {
    for (const follower of this.#followers) this.#give(follower, event);
  }

  /** The journal of one release of a server. */
  release(release: CalledRelease, parts?: ReleaseParts): ReleaseJournal {
    return new ReleaseJournal(this, release, parts);
  }

  record(record: CallRecord): void {
    if (this.#logsCalls) logCall(this.#log!, record);
    for (const observer of this.#observers) this.#give(observer, record);
  }

  line(tool: CalledTool, line: GuestLog): void {
    if (this.#logsCalls) this.#log!.debug({ ...tool, line }, "guest log");
    if (this.isFollowed) this.publish({ kind: "line", tool, line });
  }

  /** Forgets what a tenant has no more, and follows how long its servers retain calls. */
  keepOnly(tenant: string, servers: ReadonlyMap<string, DirectoryEntry>): void {
    this.activities.keepOnly(tenant, servers);
    this.retention?.follow(tenant, servers);
  }

  /** Forgets a tenant that is no longer served. */
  forget(tenant: string): void {
    this.activities.keepOnly(tenant, new Map());
    this.retention?.forget(tenant);
  }

  async close(): Promise<void> {
    await this.retention?.close();
  }

  /** The failure of an observer affects neither the call nor other observers. */
  #give<Given>(observer: (given: Given) => void, given: Given): void {
    try {
      observer(given);
    } catch (error) {
      this.#log?.error({ err: error }, "an observer of calls failed");
    }
  }
}

type CalledRelease = Omit<CalledTool, "tool">;

interface ReleaseParts {
  /** Default: that of the server. */
  readonly activity?: Activity;
  readonly entry?: Pick<ServerEntry, "limits" | "retainCallsMs">;
  /** The secrets that its server may see; undefined for none. */
  readonly grant?: Grant | undefined;
  /** By which several processes enforce limits together. */
  readonly sharedLimits?: SharedLimits | undefined;
}

/** The journal of one release of a server: of its tools, and of what its other items do. */
export class ReleaseJournal {
  readonly release: CalledRelease;
  readonly journal: Journal;
  readonly activity: Activity;
  /** Admits calls; undefined when the entry does not limit calls of its server. */
  readonly gate: Gate | undefined;
  readonly #parts: ReleaseParts;

  constructor(journal: Journal, release: CalledRelease, parts: ReleaseParts = {}) {
    this.journal = journal;
    this.release = release;
    this.activity = parts.activity ?? journal.activities.of(release.tenant, release.server);
    this.gate = gateOf(release, parts);
    this.#parts = parts;
  }

  /** Removes from a text the secrets that the server was given. */
  readonly hide = (text: string): string => this.#parts.grant?.redactor.hide(text) ?? text;

  tool(contract: Pick<ToolContract, "name" | "inputSchema" | "outputSchema">): ToolJournal {
    const tool = { ...this.release, tool: contract.name };
    const { entry, grant } = this.#parts;
    return new ToolJournal(tool, this, entry && this.journal.retention?.retainer(tool, { contract, entry, grant }));
  }

  /** Takes the lines of a tool, or of another item. */
  lines(name: string): (line: GuestLog) => void {
    const { journal, activity } = this;
    const tool = { ...this.release, tool: name };
    return (line) => {
      activity.addLine(name, line);
      journal.line(tool, line);
    };
  }
}

/** The start of a call, as far as it is recorded; `EndedCall` is its end. */
interface BegunCall {
  readonly args: JsonObject | JsonText;
  readonly options: Pick<CallOptions, "principal" | "trace" | "answers">;
  /** On the process's clock (`performance.now`). */
  readonly beganAt: number;
}
type EndedCall = Pick<CallRecord, "outcome"> &
  Partial<Pick<CallRecord, "result" | "rejection" | "failure">> & {
    readonly asked?: { readonly inputRequests: CallRecord["asked"] } | undefined;
  };

/** Takes the calls of one tool: they begin, may enter and leave, and end with a record. */
export class ToolJournal {
  readonly #tool: CalledTool;
  readonly #of: ReleaseJournal;
  readonly #retain: CallObserver | undefined;
  /** Takes the lines of its calls. Shared by all calls, so a call that prints nothing costs no function of its own. */
  readonly onLine: OnLog;

  constructor(tool: CalledTool, of: ReleaseJournal, retain: CallObserver | undefined) {
    this.#tool = tool;
    this.#of = of;
    this.#retain = retain;
    this.onLine = of.lines(tool.tool);
  }

  /** A call has arrived, which may still be refused. */
  began({ args, options: { answers }, beganAt }: BegunCall): void {
    const { journal, hide } = this.#of;
    if (journal.isFollowed) journal.publish({ kind: "began", tool: this.#tool, beganAt, args, answers, hide });
  }

  /** Admits a call, which is in progress until `leave`; or returns why it is refused, for its caller. */
  enter(): string | undefined {
    const { journal, activity, gate } = this.#of;
    try {
      gate?.enter(performance.now());
    } catch (error) {
      return (error as Error).message;
    }
    activity.inFlight += 1;
    journal.inFlight += 1;
    return undefined;
  }

  leave(): void {
    const { journal, activity, gate } = this.#of;
    gate?.leave();
    activity.inFlight -= 1;
    journal.inFlight -= 1;
  }

  /** The options for a call that does not end at once; copying them for each call would cost it a microsecond. */
  heard(options: CallOptions): CallOptions {
    return { ...options, onLog: bothOf(this.onLine, options.onLog)! };
  }

  /** Records the end of a call. */
  record({ args, options, beganAt }: BegunCall, ended: EndedCall, retries = 0): void {
    const { principal, trace } = options;
    const { outcome, result, asked, rejection, failure } = ended;
    const { journal, activity, hide } = this.#of;
    const call: CallRecord = {
      tool: this.#tool,
      outcome,
      beganAt,
      ms: performance.now() - beganAt,
      retries,
      size: result ? sizeOf(result) : 0,
      principal,
      trace,
      args,
      result,
      asked: asked?.inputRequests,
      rejection,
      failure,
    };
    activity.record(call);
    journal.record(call);
    this.#retain?.(call);
    if (journal.isFollowed) journal.publish({ kind: "ended", call, hide });
  }
}

type OnLog = (line: GuestLog) => void;

/** Most calls have at most one listener, for which no function is made. */
export function bothOf(first: OnLog | undefined, second: OnLog | undefined): OnLog | undefined {
  if (!first || !second) return first ?? second;
  return (line) => {
    first(line);
    second(line);
  };
}

const SETTINGS = {
  requests: '"calls" of "limits" in its entry in mcps',
  requestsPerSecond: '"calls_per_second" of "limits" in its entry in mcps',
};

function gateOf({ tenant, server, release }: CalledRelease, { entry, sharedLimits }: ReleaseParts): Gate | undefined {
  const { calls, callsPerSecond } = entry?.limits ?? {};
  if (calls === undefined && callsPerSecond === undefined) return undefined;
  const limits = { requests: calls ?? Infinity, requestsPerSecond: callsPerSecond ?? 0, requestBurst: 0 };
  const shared = shareLimit(sharedLimits, tenant, "calls", `${server}@${release}`);
  return new Gate(`the server "${server}"`, limits, SETTINGS, "calls", shared);
}

/** Logs one line per call: none of its contents, except where a function threw. */
function logCall(log: Log, { tool, outcome, ms, retries, size, principal, trace, failure }: CallRecord): void {
  const line = {
    requestId: trace?.requestId,
    traceId: trace && traceId(trace),
    ...tool,
    principal: principal?.id,
    outcome,
    ms: Math.round(ms * 1000) / 1000,
    size,
    retries,
    ...(failure?.stack !== undefined && { stack: failure.stack }),
  };
  log.debug(line, "a tool was called");
}
