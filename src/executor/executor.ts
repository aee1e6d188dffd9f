import type { CallShape, SchemaRequest } from "../discover/discovery.ts";
import type { HostFolder } from "../folders/folders.ts";
import type { CancelSignal } from "../lib/cancellation.ts";
import type { Cid } from "../lib/cid.ts";
import type { Json, JsonObject, JsonText } from "../lib/json.ts";
import type { LogLevel } from "../lib/log-level.ts";
import type { SocketGrant } from "../network/relay-wire.ts";
import type { GuestSockets } from "./guest/wire.mts";
import type { HostOperation } from "./host-operations.ts";

/**
 * The contract of every engine that runs guest code. It owns processes, their limits and their end. It knows nothing of
 * MCP, HTTP, the store, or how a definition was discovered.
 *
 * Whatever a guest does, `call` and `runScript` resolve within the deadline plus a short grace period, and neither the
 * host nor the calls of other programs are harmed.
 */
export interface Executor {
  readonly isolation: Isolation;
  /** Why it is not `sandboxed`, for the operator: what is missing on this machine and how to fix it. */
  readonly reason?: string;
  /** The parts that the sandbox lacks, if this machine allows only its reduced profile. */
  readonly lacks?: string;
  /** Starts the program's process if there is none, and calls one exported function. Never rejects. */
  call(program: GuestProgram, call: GuestCall): Promise<GuestOutcome>;
  /** Evaluates a program in a process of its own, and calls nothing. Never rejects. */
  load(program: TrialProgram): Promise<LoadOutcome>;
  /** One run of a shell definition, in a process group of its own. Never rejects. */
  runScript(script: ScriptRun): Promise<ScriptOutcome>;
  /** The current load, for health pages and metrics. */
  stats(): ExecutorStats;
  /** Ends everything that runs for a tenant. Its calls, and all that arrive before `resume`, resolve with `evicted`. */
  suspend(tenant: string): Promise<void>;
  resume(tenant: string): void;
  /** Ends processes with a folder that is no longer granted to their server. Their calls resolve with `evicted`. */
  withdrawFolders(tenant: string, isGranted: (server: string, folder: string) => boolean): void;
  /** Ends every process; calls in flight resolve with `evicted`. */
  close(): Promise<void>;
}

/** `sandboxed`: namespaces, resource limits and Node's permission model. `trusted`: a plain child process. */
export type Isolation = "sandboxed" | "trusted";

export interface GuestProgram {
  readonly tenant: string;
  readonly bundle: Cid;
  /** The bundle, as UTF-8 bytes if it is long; read only when a process is started for it. */
  readonly code: () => Promise<string | Uint8Array>;
  /**
   * Environment variables in addition to those of every guest; read only when a process is started, and set inside it.
   * Rejects with an `EnvironmentFault`.
   */
  readonly env?: () => Promise<Readonly<Record<string, string>>>;
  /** The host folders that it can see. Other folders need another `realm`: a process keeps its folders. */
  readonly folders?: readonly HostFolder[];
  /** The server that its folders are granted to. */
  readonly server?: string;
  /** Its server, and what its sockets may reach, read when a process is started. Without it, nothing. */
  readonly network?: Pick<GuestSockets, "server" | "requested" | "byOperator"> & {
    readonly grant: () => SocketGrant | undefined;
  };
  /** How the program makes requests of the host. The port belongs to its tenant, which no message can name. */
  readonly port?: HostPort;
  /** Identifies the data given to the program. Each realm of a program has its own process. */
  readonly realm?: string;
  /** Redacts the program's secrets in logs and failures. */
  readonly hide?: (value: Json) => Json;
}

/** A program that is only evaluated, and may make no requests of the host. It can be asked to describe its schemas. */
export interface TrialProgram extends Pick<GuestProgram, "tenant" | "code" | "env"> {
  readonly describes?: SchemaRequest;
}

/** The environment of a program cannot be built; the message is safe to show to callers. */
export class EnvironmentFault extends Error {}

