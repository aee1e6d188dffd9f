import { randomBytes } from "node:crypto";
import type { RequestId } from "../json-rpc.ts";

/** Writes and reads the ids of streams and of their events, which `Last-Event-ID` carries. */

const IDS_CHARACTERS_MAX = 512;

/** The id of a stream states what it was for, so that it can be answered when no process remembers it. */
export function streamId(requests: readonly RequestId[] | undefined): string {
  const random = randomBytes(9).toString("base64url");
  if (!requests) return `listen.${random}`;
  const text = Buffer.from(JSON.stringify(requests)).toString("base64url");
  return `post.${random}.${text.length > IDS_CHARACTERS_MAX ? "" : text}`;
}

/** True when the stream was opened to listen, not by a POST. */
export function isToListen({ id }: { readonly id: string }): boolean {
  return id.startsWith("listen.");
}

export interface EventPosition {
  readonly stream: string;
  readonly seq: number;
  /** The requests that a POST's stream answers; undefined for a stream to listen to. */
  readonly requests: readonly RequestId[] | undefined;
}

export function eventId(streamId: string, seq: number): string {
  return `${streamId}.${seq}`;
}

/** Reads a `Last-Event-ID`; undefined when no stream gave it. */
export function readEventId(text: string): EventPosition | undefined {
  const match = /^(listen\.[\w-]{12}|post\.[\w-]{12}\.([\w-]*))\.(\d{1,15})$/.exec(text);
  if (!match?.[1]) return undefined;
  const requests = match[1].startsWith("post") ? readIds(match[2] ?? "") : undefined;
  return { stream: match[1], seq: Number(match[3]), requests };
}

function readIds(text: string): RequestId[] {
  try {
    const ids: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    const isId = (id: unknown): id is RequestId => typeof id === "string" || typeof id === "number";
    return Array.isArray(ids) ? ids.filter(isId) : [];
  } catch {
    return [];
  }
}
