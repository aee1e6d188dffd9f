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
 * The contract of every engine that runs guest code. It owns processes, their limits and their end.
 * It knows nothing of MCP, HTTP, the store or how a definition was found.
 *
 * Whatever a guest does, `call` and `runScript` resolve, within the deadline plus a short grace, and neither the
 * host nor another program's calls are harmed.
 */
export interface Executor {
  readonly isolation: Isolation;
  /** Why it is not `sandboxed`, for a person: what is missing here and what to do. */
  readonly reason?: string;
  /** Starts the program's process if there is none, and calls one exported function. Never rejects. */
  call(program: GuestProgram, call: GuestCall): Promise<GuestOutcome>;
  /** Evaluates a program in a process of its own, and calls nothing. Never rejects. */
  load(program: TriedProgram): Promise<LoadOutcome>;
  /** One run of a shell definition, in a process group of its own. Never rejects. */
  runScript(script: ScriptRun): Promise<ScriptOutcome>;
  /** The current load, for health pages and metrics. */
  stats(): ExecutorStats;
  /**
   * Ends everything that runs for a tenant. Those calls, and all that arrive before `resume`, resolve with `evicted`.
   */
  suspend(tenant: string): Promise<void>;
  resume(tenant: string): void;
  /** Ends what runs with a folder that its server is no longer given. Those calls resolve with `evicted`. */
  withdrawFolders(tenant: string, isGiven: (server: string, folder: string) => boolean): void;
  /** Ends every process; calls in flight resolve with `evicted`. */
  close(): Promise<void>;
}

/** `sandboxed`: namespaces, resource limits and Node's permission model. `trusted`: a plain child process. */
export type Isolation = "sandboxed" | "trusted";

export interface GuestProgram {
  readonly tenant: string;
  readonly bundle: Cid;
  /** The bundle's text, in UTF-8 where it is long; read only when a process is started for it. */
  readonly code: () => Promise<string | Uint8Array>;
  /**
   * The variables of its environment besides those of every guest; read only when a process is started for it, and set
   * inside. Rejects with an `EnvironmentFault`.
   */
  readonly env?: () => Promise<Readonly<Record<string, string>>>;
  /**
   * The folders of the machine that it sees. Another set of them needs another `realm`: a process keeps what it was
   * started with.
   */
  readonly folders?: readonly HostFolder[];
  /** The server that it was given its folders for. */
  readonly server?: string;
  /** Its server, and what its sockets may reach: asked for when a process is started for it. Without it, nothing. */
  readonly network?: Pick<GuestSockets, "server" | "requested" | "byOperator"> & {
    readonly grant: () => SocketGrant | undefined;
  };
  /** The program's way to ask the host. The tenant is the port's own, never a field of a message. */
  readonly port?: HostPort;
  /**
   * Identifies the data given to the program. Programs with the same code but another realm run in different processes.
   */
  readonly realm?: string;
  /** Removes from logs and failures what was given to the program and must stay secret. */
  readonly hide?: (value: Json) => Json;
}

/** A program that is evaluated and not called: it may ask for nothing. It may be asked what its schemas say. */
export interface TriedProgram extends Pick<GuestProgram, "tenant" | "code" | "env"> {
  readonly describes?: SchemaRequest;
}

/** The environment of a program cannot be made; the message is safe to show to callers. */
export class EnvironmentFault extends Error {}

export type LoadOutcome =
  /** `described`: what its schemas say, at two different times. */
  | { readonly kind: "loaded"; readonly described?: readonly [string, string] }
  /** Its top level threw, or ended the process. */
  | { readonly kind: "failed"; readonly error: GuestFailure }
  /** It loads, and has left a promise behind that was rejected and that nobody handles. */
  | { readonly kind: "rejected"; readonly error: GuestFailure }
  /** Its top level took more processor time than it may. */
  | { readonly kind: "endless"; readonly loadMs: number; readonly stack?: string | undefined }
  /** Its top level waited for something, or lacked CPU time on a busy machine. */
  | { readonly kind: "unfinished"; readonly loadElapsedMs: number; readonly lacksTime?: boolean }
  /** The service could not try it. */
  | { readonly kind: "unknown" };

export interface GuestCall {
  readonly shape: CallShape;
  readonly args: JsonObject | JsonText;
  /** Plain data that the guest sees as properties of its context (`answers`, `options`, `server`, `tool`). */
  readonly context?: JsonObject;
  /** Milliseconds from now, the wait for a turn included. */
  readonly deadlineMs: number;
  /** The caller takes a long result as raw bytes, unread by the serving thread. */
  readonly takesUnread?: boolean;
  /** The name of what is called, for whoever follows its requests to the host. */
  readonly item?: string;
  /** Whose call it is. It is handed to the host port with each request of the guest; the executor never looks at it. */
  readonly caller?: unknown;
  readonly signal?: CancelSignal;
  /** A promise asks the guest to wait: it gets no further ahead than a small window until the promise settles. */
  readonly onProgress?: (event: Json) => void | Promise<void>;
  readonly onLog?: (line: GuestLog) => void;
  /** The function has said that it is a task from here on; called once at most. */
  readonly onTask?: () => void;
  /** The function would rather not keep the caller's connection open while it works. */
  readonly onCloseStream?: () => void;
}