export type LoadOutcome =
  /** `described`: the descriptions of its schemas at two different times. */
  | { readonly kind: "loaded"; readonly described?: readonly [string, string] }
  /** Its top level threw, or ended the process. */
  | { readonly kind: "failed"; readonly error: GuestFailure }
  /** It loads, but leaves a rejected promise that nothing handles. */
  | { readonly kind: "rejected"; readonly error: GuestFailure }
  /** Its top level exceeded its CPU time. */
  | { readonly kind: "endless"; readonly loadMs: number; readonly stack?: string | undefined }
  /** Its top level was waiting, or lacked CPU time on a busy machine. */
  | { readonly kind: "unfinished"; readonly loadElapsedMs: number; readonly lacksTime?: boolean }
  /** The trial itself failed. */
  | { readonly kind: "unknown" };

export interface GuestCall {
  readonly shape: CallShape;
  readonly args: JsonObject | JsonText;
  /** Plain data that the guest sees as properties of its context (`answers`, `options`, `server`, `tool`). */
  readonly context?: JsonObject;
  /** Milliseconds from now, including time in the queue. */
  readonly deadlineMs: number;
  /** The caller accepts a long result as raw bytes, which the serving thread does not parse. */
  readonly takesUnread?: boolean;
  /** The name of the called item, passed on with its host requests. */
  readonly item?: string;
  /** Identifies the caller. Passed to the host port with each request of the guest; the executor never inspects it. */
  readonly caller?: unknown;
  readonly signal?: CancelSignal;
  /** A promise applies backpressure: until it settles, the guest stays within a small window of progress events. */
  readonly onProgress?: (event: Json) => void | Promise<void>;
  readonly onLog?: (line: GuestLog) => void;
  /** The function declared that it continues as a task; called at most once. */
  readonly onTask?: () => void;
  /** The function does not need the caller's connection while it works. */
  readonly onCloseStream?: () => void;
}

export interface GuestLog {
  readonly level: LogLevel;
  readonly message: Json;
  /** The logger that the program named, if any. */
  readonly logger?: string;
}

export type GuestOutcome =
  | { readonly ok: true; readonly value: GuestValue }
  | { readonly ok: false; readonly error: GuestFailure };

/** A raw, unparsed result frame; only for a call with `takesUnread`. */
export interface UnreadResult {
  readonly kind: "unread";
  readonly frame: Uint8Array;
}

/** A returned value as it crosses the pipe. Bytes nested inside JSON arrive as base64 strings. */
export type GuestValue =
  | UnreadResult
  | { readonly kind: "none" }
  /** With a MIME type if the function gave one (a `Blob` or a `Response`). */
  | { readonly kind: "text"; readonly text: string; readonly mimeType?: string }
  /** `nulled` names a value that became null only because JSON cannot express it: `/average is NaN`. */
  | { readonly kind: "json"; readonly value: Json; readonly nulled?: string }
  | { readonly kind: "bytes"; readonly base64: string; readonly mimeType?: string }
  /** A `Response` that redirects to the result; the location is as the function wrote it. */
  | { readonly kind: "redirect"; readonly location: string }
  /** The function needs answers: call it again from the start, with the answers in its context. */
  | { readonly kind: "asks"; readonly inputRequests: InputRequests };

/** Questions of a function to the client, under keys that are the same on every run of the function. */
export type InputRequests = Readonly<Record<string, InputRequest>>;

/** As defined by the protocol (2026-07-28 `basic/patterns/mrtr`). */
export interface InputRequest {
  readonly method: "elicitation/create" | "sampling/createMessage" | "roots/list";
  readonly params: JsonObject;
}

export interface GuestFailure {
  readonly reason: FailureReason;
  /** Safe to show to the caller: no host path, no secret. */
  readonly message: string;
  /** The guest's own stack with positions in its sources, host frames removed. For the operator. */
  readonly stack?: string;
  /** The same call may succeed if repeated (a neighbor's crash, an eviction, a full queue). */
  readonly retriable: boolean;
  /** The function asks for the whole request to fail, not only the tool. */
  readonly protocol?: boolean;
}

