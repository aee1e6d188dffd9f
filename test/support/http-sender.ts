import type { HttpSender } from "../../src/lib/http-sender.ts";

/** A sender whose answers are the responses of a function in place of a server. */
export function senderBy(fetchIt: typeof fetch): HttpSender {
  return async (url, init) => {
    const { status, headers, body } = await fetchIt(url, init);
    const reader = body?.getReader();
    return {
      status,
      headers,
      pieces: piecesOf(reader),
      leave: () => void reader?.cancel().catch(() => {}),
    };
  };
}

async function* piecesOf(
  reader: ReadableStreamDefaultReader<Uint8Array> | undefined,
): AsyncGenerator<Uint8Array, void> {
  if (!reader) return;
  for (let step = await reader.read(); !step.done; step = await reader.read()) yield step.value;
}
