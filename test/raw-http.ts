import { connect, type Socket } from "node:net";

/** A connection whose bytes are written and read by hand, for what no client library sends. */
export interface RawConnection {
  readonly socket: Socket;
  /** All that has come so far. */
  text(): string;
  /** Resolves when what has come matches; rejects when the connection ends before, or after 20 s. */
  until(pattern: RegExp): Promise<RegExpExecArray>;
  /** Resolves with all that came when the other side has ended the connection. */
  readonly closed: Promise<string>;
}

export async function connectRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.setEncoding("latin1");
  let text = "";
  let onChange = (): void => {};
  let isClosed = false;
  const closed = new Promise<string>((resolve) => {
    socket.once("close", () => {
      isClosed = true;
      onChange();
      resolve(text);
    });
  });
  socket.on("data", (chunk: string) => {
    text += chunk;
    onChange();
  });
  socket.on("error", () => {});
  await new Promise<void>((resolve, reject) => socket.once("connect", resolve).once("error", reject));
  return {
    socket,
    text: () => text,
    closed,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new Error(`waited for ${pattern} in: ${text.slice(-2000)}`)), 20_000);
        const previous = onChange;
        onChange = () => {
          previous();
          const found = pattern.exec(text);
          if (!found && !isClosed) return;
          clearTimeout(timer);
          onChange = previous;
          if (found) resolve(found);
          else reject(new Error(`the connection ended before ${pattern}: ${text.slice(-2000)}`));
        };
        onChange();
      }),
  };
}

/** The bytes of a POST. A header that is undefined is left out; a list is sent as several lines. */
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

/** The messages of an event stream, as far as they have come. */
export function eventsOf(text: string): Record<string, unknown>[] {
  return [...text.matchAll(/^event: message\n(?:id: .*\n)?data: (.*)$/gm)].map(
    ([, data]) => JSON.parse(data!) as Record<string, unknown>,
  );
}
