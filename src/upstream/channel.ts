import type { JsonObject } from "../lib/json.ts";
import type { Requests } from "./request.ts";

/** A way to one server of others that is open, whatever carries it, and what only that knows. */
export interface Channel {
  readonly transport: "stdio" | "http";
  readonly peer: Peer;
  readonly requests: Requests;
  /** A modern server's change notifications come only while it is listened to; they go to `onNotification`. */
  listen(filter: JsonObject, timeoutMs: number): Promise<void>;
  /** Resolves once, when it is gone for whatever reason. Never rejects. */
  readonly closed: Promise<Closed>;
  /** `fault` completes "the server …" where that is why: then its end counts as one that nobody has asked for. */
  close(fault?: string): Promise<void>;
}

/** What a server said of itself when it was greeted. */
export interface Peer {
  readonly era: "modern" | "legacy";
  /** Such as `2025-11-25`. */
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly instructions?: string;
  /** It may lie, and a modern one may say nothing. */
  readonly serverInfo?: { readonly name: string; readonly version: string };
}

export interface Closed {
  /** Completes "the server …": "ended with exit code 1". */
  readonly reason: string;
  /** The end of its stderr; for the log and for who started it, not for clients. Empty for remote servers. */
  readonly stderr: string;
  /** It was closed from here. */
  readonly expected: boolean;
}
