/** An HTTP response whose body is read once. */
export interface HttpReply {
  readonly status: number;
  readonly headers: Pick<Headers, "get">;
  /** Decoded (RFC 9110 section 8.4.1). */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Ends the body, and the connection if there is more of it. */
  leave(): void;
}

export interface HttpRequestInit {
  /** Default: GET. */
  readonly method?: "GET" | "POST" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** Sends a request and resolves with the response's head; follows no redirects. Rejects with the connection's error. */
export type HttpSender = (url: string, init: HttpRequestInit) => Promise<HttpReply>;
