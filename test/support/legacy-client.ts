/** Speaks as a legacy client does: one session, and streams read event by event. */
export interface Event {
  readonly event?: string;
  readonly id?: string;
  readonly retry?: string;
  readonly data: string;
  /** The parsed data. */
  // A message has any shape; tests look into it freely.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly message: any;
}

export interface EventReader {
  readonly status: number;
  readonly headers: Headers;
  /** The next event, or undefined at the end of the stream; a body that is not a stream is one event. */
  next(): Promise<Event | undefined>;
  /** The next event that has data. */
  // oxlint-disable-next-line typescript/no-explicit-any
  nextMessage(): Promise<any>;
  /** All text so far, comments included. */
  text(): string;
  /** Breaks the connection. */
  close(): void;
}

export class LegacyClient {
  readonly url: string;
  version: string;
  session: string | undefined;

  constructor(url: string, version: string) {
    this.url = url;
    this.version = version;
  }

  /** Starts a session. */
  static async start(url: string, version = "2025-11-25", capabilities: object = {}): Promise<LegacyClient> {
    const client = new LegacyClient(url, version);
    await client.initialize(capabilities);
    return client;
  }

  /** The same session at another address. */
  at(url: string): this {
    return Object.assign(Object.create(this) as this, { url });
  }

  async initialize(capabilities: object = {}): Promise<EventReader> {
    const params = { protocolVersion: this.version, capabilities, clientInfo: { name: "test", version: "1" } };
    const reader = await this.send({ jsonrpc: "2.0", id: 0, method: "initialize", params });
    this.session = reader.headers.get("mcp-session-id") ?? undefined;
    return reader;
  }

  get headers(): Record<string, string> {
    return {
      "MCP-Protocol-Version": this.version,
      ...(this.session !== undefined && { "Mcp-Session-Id": this.session }),
    };
  }

  send(body: unknown, headers: Record<string, string> = {}): Promise<EventReader> {
    return read(this.url, {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "application/json, text/event-stream",
        ...this.headers,
        ...headers,
      },
      body: JSON.stringify(body),
    });
  }

  request(method: string, params: object = {}, id: string | number = 1): Promise<EventReader> {
    return this.send({ jsonrpc: "2.0", id, method, params });
  }

  call(name: string, args: object = {}, id: string | number = 1): Promise<EventReader> {
    return this.request("tools/call", { name, arguments: args, _meta: { progressToken: id } }, id);
  }

  /** The result of a request, whatever came before it. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async result(method: string, params: object = {}): Promise<any> {
    const reader = await this.request(method, params, 77);
    for (;;) {
      const message = await reader.nextMessage();
      if (message === undefined || message.id === 77) return message?.result ?? message;
    }
  }

  async notify(method: string, params: object = {}): Promise<number> {
    return (await this.send({ jsonrpc: "2.0", method, params })).status;
  }

  answer(id: unknown, result: object): Promise<EventReader> {
    return this.send({ jsonrpc: "2.0", id, result });
  }

  listen(lastEventId?: string): Promise<EventReader> {
    const headers: Record<string, string> = { Accept: "text/event-stream", ...this.headers };
    if (lastEventId !== undefined) headers["Last-Event-ID"] = lastEventId;
    return read(this.url, { method: "GET", headers });
  }

  async end(): Promise<number> {
    return (await fetch(this.url, { method: "DELETE", headers: this.headers })).status;
  }
}

export async function read(url: string, init: RequestInit): Promise<EventReader> {
  const abort = new AbortController();
  const response = await fetch(url, { ...init, signal: abort.signal });
  const isStream = response.headers.get("content-type") === "text/event-stream";
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let [text, unread] = ["", ""];
  const next = async (): Promise<Event | undefined> => {
    for (;;) {
      const end = unread.indexOf("\n\n");
      if (isStream && end >= 0) {
        const event = eventOf(unread.slice(0, end));
        unread = unread.slice(end + 2);
        if (event) return event;
        continue;
      }
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      if (!done) {
        text += value;
        unread += value;
        continue;
      }
      const data = unread;
      unread = "";
      return data === "" || isStream ? undefined : { data, message: JSON.parse(data) };
    }
  };
  return {
    status: response.status,
    headers: response.headers,
    next,
    async nextMessage() {
      for (;;) {
        const event = await next();
        if (event === undefined || event.data !== "") return event?.message;
      }
    },
    text: () => text,
    close: () => abort.abort(),
  };
}

/** Undefined for a comment. */
function eventOf(text: string): Event | undefined {
  const fields: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const match = /^(event|id|retry|data):\s?(.*)$/.exec(line);
    if (match) fields[match[1]!] = match[2]!;
  }
  if (Object.keys(fields).length === 0) return undefined;
  const { data = "", ...rest } = fields;
  const isJson = data.startsWith("{") || data.startsWith("[");
  return { ...rest, data, message: isJson ? JSON.parse(data) : undefined };
}
