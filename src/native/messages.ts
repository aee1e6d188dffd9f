/**
 * The JSON messages of a response, whether one or a stream of them (`text/event-stream`). Throws if one is not JSON.
 */
export async function* messagesOf(response: Response): AsyncGenerator {
  if (!response.headers.get("content-type")?.startsWith("text/event-stream")) {
    yield await response.json();
    return;
  }
  for await (const data of eventData(response)) yield JSON.parse(data);
}

/** The data of each event (SSE standard); comments, ids and other fields are ignored. */
async function* eventData({ body }: Response): AsyncGenerator<string> {
  if (!body) return;
  let unread = "";
  let data: string[] = [];
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const lines = (unread + text).split(/\r\n|\n|\r(?!$)/);
    unread = lines.pop() ?? "";
    for (const line of lines) {
      if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      if (line !== "") continue;
      if (data.length > 0) yield data.join("\n");
      data = [];
    }
  }
}
