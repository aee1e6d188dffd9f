import type { Principal } from "../../access/principal.ts";
import { Gate } from "../../admission/gate.ts";
import type { ServerLimits } from "../../entry/grants-fields.ts";
import type { GuestFailure, GuestLog } from "../../executor/executor.ts";
import type { Cid } from "../../lib/cid.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import type { Log } from "../../lib/log.ts";
import type { Sharing } from "../../lib/shared-limits.ts";
import { traceIdOf, type Trace } from "../../lib/trace.ts";
import type { CallOptions, CallResult } from "../offers/catalog.ts";
import { sizeOf } from "../offers/content.ts";
import type { Activity, CallOutcome } from "./activity.ts";

/**
 * Reports tool calls to observers, whichever way a call came: MCP of any revision, a task, a native call, `/servers/…`,
 * a redirect or a `server://` URI. It decides who hears of calls and what they hear. It knows nothing of what observers
 * make of that, such as metrics or an audit log.
 */
export class Observers {
  readonly #observers: CallObserver[] = [];
  readonly #lines: LineObserver[] = [];
  readonly #consents: ConsentListener[] = [];
  readonly #followers: ((happening: Happening) => void)[] = [];
  readonly #onFault: (error: unknown) => void;
  /** Calls in flight. */
  inFlight = 0;

  /** `onFault` hears of an observer that failed; a call never does. */
  constructor(onFault: (error: unknown) => void = () => {}) {
    this.#onFault = onFault;
  }

  /** Hears of what happens to consents; a call with consent waits until that is recorded. */
  onConsent(listener: ConsentListener): void {
    this.#consents.push(listener);
  }