export interface GuestLog {
  readonly level: LogLevel;
  readonly message: Json;
  /** The part of the program that says so, when it has named it. */
  readonly logger?: string;
}

export type GuestOutcome =
  | { readonly ok: true; readonly value: GuestValue }
  | { readonly ok: false; readonly error: GuestFailure };

/** A raw result frame, unparsed. Only a call with `takesUnread` gets one. */
export interface UnreadResult {
  readonly kind: "unread";
  readonly frame: Uint8Array;
}

/** A returned value as it crosses the pipe. Bytes nested inside JSON arrive as base64 strings. */
export type GuestValue =
  | UnreadResult
  | { readonly kind: "none" }
  /** With a type when the function gave one (a `Blob` or a `Response`). */
  | { readonly kind: "text"; readonly text: string; readonly mimeType?: string }
  /** `nulled` names a value that became null only because JSON cannot express it: `/average is NaN`. */
  | { readonly kind: "json"; readonly value: Json; readonly nulled?: string }
  | { readonly kind: "bytes"; readonly base64: string; readonly mimeType?: string }
  /** A `Response` that points to the result instead; the address is as the function wrote it. */
  | { readonly kind: "redirect"; readonly location: string }
  /** The function needs answers: call it again from the top, with them in its context's `answers`. */
  | { readonly kind: "asks"; readonly inputRequests: InputRequests };

/** The questions of a function to the client, under keys that are the same each time the function runs. */
export type InputRequests = Readonly<Record<string, InputRequest>>;

/** As the protocol words it (2026-07-28 `basic/patterns/mrtr`). */
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
  /** The same call may succeed when repeated (a neighbour's crash, an eviction, a full queue). */
  readonly retriable: boolean;
  /** The function says that the whole request fails, and not just what it was asked to do. */
  readonly protocol?: boolean;
}

export type FailureReason =
  | "thrown" // the function threw or rejected
  | "unwritable" // the function returned what JSON cannot carry
  | "timeout" // the deadline passed
  | "cancelled" // the caller's signal
  | "memory" // a memory limit ended the process
  | "crash" // the process ended otherwise, or could not be started
  | "descriptors" // no file descriptor was left to start the process with
  | "protocol" // the process wrote an invalid frame, too large a frame, or too many
  | "output" // the result was larger than the limit
  | "load" // the bundle does not evaluate, or has no such export
  | "busy" // the queue for this tenant is full
  | "evicted"; // the process was ended by the host for another reason

/**
 * The requests that guest code may make of the host. A rejection's message is shown to the guest, and the code of an
 * error of Berth's own.
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
  request(op: HostOperation, params: JsonObject, call: AskingCall): Promise<HostAnswer>;
}

export type HostAnswer = Json | LaterAnswer;

/**
 * An answer that may be long. `read` is called in turn, once the guest has taken the answers before it. The serving
 * thread passes the bytes on and neither decodes nor re-encodes them.
 */
export class LaterAnswer {
  /** `json` bytes are the value as the guest gets it; `text` is UTF-8. */
  readonly kind: "bytes" | "text" | "json";
  /** Resolves with undefined when there is nothing. */
  readonly read: () => Promise<Uint8Array | undefined>;
  /** The CID of the bytes, if known without reading them. */
  readonly cid: Cid | undefined;

  constructor(kind: LaterAnswer["kind"], read: LaterAnswer["read"], cid?: Cid) {
    this.kind = kind;
    this.read = read;
    this.cid = cid;
  }
}

/** The call that a guest names in its request. Resources opened for the call are closed when it ends, or loses them. */
export interface AskingCall {
  /** As the call was given it. */
  readonly caller: unknown;
  /** The name of what is called, where the call has one. */
  readonly item?: string | undefined;
  /**
   * Calls `close` when the call is over, or when what it may reach was taken from it; at once if it already is. `why`
   * is for the author of the code.
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
  /** The folders of the machine that it sees, and the server that is given them. */
  readonly folders?: readonly HostFolder[];
  readonly server?: string;
  /** Asked when it is started. Without it, it reaches nothing. */
  readonly network?: GuestProgram["network"];
  /** Milliseconds from now, the wait for a turn included. */
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
