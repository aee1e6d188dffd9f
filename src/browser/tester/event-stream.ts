/** One event of a `text/event-stream`. */
export interface StreamEvent {
  readonly id?: string;
  readonly data: string;
}

/** Watches a stream of events as it passes through, and reports each event as soon as it is complete. */
export function watchEvents(onEvent: (event: StreamEvent) => void): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      const events = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n\r?\n/);
      rest = events.pop() ?? "";
      for (const text of events) {
        const event = parseEvent(text);
        if (event.data !== "") onEvent(event);
      }
    },
  });
}

function parseEvent(text: string): StreamEvent {
  const data: string[] = [];
  let id: string | undefined;
  for (const line of text.split(/\r?\n/)) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === "data") data.push(value ?? "");
    else if (field === "id") id = value;
  }
  return { data: data.join("\n"), ...(id !== undefined && { id }) };
}
