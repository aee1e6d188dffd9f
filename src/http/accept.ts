/** The media types that a client accepts as the answer to a POST. */
export interface Accepted {
  readonly json: boolean;
  readonly events: boolean;
}

/** Requests carry the same few values; bounded, because anyone can send any. */
const known = new Map<string, Accepted>();
const KNOWN_MAX = 64;

/** Reads an Accept header (RFC 9110, 12.5.1). A request without one accepts everything, but asks for no stream. */
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
    // A client that sends a wildcard did not ask for a stream in particular, so it gets none.
    events: ranges.includes("text/event-stream"),
  };
  if (known.size < KNOWN_MAX) known.set(header, accepted);
  return accepted;
}
