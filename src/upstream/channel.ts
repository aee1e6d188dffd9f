import type { JsonObject } from "../lib/json.ts";
import type { Requests } from "./request.ts";

/** An open connection to one upstream over any transport, and the facts that only the transport knows. */
export interface Channel {
  readonly transport: "stdio" | "http";
  readonly peer: Peer;
  readonly requests: Requests;
  /** A modern server sends change notifications only while the client listens; they go to `onNotification`. */
  listen(filter: JsonObject, timeoutMs: number): Promise<void>;
  /** Resolves once the connection is gone for whatever reason. Never rejects. */
  readonly closed: Promise<Closed>;
  /** `fault` completes "the server …" if it is the cause: then the end counts as unexpected. */
  close(fault?: string): Promise<void>;
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
