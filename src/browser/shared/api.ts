import { askToken, asksForToken, withTyped } from "./ask-token.ts";

/** Requests of pages to the JSON API. */

export interface ApiRequest {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON, unless it is a string. */
  readonly body?: object | string | undefined;
  readonly signal?: AbortSignal;
}

/** The body of the answer, or true if it has none. Asks for a token if that helps; undefined after `fail` was called. */
export async function send<Answer>(
  url: string,
  { body, headers, ...request }: ApiRequest,
  fail: (message: string, code?: string) => void,
): Promise<Answer | true | undefined> {
  const isJson = typeof body === "object";
  try {
    const response = await fetch(url, {
      ...request,
      headers: withTyped({
        Accept: "application/json",
        ...(isJson && { "Content-Type": "application/json" }),
        ...headers,
      }),
      body: isJson ? JSON.stringify(body) : (body ?? null),
    });
    if (response.ok) return response.status === 204 || ((await response.json()) as Answer);
    const { code, message } = await readError(response);
    if (asksForToken(code) && (await askToken(message))) return await send(url, { body, headers, ...request }, fail);
    fail(message, code);
  } catch (error) {
    fail(`Berth could not be reached (${(error as Error).message})`);
  }
  return undefined;
}

export interface ApiError {
  readonly code: string;
  readonly message: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The error in a response (docs/api.md). */
export async function readError(response: Response): Promise<ApiError> {
  const { error = {} } = (await response.json().catch(() => ({}))) as { error?: Partial<ApiError> };
  return { code: "", message: `Berth answered ${response.status}`, data: {}, ...error };
}
