import type { HttpSender } from "../../lib/http-sender.ts";
import type { JsonObject } from "../../lib/json.ts";
import type { Limits } from "../../limits/limits.ts";
import type { Spawn } from "../../processes/spawn/spawn.ts";
import type { MakeFolder } from "../../processes/work-folders.ts";
import type { Surroundings } from "../launch/command.ts";
import type { LongReader } from "../messages/long-answers.ts";
import type { Deviate } from "../messages/messages.ts";
import type { Ask } from "../messages/request.ts";
import type { Child, ChildRooms } from "./child.ts";

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
