import { connect, type Socket } from "node:net";
import { Watchers } from "./watchers.ts";

/** A connection whose bytes are written and read by hand, for requests that no client library sends. */
export interface RawConnection {
  readonly socket: Socket;
  /** All that has come so far. */
  text(): string;
  /** Resolves when the received text matches; rejects when the connection ends before, or after a minute. */
  until(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with all received text when the other side has ended the connection. */
  readonly closed: Promise<string>;
  /** As `closed`; rejects after a minute. */
  ended(): Promise<string>;
}

export async function connectRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.setEncoding("latin1");
  let text = "";
  let isClosed = false;
  const watchers = new Watchers();
  const closed = new Promise<string>((resolve) => {
    socket.once("close", () => {
      isClosed = true;
      watchers.end();
      resolve(text);
    });
  });
  socket.on("data", (chunk: string) => {
    text += chunk;
    watchers.look();
  });
  socket.on("error", () => {});
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  const wait = <T>(find: () => T | undefined, what: string): Promise<T> =>
    watchers.until(find, () => `waited for ${what} in: ${text.slice(-2000)}`);
  return {
    socket,
    text: () => text,
    closed,
    until: (pattern) => wait(() => pattern.exec(text) ?? undefined, String(pattern)),
    ended: () => wait(() => (isClosed ? text : undefined), "the end"),
  };
}

/** The bytes of a POST. An undefined header is left out; a list is sent as several lines. */
export function rawPost(
  path: string,
  body: unknown,
  headers: Record<string, string | string[] | undefined> = {},
): string {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const all: Record<string, string | string[] | undefined> = {
    Host: "127.0.0.1",
    "Content-Type": "application/json",
    Accept: "application/json, text/event-stream",
    "Content-Length": String(Buffer.byteLength(text)),
    ...headers,
  };
  const lines = Object.entries(all).flatMap(([name, value]) => [value ?? []].flat().map((each) => `${name}: ${each}`));
  return `POST ${path} HTTP/1.1\r\n${lines.join("\r\n")}\r\n\r\n${text}`;
}

/** The messages of an event stream that have come so far. */
export function eventsOf(text: string): Record<string, unknown>[] {
  return [...text.matchAll(/^event: message\n(?:id: .*\n)?data: (.*)\n/gm)].map(
    ([, data]) => JSON.parse(data!) as Record<string, unknown>,
  );
}
