import type { HttpSender } from "../../lib/http-sender.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Spawn } from "../../processes/spawn/spawn.ts";
import type { MakeFolder } from "../../processes/work-folders.ts";
import type { LaunchEnvironment } from "../launch/command.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { Deviate } from "../messages/messages.ts";
import type { Ask } from "../messages/request.ts";
import type { Child, ChildBudgets } from "./child.ts";

/** Declared by a server when the connection opens. */
export interface Peer {
  readonly era: "modern" | "legacy";
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly instructions?: string;
  /** May be wrong, and a modern server may omit it. */
  readonly serverInfo?: { readonly name: string; readonly version: string };
}

export interface Closed {
  /** Completes "the server …": "ended with exit code 1". */
  readonly reason: string;
  /** The end of its stderr; for the log and the user who started it, not for clients. Empty for remote servers. */
  readonly stderr: string;
  /** True when Berth closed it. */
  readonly expected: boolean;
}

/** Options for opening a channel, over any transport. */
export interface ConnectOptions extends LaunchEnvironment {
  readonly limits: Pick<Limits, "taskTtlMs" | "upstreamCallMs" | "upstreamMessageBytes" | "upstreamStartMs">;
  readonly clientInfo: { readonly name: string; readonly version: string };
  /** Requests that the server may make; questions go to the call's `ask`, or to this one. Default: none. */
  readonly capabilities?: JsonObject;
  readonly ask?: Ask;
  /** Log messages, changed lists, updated resources: everything except progress. */
  readonly onNotification?: (method: string, params: JsonObject) => void;
  /** Called for each deviation in the server's messages. */
  readonly onDeviation?: Deviate;
  readonly start?: Spawn | undefined;
  /** Creates a working folder for a program that specifies none; by default in the system's temporary folder. */
  readonly makeFolder?: MakeFolder | undefined;
  readonly started?: Promise<Child> | undefined;
  readonly send: HttpSender;
  /** Parses long messages elsewhere. */
  readonly long?: LongReader | undefined;
  /** Memory budgets for messages in transit; without them, messages are not counted. */
  readonly rooms?: ChildBudgets | undefined;
  readonly signal?: AbortSignal;
}
