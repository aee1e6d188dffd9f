import type { BerthError } from "../../lib/errors.ts";
import { fixed } from "../../limits/fixed.ts";
import type { ListedTool } from "../messages/lists.ts";
import type { Deviate, UpstreamMessage } from "../messages/messages.ts";
import type { RequestParams } from "../messages/request.ts";
import type { Closed, Peer } from "./channel.ts";

export const requestBounds = fixed({ upstreamRequests: 256 });

/** Carries the messages of one connection: over the pipes of a program, Streamable HTTP, or HTTP+SSE. */
export interface Transport {
  readonly kind: "stdio" | "http";
  /** Receives everything; set before the first message is sent. */
  set receiver(receiver: Receiver);
  /** Sends a request. Its outcome reaches the receiver, now or later: an answer, or a failure. */
  send(request: OutgoingRequest): void;
  /** The request is over. Without `isAnswered` it was abandoned. */
  forget(request: OutgoingRequest, isAnswered: boolean): void;
  /** Sends a message that needs no answer. Resolves once the server has received it, or never will. */
  notify(json: string): Promise<void>;
  /** Answers a request of the server; resolves once the server has received the answer, or never will. */
  answer(json: string): Promise<void>;
  /** Called when the handshake is complete. */
  agreed?(peer: Peer): void;
  /** Called with the server's tools each time they are listed. */
  noteTools?(tools: readonly ListedTool[]): void;
  /** True when a call of this tool failed because its tools were not listed yet. */
  needsTools?(error: unknown, tool: string): boolean;
  /** Closing the stream of a request cancels it, without a notification. */
  readonly cancelsByClosing?: boolean;
  /** Resolves once the connection is gone for whatever reason. Never rejects. */
  readonly closed: Promise<Closed>;
  /**
   * Resolves when new requests need another connection, though those in progress may still be answered: a session was
   * lost, or the server cannot be reached. Completes "the server …".
   */
  readonly stale?: Promise<string>;
  /** `fault` completes "the server …" if it is the cause: the end then counts as unexpected. */
  close(fault?: string): Promise<void>;
}

export interface OutgoingRequest {
  readonly id: number;
  readonly method: string;
  readonly params: RequestParams;
  readonly json: string;
  readonly deadlineAt: number;
}

export interface Receiver {
  /** `of` is the request whose response it arrived in. True if a request waited for it. */
  message(message: UpstreamMessage, of?: OutgoingRequest): boolean;
  /** `what` names the action in the error. */
  failed(request: OutgoingRequest, failure: Failure): void;
  /** Notifications may have been lost, so everything may have changed. */
  missed(): void;
  readonly deviate: Deviate;
}

export type Failure = (what: string) => BerthError;
