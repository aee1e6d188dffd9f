/** An answer over HTTP whose body is read once. */
export interface HttpReply {
  readonly status: number;
  readonly headers: Pick<Headers, "get">;
  /** Decoded (RFC 9110 section 8.4.1). */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Ends the pieces, and the connection if more would come. */
  leave(): void;
}

export interface HttpRequestInit {
  /** Default: GET. */
  readonly method?: "GET" | "POST" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
}

/** One request and the head of its answer; no redirect is followed. Rejects with the error of the connection. */
export type HttpSender = (url: string, init: HttpRequestInit) => Promise<HttpReply>;
