import type { Principal } from "../../access/principal.ts";
import type { ServerEntry } from "../../entry/entry.ts";
import type { GuestFailure, GuestLog } from "../../executor/executor.ts";
import type { Cid } from "../../lib/cid.ts";
import type { JsonObject, JsonText } from "../../lib/json.ts";
import type { Trace } from "../../lib/trace.ts";
import type { Grant } from "../../secrets/grants.ts";
import type { DirectoryEntry } from "../directory/directory.ts";
import type { CallResult, InputRequests, ToolContract } from "../offers/catalog.ts";

/** How a tool call ended. `asked`: with questions to the user; repeat it with the answers. */
export type CallOutcome = "ok" | "error" | "invalid" | "asked";

/** The outcomes of calls that failed. */
export const FAILED: readonly CallOutcome[] = ["error", "invalid"];

/** The tool that was called, or another item whose function ran. */
export interface CalledTool {
  readonly tenant: string;
  readonly server: string;
  readonly release: Cid;
  readonly tool: string;
}

/**
 * A finished call. Each observer takes what it needs: facts, such as times and sizes, or also the contents, which
 * are the arguments, the result and the error. No observer keeps a reference to the contents.
 */
export interface CallRecord {
  /** The same object for all calls of a tool while its release is loaded. */
  readonly tool: CalledTool;
  readonly outcome: CallOutcome;
  /** On the process's clock (`performance.now`). */
  readonly beganAt: number;
  readonly ms: number;
  /** Retries after transient errors. */
  readonly retries: number;
  /** Size of the result's content in UTF-16 units; bytes count as their base64. */
  readonly size: number;
  /** The authenticated caller; undefined when no authentication is required. */
  readonly principal: Principal | undefined;
  readonly trace: Trace | undefined;
  readonly args: JsonObject | JsonText;
  /** Undefined when there is none: questions, a redirect that is followed elsewhere, or a protocol error. */
  readonly result: CallResult | undefined;
  /** The questions that it ended with, by their keys. */
  readonly asked: InputRequests | undefined;
  /** The message of the error that the caller gets in place of a result. */
  readonly rejection: string | undefined;
  /** How the function failed; its stack has the line in its sources, for the operator and the author. */
  readonly failure: GuestFailure | undefined;
}

/** Receives each finished call, before its caller has the result. It must be quick, and must not change anything. */
export type CallObserver = (record: CallRecord) => void;

/** Retains calls with their contents for servers whose entries ask for it. */
export interface CallRetention {
  /** Returns what takes the calls of one tool; undefined if its entry does not ask for it. */
  retainer(tool: CalledTool, parts: RetainedParts): CallObserver | undefined;
  /** Follows the entries of a tenant. */
  follow(tenant: string, servers: ReadonlyMap<string, DirectoryEntry>): void;
  /** Forgets a tenant that is no longer served. */
  forget(tenant: string): void;
  /** Writes the calls that are still waiting. */
  close(): Promise<void>;
}

/** The parts that determine how the calls of a tool are retained. */
export interface RetainedParts {
  readonly contract: Pick<ToolContract, "inputSchema" | "outputSchema">;
  readonly entry: Pick<ServerEntry, "retainCallsMs">;
  /** The secrets that its server may see; undefined for none. */
  readonly grant: Grant | undefined;
}

/** Removes from a text the secrets that a server was given. */
export type Hide = (text: string) => string;

/** An event on a server, as it happens, for its author (`berth dev`). None is built while nothing follows them. */
export type LiveEvent =
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
  | { readonly kind: "ended"; readonly call: CallRecord; readonly hide: Hide }
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
  /** A line that a function logs, or prints, while it is called. */
  | { readonly kind: "line"; readonly tool: CalledTool; readonly line: GuestLog }
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
