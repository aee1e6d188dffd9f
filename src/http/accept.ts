/** What a client takes as the answer to a POST. */
export interface Accepted {
  readonly json: boolean;
  readonly events: boolean;
}

/** The same few values come with every request; bounded, because anyone can send any. */
const known = new Map<string, Accepted>();
const KNOWN_MAX = 64;

/** Reads an Accept header (RFC 9110, 12.5.1). Without one everything is taken, but nobody asked for a stream. */
export function readAccept(header: string | undefined): Accepted {
  if (header === undefined) return { json: true, events: false };
  const seen = known.get(header);
  if (seen) return seen;
  const ranges = header.split(",").flatMap((part) => {
    const [range = "", ...parameters] = part.split(";").map((piece) => piece.trim().toLowerCase());
    const isRefused = parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter));
    return isRefused ? [] : [range];
  });
  const accepted = {
    json: ranges.some((range) => range === "application/json" || range === "application/*" || range === "*/*"),
    // A wildcard is what a client sends that has not thought about it; it gets no stream.
    events: ranges.includes("text/event-stream"),
  };
  if (known.size < KNOWN_MAX) known.set(header, accepted);
  return accepted;
}
