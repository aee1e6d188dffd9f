import type { Principal } from "../access/principal.ts";
import { Gate } from "../admission/gate.ts";
import type { Cid } from "../lib/cid.ts";
import type { JsonObject, JsonText } from "../lib/json.ts";
import type { Trace } from "../lib/trace.ts";
import type { Activity, CallOutcome } from "./activity.ts";
import type { CallOptions, CallResult } from "./catalog.ts";
import type { ServerLimits } from "./config/given.ts";
import type { GuestFailure, GuestLog } from "../executor/executor.ts";
import { sizeOf } from "./content.ts";

/**
 * Where it is heard that a tool was called, by whatever way the call came: MCP of every revision, a task, a native
 * call, `/servers/…`, a redirect or a `server://` URI. It owns who hears of calls and what they hear. It knows nothing
 * of what observers make of it, such as figures or an audit log.
 */
export class Observers {
  readonly #observers: CallObserver[] = [];
  readonly #lines: LineObserver[] = [];
  readonly #onFault: (error: unknown) => void;
  /** Calls that are carried out now. */
  inFlight = 0;

  /** `onFault` hears of an observer that failed; a call never does. */
  constructor(onFault: (error: unknown) => void = () => {}) {
    this.#onFault = onFault;
  }

  get any(): boolean {
    return this.#observers.length > 0;
  }

  /** True while somebody hears of lines. */
  get anyLines(): boolean {
    return this.#lines.length > 0;
  }

  addLines(observer: LineObserver): void {
    this.#lines.push(observer);
  }

  tellLine(line: ObservedLine): void {
    for (const observer of this.#lines) observer(line);
  }

  /** Gives what ends it. */
  add(observer: CallObserver): () => void {
    this.#observers.push(observer);
    return () => {
      const at = this.#observers.indexOf(observer);
      if (at >= 0) this.#observers.splice(at, 1);
    };
  }

  tell(call: ObservedCall): void {
    for (const observer of this.#observers) {
      try {
        observer(call);
      } catch (error) {
        this.#onFault(error);
      }
    }
  }
}

/** Hears of each call that has ended, before its caller has the result. It must be quick, and must not change anything. */
export type CallObserver = (call: ObservedCall) => void;

export interface ObservedCall {
  /** The same object for all calls of a tool of a release that is loaded. */
  readonly tool: CalledTool;
  readonly outcome: CallOutcome;
  /** On the process's clock (`performance.now`). */
  readonly beganAt: number;
  readonly ms: number;
  /** How often it was tried again after a transient error. */
  readonly retries: number;
  /** Whom the caller proved to be; undefined where nobody is asked. */
  readonly principal: Principal | undefined;
  readonly trace: Trace | undefined;
  /** What was said, for observers that take its size or digest, such as the audit log. They keep no reference to it. */
  readonly args: JsonObject | JsonText;
  /** Undefined where there is none: questions, a redirect that is followed elsewhere, or an error of the protocol. */
  readonly result: CallResult | undefined;
  /** Of the result's content, in UTF-16 units; bytes count as their base64. */
  readonly size: number;
  /** How the function failed; its stack has the line in its sources, for the operator and the author. */
  readonly failure: GuestFailure | undefined;
}

/** Hears of each line that a function logs, or prints, while it is called. It must be quick. */
export type LineObserver = (line: ObservedLine) => void;

export interface ObservedLine {
  readonly tool: CalledTool;
  readonly line: GuestLog;
}

/** What was called. */
export interface CalledTool {
  readonly tenant: string;
  readonly server: string;
  readonly release: Cid;
  readonly tool: string;
}

/** Notes how the calls of one tool went: for its server's page, and for all observers. */
export class CallNotes {
  readonly #tool: CalledTool;
  readonly #activity: Activity;
  readonly #observers: Observers;
  readonly #gate: Gate | undefined;
  /** One for all calls, so that a call that prints nothing costs no function of its own. */
  readonly #onLine: OnLog;

  /** `gate` is the server's, where it has one of its own. */
  constructor(tool: CalledTool, activity: Activity, observers: Observers, gate?: Gate) {
    this.#tool = tool;
    this.#gate = gate;
    this.#activity = activity;
    this.#observers = observers;
    this.#onLine = (line) => observers.tellLine({ tool, line });
  }

  /** A call is carried out from here on, until `left`; or why it is not, for its caller. */
  enter(): string | undefined {
    try {
      this.#gate?.enter(performance.now());
    } catch (error) {
      return (error as Error).message;
    }
    this.#activity.inFlight += 1;
    this.#observers.inFlight += 1;
    return undefined;
  }

  left(): void {
    this.#gate?.leave();
    this.#activity.inFlight -= 1;
    this.#observers.inFlight -= 1;
  }

  /** Hears the lines of the tool's calls; undefined where nobody does. */
  get onLine(): OnLog | undefined {
    return this.#observers.anyLines ? this.#onLine : undefined;
  }

  /** The options with which a call goes on that was not done at once; to copy them for each call would cost it a microsecond. */
  heard(options: CallOptions): CallOptions {
    const onLog = bothOf(this.onLine, options.onLog);
    return onLog ? { ...options, onLog } : options;
  }

  /** A call that began at `beganAt` (`performance.now`) ends now, with `result`, which is given back. */
  ended<Result extends CallResult | undefined>(
    outcome: CallOutcome,
    beganAt: number,
    args: JsonObject | JsonText,
    { principal, trace }: Pick<CallOptions, "principal" | "trace">,
    result: Result,
    retries = 0,
    failure?: GuestFailure,
  ): Result {
    const ms = performance.now() - beganAt;
    const size = result ? sizeOf(result) : 0;
    const tool = this.#tool;
    this.#activity.note(tool.tool, outcome, beganAt, ms, size, retries);
    if (this.#observers.any) {
      this.#observers.tell({ tool, outcome, beganAt, ms, retries, principal, trace, args, result, size, failure });
    }
    return result;
  }
}

type OnLog = (line: GuestLog) => void;

/** Most calls have one listener at most: no other function is made for it. */
export function bothOf(first: OnLog | undefined, second: OnLog | undefined): OnLog | undefined {
  if (!first || !second) return first ?? second;
  return (line) => {
    first(line);
    second(line);
  };
}

/** Undefined where an entry says nothing of how much its server may be called. */
export function gateOf(server: string, { calls, callsPerSecond }: ServerLimits): Gate | undefined {
  if (calls === undefined && callsPerSecond === undefined) return undefined;
  const limits = { requests: calls ?? Infinity, requestsPerSecond: callsPerSecond ?? 0, requestBurst: 0 };
  return new Gate(`the server "${server}"`, limits, "calls");
}