  async consent(tenant: string, facts: JsonObject): Promise<void> {
    for (const listener of this.#consents) await listener(tenant, facts);
  }

  get any(): boolean {
    return this.#observers.length > 0;
  }

  /** True while there are observers of lines. */
  get anyLines(): boolean {
    return this.#lines.length > 0;
  }

  addLines(observer: LineObserver): void {
    this.#lines.push(observer);
  }

  tellLine(line: ObservedLine): void {
    for (const observer of this.#lines) observer(line);
  }

  /** True while somebody follows all that happens, as it happens. */
  get isFollowed(): boolean {
    return this.#followers.length > 0;
  }

  follow(follower: (happening: Happening) => void): void {
    this.#followers.push(follower);
  }

  happened(happening: Happening): void {
    for (const follower of this.#followers) {
      try {
        follower(happening);
      } catch (error) {
        this.#onFault(error);
      }
    }
  }

  /** Returns the function that removes the observer. */
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

type ConsentListener = (tenant: string, facts: JsonObject) => void | Promise<void>;

export interface ObservedCall {
  /** The same object for all calls of a tool while its release is loaded. */
  readonly tool: CalledTool;
  readonly outcome: CallOutcome;
  /** On the process's clock (`performance.now`). */
  readonly beganAt: number;
  readonly ms: number;
  /** Retries after transient errors. */
  readonly retries: number;
  /** The authenticated caller; undefined when no authentication is required. */
  readonly principal: Principal | undefined;
  readonly trace: Trace | undefined;
  /** The arguments, for observers that take their size or digest, such as the audit log; they keep no reference. */
  readonly args: JsonObject | JsonText;
  /** Undefined when there is none: questions, a redirect that is followed elsewhere, or a protocol error. */
  readonly result: CallResult | undefined;
  /** Size of the result's content in UTF-16 units; bytes count as their base64. */
  readonly size: number;
  /** The message of the error that the caller gets in place of a result. */
  readonly rejection: string | undefined;
  /** How the function failed; its stack has the line in its sources, for the operator and the author. */
  readonly failure: GuestFailure | undefined;
}

/** Hears of each line that a function logs, or prints, while it is called. It must be quick. */
export type LineObserver = (line: ObservedLine) => void;

export interface ObservedLine {
  readonly tool: CalledTool;
  readonly line: GuestLog;
}

/** The tool that was called. */
export interface CalledTool {
  readonly tenant: string;
  readonly server: string;
  readonly release: Cid;
  readonly tool: string;
}

/**
 * Something that happens while servers are used, told at that moment, for whoever writes them (`berth dev`). Nothing is made
 * of it while nobody follows. `hide` removes from a text what its server was given and must stay secret.
 */
export type Happening =
  | {
      readonly kind: "began";
      readonly tool: CalledTool;
      /** Identifies the call among those of its tool; on the process's clock. */
      readonly beganAt: number;
      readonly args: JsonObject | JsonText;
      /** The answers to its questions that it was called with. */
      readonly answers: JsonObject | undefined;
      readonly hide: Hide;
    }
  | {
      readonly kind: "ended";
      readonly call: ObservedCall;
      /** The questions that it ended with, by their keys. */
      readonly asked: JsonObject | undefined;
      readonly hide: Hide;
    }
  | {
      readonly kind: "used";
      readonly what: "resource" | "prompt";
      readonly server: string;
      /** The URI of the resource, or the name of the prompt. */
      readonly name: string;
      readonly args: JsonObject;
      readonly ms: number;
      readonly answer: unknown;
      readonly failed: { readonly message: string; readonly stack?: string | undefined } | undefined;
      readonly hide: Hide;
    }
  | ({ readonly kind: "fetched"; readonly url: string; readonly method: string; readonly status?: number } & Reached)
  | ({ readonly kind: "connected"; readonly host: string } & Reached);

interface Reached {
  readonly server: string;
  /** The tool, or the function of another item, that reached out; undefined where it is not known. */
  readonly item: string | undefined;
  /** Until the head of the answer, or until the connection was there. */
  readonly ms: number;
  /** Why nothing was reached. */
  readonly refused?: string;
}

export type Hide = (text: string) => string;

/** Notes how the calls of one tool went: for its server's page, and for all observers. */
export class CallNotes {
  readonly #tool: CalledTool;
  readonly #activity: Activity;
  readonly #observers: Observers;
  readonly #gate: Gate | undefined;
  readonly #hide: Hide;
  readonly #keep: CallObserver | undefined;
  /** Shared by all calls, so a call that prints nothing costs no function of its own. */
  readonly #onLine: OnLog;

  /**
   * `gate` is the server's own, if it has one. `hide` removes what its code was given in secret. `keep` hears of each call
   * where the server keeps them.
   */
  constructor(
    tool: CalledTool,
    activity: Activity,
    observers: Observers,
    gate?: Gate,
    hide: Hide = (text) => text,
    keep?: CallObserver,
  ) {
    this.#tool = tool;
    this.#keep = keep;
    this.#gate = gate;
    this.#hide = hide;
    this.#activity = activity;
    this.#observers = observers;
    this.#onLine = (line) => observers.tellLine({ tool, line });
  }

  /** A call has arrived, which may still be refused. */
  began(beganAt: number, args: JsonObject | JsonText, { answers }: Pick<CallOptions, "answers">): void {
    if (!this.#observers.isFollowed) return;
    this.#observers.happened({ kind: "began", tool: this.#tool, beganAt, args, answers, hide: this.#hide });
  }

  /** Begins a call, which lasts until `left`; or returns why it is refused, for its caller. */
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

  /** Hears the lines of the tool's calls; undefined when nobody listens. */
  get onLine(): OnLog | undefined {
    return this.#observers.anyLines ? this.#onLine : undefined;
  }

  /** The options for a call that does not end at once; copying them for each call would cost it a microsecond. */
  heard(options: CallOptions): CallOptions {
    const onLog = bothOf(this.onLine, options.onLog);
    return onLog ? { ...options, onLog } : options;
  }

  /** Ends a call that began at `beganAt` (`performance.now`); returns `result`. */
  ended<Result extends CallResult | undefined>(
    outcome: CallOutcome,
    beganAt: number,
    args: JsonObject | JsonText,
    { principal, trace }: Pick<CallOptions, "principal" | "trace">,
    result: Result,
    retries = 0,
    failure?: GuestFailure,
    asked?: JsonObject,
    rejection?: string,
  ): Result {
    const ms = performance.now() - beganAt;
    const size = result ? sizeOf(result) : 0;
    const tool = this.#tool;
    this.#activity.note(tool.tool, outcome, beganAt, ms, size, retries);
    const observers = this.#observers;
    if (observers.any || observers.isFollowed || this.#keep) {
      const call = { tool, outcome, beganAt, ms, retries, principal, trace, args, result, size, rejection, failure };
      observers.tell(call);
      this.#keep?.(call);
      if (observers.isFollowed) observers.happened({ kind: "ended", call, asked, hide: this.#hide });
    }
    return result;
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

/** Undefined when the entry does not limit calls of its server. */
export function gateOf(server: string, { calls, callsPerSecond }: ServerLimits, shared?: Sharing): Gate | undefined {
  if (calls === undefined && callsPerSecond === undefined) return undefined;
  const limits = { requests: calls ?? Infinity, requestsPerSecond: callsPerSecond ?? 0, requestBurst: 0 };
  return new Gate(`the server "${server}"`, limits, SETTINGS, "calls", shared);
}

/** Logs one line per call: nothing that was said, except where a function threw. */
export function logCalls(log: Log): CallObserver {
  return ({ tool, outcome, ms, retries, size, principal, trace, failure }) => {
    const line = {
      requestId: trace?.requestId,
      traceId: trace && traceIdOf(trace),
      ...tool,
      principal: principal?.id,
      outcome,
      ms: Math.round(ms * 1000) / 1000,
      size,
      retries,
      ...(failure?.stack !== undefined && { stack: failure.stack }),
    };
    log.debug(line, "a tool was called");
  };
}