export type FailureReason =
  | "thrown" // the function threw or rejected
  | "unwritable" // the function returned a value that JSON cannot represent
  | "timeout" // the deadline passed
  | "cancelled" // the caller's signal
  | "memory" // a memory limit ended the process
  | "crash" // the process ended for another reason, or could not be started
  | "descriptors" // no file descriptor was left to start the process with
  | "protocol" // the process wrote an invalid frame, too large a frame, or too many
  | "output" // the result was larger than the limit
  | "load" // the bundle does not evaluate, or has no such export
  | "busy" // the queue for this tenant is full
  | "evicted"; // the process was ended by the host for another reason

/**
 * The requests that guest code may make of the host. When one is rejected, the guest receives the message and, for a
 * `BerthError`, its code.
 *
 *
 * - `variable`, `secret`: `{name}` → its value, or null when there is none.
 * - `cid`: `{cid}` → its bytes, or null when there are none.
 * - `fetch`, `fetchWrite`, `fetchRead`, `fetchAbort`: the steps of a fetch, as `network/fetches.ts` has them.
 * - `resourceUpdated`: `{uri}` → null; subscribers of the resource are notified.
 * - `offers`: `{}` → `{kind, name, visible}[]`, the tools and prompts of the server.
 * - `hide`, `show`: `{name}` → null; shows a tool or a prompt to clients, or hides it.
 * - `stateGet`, `stateSet`, `stateDelete`, `stateList`: as `features/state/guest-requests.ts` has them.
 */
export interface HostPort {
  request(op: HostOperation, params: JsonObject, call: RequestingCall): Promise<HostAnswer>;
}

export type HostAnswer = Json | DeferredAnswer;

/**
 * An answer that may be long. `read` is called once the guest has read all earlier answers. The serving thread passes
 * the bytes on without decoding or re-encoding them.
 */
export class DeferredAnswer {
  /** `json` bytes are the value as the guest gets it; `text` is UTF-8. */
  readonly kind: "bytes" | "text" | "json";
  /** Resolves with undefined when there is nothing. */
  readonly read: () => Promise<Uint8Array | undefined>;
  /** The CID of the bytes, if known without reading them. */
  readonly cid: Cid | undefined;

  constructor(kind: DeferredAnswer["kind"], read: DeferredAnswer["read"], cid?: Cid) {
    this.kind = kind;
    this.read = read;
    this.cid = cid;
  }
}

/**
 * The call that a guest names in its request. Resources opened for it are closed when it ends or its access is revoked.
 */
export interface RequestingCall {
  /** As passed with the call. */
  readonly caller: unknown;
  /** The name of the called item, if it has one. */
  readonly item?: string | undefined;
  /**
   * Calls `close` when the call ends or its access is revoked; immediately if that has happened already. `why` is shown
   * to the author of the code.
   */
  onOver(close: (why: string) => void): void;
}

export interface ScriptRun {
  readonly tenant: string;
  readonly script: string;
  /** `$1`, `$2`, …; never interpolated into text. */
  readonly argv: readonly string[];
  /** Extra environment; names of `[A-Za-z_][A-Za-z0-9_]*` only. */
  readonly env: Readonly<Record<string, string>>;
  /** The host folders that it can see, and the server that they are granted to. */
  readonly folders?: readonly HostFolder[];
  readonly server?: string;
  /** Read when it is started. Without it, the script has no network. */
  readonly network?: GuestProgram["network"];
  /** Milliseconds from now, including time in the queue. */
  readonly deadlineMs: number;
  readonly signal?: CancelSignal;
}

export type ScriptOutcome =
  | { readonly ok: true; readonly exitCode: number; readonly stdout: Uint8Array; readonly stderr: string }
  | { readonly ok: false; readonly error: GuestFailure };

export interface ExecutorStats {
  readonly programs: number;
  readonly spares: number;
  readonly callsInFlight: number;
  readonly started: number;
  readonly killed: number;
}
