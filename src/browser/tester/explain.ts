import { ProtocolError, SdkError } from "@modelcontextprotocol/client";

/** An error in words: its kind, and what the server said about it. */
export interface Explained {
  readonly title: string;
  readonly message: string;
  readonly data?: unknown;
}

export function explain(error: unknown): Explained {
  if (error instanceof ProtocolError) {
    const data = error.data === undefined ? {} : { data: error.data };
    return { title: `The server refused the request (${error.code})`, message: error.message, ...data };
  }
  if (error instanceof SdkError) return { title: "The client gave up", message: error.message };
  const message = error instanceof Error ? error.message : String(error);
  if (error instanceof TypeError) return { title: "The server could not be reached", message };
  return { title: "The request failed", message };
}
