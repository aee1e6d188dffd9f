import type { HttpSender } from "../../lib/http-sender.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Spawn } from "../../processes/spawn/spawn.ts";
import type { MakeFolder } from "../../processes/work-folders.ts";
import type { Surroundings } from "../launch/command.ts";
import type { ListedTool } from "../messages/lists.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { Deviate } from "../messages/messages.ts";
import type { Ask, RequestOptions, RequestParams } from "../messages/request.ts";
import type { AnyResult } from "../messages/results.ts";
import type { Child, ChildRooms } from "./child.ts";

/** An open connection to one upstream over one transport. */
export interface Channel {
  readonly transport: "stdio" | "http";
  /**
   * Sends a request. `what` names the action in errors: "calling echo". Resolves with the server's result as it is: an
   * object, not checked further. Rejects with an `UpstreamError` or with `cancelled`.
   */
  send(method: string, params: RequestParams, what: string, options: RequestOptions): Promise<AnyResult>;
  /** Counts the messages from the server so far. */
  readonly heard: number;
  /** Called with the server's tools each time they are listed. */
  noteTools?(tools: readonly ListedTool[]): void;
  /** True when a call of this tool failed because its tools were not listed yet. */
  needsTools?(error: unknown, tool: string): boolean;
  /** A modern server sends change notifications only while the client listens; they go to `onNotification`. */
  listen(filter: JsonObject, timeoutMs: number): Promise<void>;
  /** Resolves once the connection is gone for whatever reason. Never rejects. */
  readonly closed: Promise<Closed>;
  /**
   * Resolves when new requests need another connection, though those in progress may still be answered: a session was
   * lost, or the server cannot be reached. Completes "the server …".
   */
  readonly stale?: Promise<string> | undefined;
  /** `fault` completes "the server …" if it is the cause: then the end counts as unexpected. */
  close(fault?: string): Promise<void>;
}

/** A channel whose handshake is complete. */
export interface Opened {
  readonly channel: Channel;
  readonly peer: Peer;
}

/** The facts that a server states about itself when the connection opens. */
export interface Peer {
  readonly era: "modern" | "legacy";
  /** Such as `2025-11-25`. */
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly instructions?: string;
  /** May be false, and a modern server may omit it. */
  readonly serverInfo?: { readonly name: string; readonly version: string };
}

export interface Closed {
  /** Completes "the server …": "ended with exit code 1". */
  readonly reason: string;
  /** The end of its stderr; for the log and the user who started it, not for clients. Empty for remote servers. */
  readonly stderr: string;
  /** True when it was closed from here. */
  readonly expected: boolean;
}

/** How a channel is opened, whatever its transport. */
export interface ConnectOptions extends Surroundings {
  readonly limits: Pick<Limits, "taskTtlMs" | "upstreamCallMs" | "upstreamMessageBytes" | "upstreamStartMs">;
  /** The name that this client gives itself. */
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Requests that the server may make; questions go to the call's `ask`, or to this one. Default: none. */
  readonly capabilities?: JsonObject;
  readonly ask?: Ask;
  /** Log messages, changed lists, updated resources: everything but progress. */
  readonly onNotification?: (method: string, params: JsonObject) => void;
  /** Called for each odd habit that shows in the server's messages. */
  readonly onDeviation?: Deviate;
  /** Starts a program; by default this process does. */
  readonly start?: Spawn | undefined;
  /** Makes a working folder for a program that specifies none; by default below the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  /** The server's process, if already started; the connection takes it over. */
  readonly started?: Promise<Child> | undefined;
  /** Reaches a remote server. */
  readonly send: HttpSender;
  /** Reads long messages elsewhere. */
  readonly long?: LongReader | undefined;
  /** Memory for messages in transit; without it they are not counted. */
  readonly rooms?: ChildRooms | undefined;
  /** Aborts the start. */
  readonly signal?: AbortSignal;
}
