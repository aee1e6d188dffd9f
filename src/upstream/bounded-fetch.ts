import type { FetchLike } from "@modelcontextprotocol/client";

/** `fetch` whose answers end with an error when one message in them, or one body of JSON, is longer than this. */
export function boundedFetch(messageBytes: number, fetchIt: typeof fetch = fetch): FetchLike {
  return async (url, init) => {
    const response = await fetchIt(url, init);
    if (!response.body) return response;
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") === true;
    const { status, statusText, headers } = response;
    const bounded = new Response(response.body.pipeThrough(bound(messageBytes, isStream)), {
      status,
      statusText,
      headers,
    });
    // What a constructed answer lacks, and redirects are judged by.
    Object.defineProperties(bounded, {
      url: { value: response.url },
      redirected: { value: response.redirected },
      type: { value: response.type },
    });
    return bounded;
  };
}

/** In a stream of events the count begins anew with each event, which an empty line ends. */
function bound(bytesMax: number, isStream: boolean): TransformStream<Uint8Array, Uint8Array> {
  let bytes = 0;
  return new TransformStream({
    transform(chunk, controller) {
      const lastNewline = isStream ? chunk.lastIndexOf(NEWLINE) : -1;
      bytes = lastNewline === -1 ? bytes + chunk.length : chunk.length - lastNewline;
      if (bytes > bytesMax) controller.error(new Error(`The server sent a message of more than ${bytesMax} bytes.`));
      else controller.enqueue(chunk);
    },
  });
}

const NEWLINE = 10;
